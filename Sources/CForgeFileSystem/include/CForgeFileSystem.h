#ifndef C_FORGE_FILE_SYSTEM_H
#define C_FORGE_FILE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/// Whether this processor computes CRC-32C itself (SSE 4.2, ARMv8 CRC).
static inline int forge_crc32c_is_accelerated(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    return 1;
#else
    return 0;
#endif
}

/// Updates a CRC-32C, given and returned without the final inversion, with `size` bytes; only where accelerated.
uint32_t forge_crc32c_accelerated(uint32_t state, const void *bytes, size_t size);

/// Writes zeros that the optimiser must not remove (explicit_bzero(3), on Darwin memset_s(3)).
void forge_erase(void *bytes, size_t size);

/// A part of a file, mapped for reading and writing, whose accesses never raise SIGBUS.
struct forge_mapping;

/// Maps a part of a file, shared (mmap(2)); NULL and errno if that fails.
struct forge_mapping *forge_map(int descriptor, int64_t offset, size_t count);

/// Maps the first bytes of a file privately: stores change a copy of the page, not the file.
struct forge_mapping *forge_map_privately(int descriptor, size_t count);

/// The first byte.
void *forge_mapping_base(const struct forge_mapping *mapping);

/// The address of eight bytes that are not 0 once an access hit a page without a file behind it. Such a page is private
/// to the process from then on.
const void *forge_mapping_fault(const struct forge_mapping *mapping);

/// The value of those bytes; not 0 if an earlier access of the calling thread has faulted.
static inline uint64_t forge_load_fault(const void *fault) {
    // The handler runs in the faulting thread, so the compiler must not move the load before the access. The processor
    // does not: a fault is precise, and later instructions are executed again.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n((const uint64_t *)fault, __ATOMIC_RELAXED);
}

/// Whether the code of a SIGBUS (`si_code`) tells of an access, not of a process that has sent the signal: such codes are
/// 0 and below on Linux, 0x10001 (`SI_USER`) and above on Darwin.
int forge_is_fault(int code);

/// Maps the file again at the same address: 0, or -1 and errno, after which the old mapping may be gone.
int forge_remap(struct forge_mapping *mapping, int descriptor, int64_t offset, size_t count);

/// Removes the mapping.
void forge_unmap(struct forge_mapping *mapping, size_t count);

/// The value of a word by which processes signal, for `forge_wait_for_signal`.
static inline uint32_t forge_load_signal(const void *word) {
    return __atomic_load_n((const uint32_t *)word, __ATOMIC_SEQ_CST);
}

/// Waits until another thread of any process calls `forge_signal` for the word, unless it has another value than `value`
/// already: 0, also after `nanoseconds` (less than 0: no limit) and now and then for no reason; -1 and errno if the system
/// cannot wait for this word.
///
/// The word lies in a shared mapping of a file, at a multiple of four bytes.
int forge_wait_for_signal(const void *word, uint32_t value, int64_t nanoseconds);

/// Changes the word and wakes all threads that wait for it.
void forge_signal(void *word);

/// Starts a thread that calls `body` with `context` and ends with it (pthread_create(3)): 0, or -1 if there is no thread.
///
/// The thread handles only signals that it raises itself.
int forge_start_thread(void (*body)(void *), void *context);

// Linux system calls that the C library offers only through the variadic syscall(2), which Swift cannot call, or in a
// header that Swift does not import.
#if defined(__linux__)

/// openat2(2), Linux 5.6: -1 and errno, ENOSYS where the kernel (or a sandbox) does not support it.
int forge_openat2(int directory, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);

/// preadv2(2) with RWF_NOWAIT, Linux 4.14: the number of bytes that are in memory from an offset on, or -1 and errno,
/// EAGAIN if reading would wait.
long forge_read_cached(int descriptor, void *buffer, size_t size, int64_t offset);

/// Whether an open file is on a file system of this machine's own devices whose opens and closes wait for no server.
int forge_is_on_local_file_system(int descriptor);

/// renameat2(2), Linux 3.15; Musl has no function of that name.
int forge_renameat2(
    int directory, const char *path, int new_directory, const char *new_path, unsigned int flags);

/// copy_file_range(2), Linux 4.5: the number of bytes copied, or -1 and errno.
long forge_copy_file_range(int source, int64_t source_offset, int target, int64_t target_offset, size_t count);

/// Starts to write a file's modified pages to the device (sync_file_range(2)); reports no error.
void forge_start_writing_back(int descriptor);

/// syncfs(2).
int forge_synchronize_file_system(int descriptor);

/// flistxattr(2): the size of the list of names, each with its NUL; copied to `names` unless `size` is 0.
long forge_list_attributes(int descriptor, char *names, size_t size);

/// fgetxattr(2): the size of the value, which is copied to `value` unless `size` is 0.
long forge_get_attribute(int descriptor, const char *name, void *value, size_t size);

/// fsetxattr(2), to create or replace.
int forge_set_attribute(int descriptor, const char *name, const void *value, size_t size);

struct forge_brief_status {
    uint64_t inode;
    int64_t size;
    uint64_t link_count;
};

/// statx(2) of a file without its times, Linux 4.11: -1 and errno, EOPNOTSUPP if the file system cannot answer.
int forge_status_without_times(int directory, const char *path, int flags, struct forge_brief_status *status);

/// getdents64(2): fills `buffer` with struct linux_dirent64 records, returns the bytes used, 0 at the end.
long forge_getdents64(int descriptor, void *buffer, size_t size);

#endif

#endif
