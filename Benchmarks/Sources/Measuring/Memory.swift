import CMeasuring

/// Lets the allocator keep the memory that is freed instead of giving it back to the system between runs.
///
/// Otherwise some runs pay for new pages that others are spared, depending on where pieces of memory happen to lie, and
/// on small machines that is as much as what is measured. Without glibc it does nothing.
public func keepFreedMemory() {
    measuring_keep_freed_memory()
}

/// How much memory of this process is resident, in bytes; 0 where the system does not tell.
public func residentMemory() -> Int {
    Int(measuring_resident_bytes())
}
