#include "CForgeKVStore.h"

#include <pthread.h>

_Atomic(uint32_t) forge_fork_count;

static pthread_once_t once = PTHREAD_ONCE_INIT;

// Runs in the child, which has one thread.
static void count_fork(void) { __c11_atomic_fetch_add(&forge_fork_count, 1, __ATOMIC_RELAXED); }

static void prepare(void) { pthread_atfork(0, 0, count_fork); }

uint32_t forge_start_counting_forks(void) {
    pthread_once(&once, prepare);
    return forge_forks();
}
