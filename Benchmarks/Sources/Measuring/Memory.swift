import CMeasuring

/// Lets the allocator keep the memory that is freed instead of giving it back to the system between runs.
///
/// Otherwise some runs pay for new pages that others are spared, depending on where pieces of memory happen to lie, and
/// on small machines that is as much as what is measured. Without glibc it does nothing.
public func keepFreedMemory() {
    measuring_keep_freed_memory()
}
