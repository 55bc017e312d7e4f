// Tells the thread sanitizer what a contended `Synchronization.Mutex` does on Linux.
//
// Taking a free Mutex is inlined and so instrumented; waiting for one happens in the runtime's library, which is not:
// without this, everything that such a Mutex protects is reported as a race. Preloaded, these two stand before the
// library's functions, call them, and report the acquisition and the release on the lock's own word, on which the
// instrumented half reports too.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *

// Only in processes that run under the sanitizer.
__attribute__((weak)) void __tsan_acquire(void *);
__attribute__((weak)) void __tsan_release(void *);

SWIFT void tsan_lock(uint32_t thread, SELF handle) __asm__(LOCK);
SWIFT void tsan_unlock(SELF handle) __asm__(UNLOCK);

SWIFT void tsan_lock(uint32_t thread, SELF handle) {
    SWIFT void (*lock)(uint32_t, SELF) = (SWIFT void (*)(uint32_t, SELF))dlsym(RTLD_NEXT, LOCK);
    lock(thread, handle);
    if (__tsan_acquire) __tsan_acquire(handle);
}

SWIFT void tsan_unlock(SELF handle) {
    SWIFT void (*unlock)(SELF) = (SWIFT void (*)(SELF))dlsym(RTLD_NEXT, UNLOCK);
    if (__tsan_release) __tsan_release(handle);
    unlock(handle);
}
