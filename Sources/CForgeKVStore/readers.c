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

// Runs in the child, which has the forking thread alone: records of the others would stay inside a section for ever.
static void forget_other_threads(void) {
    for (struct forge_reader *reader = forge_first_reader(); reader; reader = reader->next) {
        if (reader == forge_own_reader) continue;
        size_t passes = __c11_atomic_load(&reader->passes, __ATOMIC_RELAXED);
        if (passes % 2) __c11_atomic_store(&reader->passes, passes + 1, __ATOMIC_RELAXED);
        __c11_atomic_store(&reader->is_taken, 0, __ATOMIC_RELAXED);
    }
}

static void prepare(void) {
    pthread_key_create(&end_of_thread, give_back);
    pthread_atfork(0, 0, forget_other_threads);
#if defined(__linux__)
    long known = syscall(SYS_membarrier, query, 0, 0);
    is_ordered = known >= 0 && (known & private_expedited) != 0
        && syscall(SYS_membarrier, register_private_expedited, 0, 0) == 0;
#endif
}

int forge_writer_fences_readers(void) {
    pthread_once(&once, prepare);
    return is_ordered;
}

int forge_fence_readers(void) {
#if defined(__linux__)
    if (is_ordered) {
        if (syscall(SYS_membarrier, private_expedited, 0, 0) == 0) return 1;
        // A process that was forked may have to register again.
        return syscall(SYS_membarrier, register_private_expedited, 0, 0) == 0
            && syscall(SYS_membarrier, private_expedited, 0, 0) == 0;
    }
#endif
    __c11_atomic_thread_fence(__ATOMIC_SEQ_CST);
    return 1;
}

// Why a copy that is made here can never refer to freed memory, whatever the compilers do.
//
// A writer that has replaced a value releases its own reference after it has seen, with an acquiring load, that every
// thread has left the section in which it could have found the value. The copy is safe if its reference was counted
// before that: before the store in `forge_leave`, in the order of this thread and in that of memory.
//
// - Compiler: `copier` is called through a pointer, and the Swift function behind it has to have initialized `copy`, its
//   references counted, when it returns to a caller that it does not know. The Swift optimizer, which knows what counting
//   references means and moves it past other memory operations, sees neither this function's body nor, while it compiles
//   the copier, the store that follows. To the C compiler the call may read and write any memory, and the store has release
//   order: it cannot move before the call. Link-time optimization runs LLVM's passes only, to which counting a reference is a
//   call like any other.
// - x86: counting is a locked instruction, and stores become visible in program order.
// - ARM: counting is an exclusive pair or an atomic addition without order; the store-release (`stlr`) is observed after all
//   earlier loads and stores of this thread, theirs included.
//
// So the writer that sees the section left also sees the reference counted, and its release does not free the memory. The
// same holds for every plain load of the copier. Nothing here depends on the layout of the value.
//
// A reference that was found in a section must not be counted elsewhere: a function that Swift can see into may be inlined,
// and its counting moved behind the store, where the memory may be gone. Code that holds the writer's lock needs none of
// this: only a writer retires values.
// Swift declares it as a generic function (`copyAndLeave` in Reclamation.swift): its calling convention passes the address
// of the result in the register of indirect results, so the copy is made where the caller wants it, and the type after the
// other arguments, where it is not looked at.
__attribute__((swiftcall, noinline)) void forge_copy_and_leave(
    __attribute__((swift_indirect_result)) void *copy, forge_copy copier, const void *original, struct forge_reader *reader
) {
    copier(original, copy);
    forge_leave(reader);
}

struct forge_reader *forge_first_reader(void) { return __c11_atomic_load(&first_reader, __ATOMIC_SEQ_CST); }

static struct forge_reader *take(void) {
    for (struct forge_reader *reader = forge_first_reader(); reader; reader = reader->next) {
        int free = 0;
        if (__c11_atomic_compare_exchange_strong(&reader->is_taken, &free, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return reader;
        }
    }
    // Two cache lines for each, because processors fetch two at a time: threads do not share the lines that they write.
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
