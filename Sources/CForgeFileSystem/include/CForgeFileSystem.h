#ifndef C_FORGE_FILE_SYSTEM_H
#define C_FORGE_FILE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/// Whether this processor computes CRC-32C itself (SSE 4.2, ARMv8 CRC).
int forge_crc32c_is_accelerated(void);

/// Carries a CRC-32C, given and returned without the final inversion, over `size` bytes; only where accelerated.
uint32_t forge_crc32c_accelerated(uint32_t state, const void *bytes, size_t size);

// Linux system calls that the C library offers only through the variadic syscall(2), which Swift cannot call.
#if defined(__linux__)

/// openat2(2), Linux 5.6: -1 and errno, ENOSYS where the kernel (or a sandbox) does not know it.
int forge_openat2(int directory, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);

/// renameat2(2), Linux 3.15; Musl has no function of that name.
int forge_renameat2(
    int directory, const char *path, int new_directory, const char *new_path, unsigned int flags);

/// getdents64(2): fills `buffer` with struct linux_dirent64 records, returns the bytes used, 0 at the end.
long forge_getdents64(int descriptor, void *buffer, size_t size);

#endif

#endif
