#define _GNU_SOURCE
#include "CMeasuring.h"

#include <stdio.h>

#ifdef __APPLE__
int measuring_exchange(int directory, const char *first, const char *second) {
    return renameatx_np(directory, first, directory, second, RENAME_SWAP);
}
#else
#include <sys/syscall.h>
#include <unistd.h>

int measuring_exchange(int directory, const char *first, const char *second) {
    return (int)syscall(SYS_renameat2, directory, first, directory, second, 2);
}
#endif
