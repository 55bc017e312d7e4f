// Waiting for a change of a word in memory that processes share: a mapped page of a file.

#include "CForgeFileSystem.h"

#include <errno.h>
#include <limits.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

// futex(2), not private: the kernel identifies the word by the file and its place in it.

int forge_wait_for_signal(const void *word, uint32_t value, int64_t nanoseconds) {
    // The kernel's type for this call, whatever the C library's is.
    struct {
        long seconds, nanoseconds;
    } limit = {(long)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    long result = syscall(SYS_futex, word, FUTEX_WAIT, value, nanoseconds < 0 ? NULL : &limit, NULL, 0);
    return result >= 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT ? 0 : -1;
}

static void wake(void *word) { (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

#else
#include <os/clock.h>
#include <stddef.h>

#if __has_include(<os/os_sync_wait_on_address.h>)
#include <os/os_sync_wait_on_address.h>
#else
// As that header declares them.
enum { OS_SYNC_WAIT_ON_ADDRESS_SHARED = 1, OS_SYNC_WAKE_BY_ADDRESS_SHARED = 1 };
int os_sync_wait_on_address(void *address, uint64_t value, size_t size, uint32_t flags);
int os_sync_wait_on_address_with_timeout(
    void *address, uint64_t value, size_t size, uint32_t flags, uint32_t clock, uint64_t nanoseconds);
int os_sync_wake_by_address_all(void *address, size_t size, uint32_t flags);
#endif

// macOS 14.4, iOS 17.4. The kernel identifies the word by the memory object of the file and its place in it.

int forge_wait_for_signal(const void *word, uint32_t value, int64_t nanoseconds) {
    int result = nanoseconds < 0
        ? os_sync_wait_on_address((void *)word, value, sizeof value, OS_SYNC_WAIT_ON_ADDRESS_SHARED)
        : os_sync_wait_on_address_with_timeout(
              (void *)word, value, sizeof value, OS_SYNC_WAIT_ON_ADDRESS_SHARED, OS_CLOCK_MACH_ABSOLUTE_TIME,
              nanoseconds > 0 ? (uint64_t)nanoseconds : 1);
    return result >= 0 || errno == EINTR || errno == ETIMEDOUT ? 0 : -1;
}

static void wake(void *word) { (void)os_sync_wake_by_address_all(word, 4, OS_SYNC_WAKE_BY_ADDRESS_SHARED); }

#endif

void forge_signal(void *word) {
    // Before the call: a thread that is about to wait for the old value does not begin.
    __atomic_fetch_add((uint32_t *)word, 1, __ATOMIC_SEQ_CST);
    wake(word);
}
