#include "CForgeKVStore.h"

#include <pthread.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

// From <linux/membarrier.h>, which not every system has.
enum { query = 0, private_expedited = 1 << 3, register_private_expedited = 1 << 4 };
#endif

_Thread_local struct forge_reader *forge_own_reader;

static _Atomic(struct forge_reader *) first_reader;
static pthread_key_t end_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_ordered;

static void give_back(void *record) {
    struct forge_reader *reader = record;
    forge_own_reader = 0;
    __c11_atomic_store(&reader->is_taken, 0, __ATOMIC_RELEASE);
}

static void prepare(void) {
    pthread_key_create(&end_of_thread, give_back);
#if defined(__linux__)
    long known = syscall(SYS_membarrier, query, 0, 0);
    is_ordered = known >= 0 && (known & private_expedited) != 0
        && syscall(SYS_membarrier, register_private_expedited, 0, 0) == 0;
#endif
}

int forge_orders_readers(void) {
    pthread_once(&once, prepare);
    return is_ordered;
}

void forge_order_readers(void) {
#if defined(__linux__)
    if (is_ordered) {
        while (syscall(SYS_membarrier, private_expedited, 0, 0) != 0) {
            // A process that was forked may have to say again that it wants this.
            if (syscall(SYS_membarrier, register_private_expedited, 0, 0) != 0) abort();
        }
        return;
    }
#endif
    __c11_atomic_thread_fence(__ATOMIC_SEQ_CST);
}

struct forge_reader *forge_first_reader(void) { return __c11_atomic_load(&first_reader, __ATOMIC_SEQ_CST); }

static struct forge_reader *take(void) {
    for (struct forge_reader *reader = forge_first_reader(); reader; reader = reader->next) {
        int free = 0;
        if (__c11_atomic_compare_exchange_strong(&reader->is_taken, &free, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return reader;
        }
    }
    // Two cache lines for each: processors fetch two at a time, and no thread shall write where another does.
    void *memory = 0;
    if (posix_memalign(&memory, 128, sizeof(struct forge_reader)) != 0) abort();
    struct forge_reader *reader = memory;
    __c11_atomic_init(&reader->passes, 0);
    __c11_atomic_init(&reader->is_taken, 1);
    struct forge_reader *first = forge_first_reader();
    do {
        reader->next = first;
    } while (!__c11_atomic_compare_exchange_weak(&first_reader, &first, reader, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return reader;
}

struct forge_reader *forge_make_reader(void) {
    pthread_once(&once, prepare);
    struct forge_reader *reader = take();
    forge_own_reader = reader;
    pthread_setspecific(end_of_thread, reader);
    return reader;
}
