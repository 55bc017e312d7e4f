#if defined(__APPLE__)
#define __STDC_WANT_LIB_EXT1__ 1
#else
#define _DEFAULT_SOURCE
#endif
#include <string.h>
#include "CForgeFileSystem.h"

void forge_erase(void *bytes, size_t size) {
    if (size == 0) return;
#if defined(__APPLE__)
    // It can fail only for sizes beyond the address space.
    (void)memset_s(bytes, size, 0, size);
#else
    explicit_bzero(bytes, size);
#endif
}
