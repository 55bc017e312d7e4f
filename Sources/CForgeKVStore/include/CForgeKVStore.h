#ifndef C_FORGE_KV_STORE_H
#define C_FORGE_KV_STORE_H

#include <stddef.h>
#include <stdint.h>

/// Asks for large pages behind memory that is looked at in no order, where the system has them for the asking: a table of
/// some megabytes costs a walk through the page table at nearly every look otherwise.
void forge_prefer_large_pages(void *_Nonnull address, size_t size);

/// Begins to fetch the line of a cache at an address.
static inline void forge_prefetch(const void *_Nonnull address) { __builtin_prefetch(address); }

/// The reader record of a thread: a counter that is odd while the thread is inside a read-side critical section. Only its
/// thread writes the counter. Records are never freed; a new thread reuses the record of one that has ended.
struct forge_reader {
    _Atomic(size_t) passes;
    _Atomic(int) is_taken;
    struct forge_reader *_Nullable next;
    char padding[104];
};

extern _Thread_local struct forge_reader *_Nullable forge_own_reader;

/// Makes the record of the calling thread.
struct forge_reader *_Nonnull forge_make_reader(void);

/// Whether `forge_fence_readers` makes other threads pass a fence, so that readers need none of their own.
int forge_writer_fences_readers(void);

/// Makes every thread of the process pass a memory fence (`membarrier(2)`, `MEMBARRIER_CMD_PRIVATE_EXPEDITED`), or the
/// calling one where readers pass fences of their own. Returns 0 if the system refuses, as a sandbox does that was entered
/// after the first use: nothing is known of other threads then.
int forge_fence_readers(void);

/// The first of all records; each leads to the next.
struct forge_reader *_Nullable forge_first_reader(void);

/// The counter of a record. The thread's accesses before it left a section happen before what the caller does next.
static inline size_t forge_reader_passes(const struct forge_reader *_Nonnull reader) {
    return __c11_atomic_load(&reader->passes, __ATOMIC_SEQ_CST);
}

/// Enters a read-side critical section; sections do not nest. Either a writer that orders readers from now on sees that the
/// thread is inside, or the thread sees what the writer did before.
static inline struct forge_reader *_Nonnull forge_enter(int is_ordered) {
    struct forge_reader *reader = forge_own_reader;
    if (__builtin_expect(reader == 0, 0)) reader = forge_make_reader();
    size_t passes = __c11_atomic_load(&reader->passes, __ATOMIC_RELAXED) + 1;
    __c11_atomic_store(&reader->passes, passes, __ATOMIC_RELAXED);
    if (__builtin_expect(is_ordered, 1)) {
        // The writer's membarrier is the fence; the compiler keeps the order of the instructions.
        __c11_atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        // A fence, because on ARM a sequentially consistent exchange would not keep later loads from moving before it.
        __c11_atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    return reader;
}

/// Leaves a read-side critical section, by the record that entering it gave. A reference that was found inside must not be
/// used any more, not even to count it; see `forge_copy_and_leave` in readers.c.
static inline void forge_leave(struct forge_reader *_Nonnull reader) {
    size_t passes = __c11_atomic_load(&reader->passes, __ATOMIC_RELAXED) + 1;
    __c11_atomic_store(&reader->passes, passes, __ATOMIC_RELEASE);
}

/// Initializes `copy` with a copy of `original` that has owned references of its own.
typedef void (*forge_copy)(const void *_Nonnull original, void *_Nonnull copy);

/// Loads eight bytes that other processes may be storing into, and, for the caller, all that was done before it
/// was stored.
static inline uint64_t forge_load_word(const void *_Nonnull address) {
    return __c11_atomic_load((const _Atomic(uint64_t) *)address, __ATOMIC_ACQUIRE);
}

/// Stores eight bytes at once, after all that the caller has done before.
static inline void forge_store_word(void *_Nonnull address, uint64_t word) {
    __c11_atomic_store((_Atomic(uint64_t) *)address, word, __ATOMIC_RELEASE);
}

/// Sets or clears a bit in words of eight bytes that other processes may be changing.
static inline void forge_set_bit(void *_Nonnull words, size_t index, int is_set) {
    _Atomic(uint64_t) *word = (_Atomic(uint64_t) *)words + index / 64;
    uint64_t bit = (uint64_t)1 << index % 64;
    if (is_set) {
        __c11_atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST);
    } else {
        __c11_atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST);
    }
    // A load that follows sees what a process stored that did not see the bit.
    __c11_atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/// Whether another bit than that of `index` is set, as seen after all earlier stores of the caller have become visible.
static inline int forge_has_other_bit(const void *_Nonnull words, size_t count, size_t index) {
    __c11_atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (size_t i = 0; i < count; i++) {
        uint64_t word = __c11_atomic_load((const _Atomic(uint64_t) *)words + i, __ATOMIC_RELAXED);
        if (i == index / 64) word &= ~((uint64_t)1 << index % 64);
        if (word != 0) return 1;
    }
    return 0;
}

/// How many times this process is a child of `fork(2)` without another program having been executed since, as far as the C
/// library was used; what it counts is counted from the first call of `forge_start_counting_forks` on.
extern _Atomic(uint32_t) forge_fork_count;

static inline uint32_t forge_forks(void) { return __c11_atomic_load(&forge_fork_count, __ATOMIC_RELAXED); }

/// The same; begins to count.
uint32_t forge_start_counting_forks(void);

/// Whether a process of this number is running, as far as the system tells: one that has ended but was not waited for
/// is not.
int forge_process_is_running(int32_t process_id);

/// When a process was started, in units of the system; 0 if that cannot be told.
uint64_t forge_process_start(int32_t process_id);

/// A number that this run of the system has, and hardly any other one; 0 if there is none.
uint32_t forge_boot_number(void);

#endif
