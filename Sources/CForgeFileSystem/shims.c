#if defined(__linux__)

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include "CForgeFileSystem.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

// Of linux/openat2.h, which older C libraries do not ship.
struct forge_open_how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

int forge_openat2(int directory, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct forge_open_how how = {flags, mode, resolve};
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
}

// Of linux/fs.h, which clashes with headers of some C libraries.
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

long forge_read_cached(int descriptor, void *buffer, size_t size, int64_t offset) {
    struct iovec vector = {buffer, size};
    return syscall(SYS_preadv2, descriptor, &vector, 1, (long)offset, (long)((uint64_t)offset >> 32), RWF_NOWAIT);
}

int forge_is_on_local_file_system(int descriptor) {
    struct statfs status;
    if (fstatfs(descriptor, &status) != 0) return 0;
    switch ((unsigned long)status.f_type) {
    case 0xEF53:      // ext2, ext3, ext4
    case 0x58465342:  // XFS
    case 0x9123683E:  // Btrfs
    case 0xF2F52010:  // F2FS
    case 0x01021994:  // tmpfs
        return 1;
    default:
        return 0;
    }
}

int forge_renameat2(
    int directory, const char *path, int new_directory, const char *new_path, unsigned int flags) {
    return (int)syscall(SYS_renameat2, directory, path, new_directory, new_path, flags);
}

// Of linux/stat.h, which cannot be included beside the sys/stat.h of every C library.
struct forge_statx {
    uint32_t mask;
    uint32_t block_size;
    uint64_t attributes;
    uint32_t link_count;
    uint32_t owner;
    uint32_t group;
    uint16_t mode;
    uint16_t spare;
    uint64_t inode;
    uint64_t size;
    uint64_t rest[26];
};

_Static_assert(sizeof(struct forge_statx) == 256, "the size of struct statx");

#ifndef SYS_statx
#define SYS_statx (-1)
#endif

int forge_status_without_times(int directory, const char *path, int flags, struct forge_brief_status *status) {
    // STATX_NLINK, STATX_INO and STATX_SIZE.
    const unsigned int wanted = 0x4 | 0x100 | 0x200;
    struct forge_statx found = {0};
    if (syscall(SYS_statx, directory, path, flags, wanted, &found) != 0) return -1;
    if ((found.mask & wanted) != wanted) {
        errno = EOPNOTSUPP;
        return -1;
    }
    *status = (struct forge_brief_status){found.inode, (int64_t)found.size, found.link_count};
    return 0;
}

long forge_copy_file_range(int source, int64_t source_offset, int target, int64_t target_offset, size_t count) {
    return syscall(SYS_copy_file_range, source, &source_offset, target, &target_offset, count, 0);
}

void forge_start_writing_back(int descriptor) {
    int error = errno;
    sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
    errno = error;
}

int forge_synchronize_file_system(int descriptor) {
    return syncfs(descriptor);
}

long forge_list_attributes(int descriptor, char *names, size_t size) {
    return flistxattr(descriptor, names, size);
}

long forge_get_attribute(int descriptor, const char *name, void *value, size_t size) {
    return fgetxattr(descriptor, name, value, size);
}

int forge_set_attribute(int descriptor, const char *name, const void *value, size_t size) {
    return fsetxattr(descriptor, name, value, size, 0);
}

long forge_getdents64(int descriptor, void *buffer, size_t size) {
    return syscall(SYS_getdents64, descriptor, buffer, size);
}

#endif
