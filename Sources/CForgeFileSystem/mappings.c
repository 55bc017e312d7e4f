// An access to a mapped page without a file behind it (another program truncated the file, or the device has no space
// for the page) raises SIGBUS, which ends the process. A store cannot return an error, so the handler below replaces
// the missing page by an anonymous one, records the fault in the mapping's record, and lets the access be repeated.
//
// The handler makes one system call, mmap(2), and reads a list whose nodes are never freed: it is async-signal-safe.
// Signals for addresses outside the list go to the handler that was installed before.

#include "CForgeFileSystem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct forge_mapping {
    /// 0 while the node is free, 1 while it is being filled or removed, the first address otherwise.
    _Atomic(uintptr_t) base;
    _Atomic(uintptr_t) end;
    _Atomic(uint64_t) has_faulted;
    struct forge_mapping *next;
};

static _Atomic(struct forge_mapping *) mappings;
static struct sigaction previous;
static uintptr_t page_size;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int forge_is_fault(int code) { return code > 0 && code < 0x10000; }

static void call_previous(int number, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(number, info, context);
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(number);
    // A signal sent by kill(2) may be ignored; a faulting access cannot be, and faults again with the default action.
    int is_fault = forge_is_fault(info->si_code);
    if (previous.sa_handler == SIG_IGN && !is_fault) return;
    signal(number, SIG_DFL);
    if (!is_fault) raise(number);
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    struct forge_mapping *mapping = forge_is_fault(info->si_code) ? atomic_load(&mappings) : NULL;
    for (; mapping; mapping = mapping->next) {
        uintptr_t base = atomic_load(&mapping->base);
        if (base <= 1 || address < base || address >= atomic_load(&mapping->end)) continue;
        int error = errno;
        void *page = mmap(
            (void *)(address & ~(page_size - 1)), page_size, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0);
        errno = error;
        if (page == MAP_FAILED) break;
        atomic_store(&mapping->has_faulted, 1);
        return;
    }
    call_previous(number, info, context);
}

static void install(void) {
    page_size = (uintptr_t)getpagesize();
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_bus_error;
    sigaction(SIGBUS, &action, &previous);
}

/// A node of the list that only the caller uses.
static struct forge_mapping *take_node(void) {
    for (struct forge_mapping *node = atomic_load(&mappings); node; node = node->next) {
        uintptr_t expected = 0;
        if (atomic_compare_exchange_strong(&node->base, &expected, 1)) return node;
    }
    struct forge_mapping *node = calloc(1, sizeof *node);
    if (!node) return NULL;
    atomic_init(&node->base, 1);
    node->next = atomic_load(&mappings);
    while (!atomic_compare_exchange_weak(&mappings, &node->next, node)) {}
    return node;
}

static struct forge_mapping *map(int descriptor, int64_t offset, size_t count, int kind) {
    pthread_once(&once, install);
    struct forge_mapping *node = take_node();
    if (!node) {
        errno = ENOMEM;
        return NULL;
    }
    void *base = mmap(NULL, count, PROT_READ | PROT_WRITE, kind, descriptor, (off_t)offset);
    if (base == MAP_FAILED) {
        atomic_store(&node->base, 0);
        return NULL;
    }
    atomic_store(&node->has_faulted, 0);
    atomic_store(&node->end, ((uintptr_t)base + count + page_size - 1) & ~(page_size - 1));
    atomic_store(&node->base, (uintptr_t)base);
    return node;
}

struct forge_mapping *forge_map(int descriptor, int64_t offset, size_t count) {
    return map(descriptor, offset, count, MAP_SHARED);
}

struct forge_mapping *forge_map_privately(int descriptor, size_t count) {
    // Without MAP_NORESERVE the kernel would refuse files larger than memory, because all pages could be changed.
    return map(descriptor, 0, count, MAP_PRIVATE | MAP_NORESERVE);
}

void *forge_mapping_base(const struct forge_mapping *mapping) { return (void *)atomic_load(&mapping->base); }

const void *forge_mapping_fault(const struct forge_mapping *mapping) { return &mapping->has_faulted; }

int forge_remap(struct forge_mapping *mapping, int descriptor, int64_t offset, size_t count) {
    // Cleared first, so that every later fault is recorded.
    atomic_store(&mapping->has_faulted, 0);
    void *base = mmap(
        forge_mapping_base(mapping), count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, (off_t)offset);
    if (base != MAP_FAILED) return 0;
    atomic_store(&mapping->has_faulted, 1);
    return -1;
}

void forge_unmap(struct forge_mapping *mapping, size_t count) {
    void *base = (void *)atomic_exchange(&mapping->base, 1);
    // This can fail only for a range that was never mapped.
    munmap(base, count);
    atomic_store(&mapping->base, 0);
}
