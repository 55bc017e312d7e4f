#include "CForgeKVStore.h"

#if defined(__linux__)
#include <sys/mman.h>

void forge_prefer_large_pages(void *_Nonnull address, size_t size) {
    // Advice: without large pages everything is as before.
    (void)madvise(address, size, MADV_HUGEPAGE);
}
#else
void forge_prefer_large_pages(void *_Nonnull address, size_t size) {
    (void)address;
    (void)size;
}
#endif
