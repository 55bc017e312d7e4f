import CMeasuring

/// Makes the allocator keep freed memory between runs instead of returning it to the system.
///
/// Otherwise some runs pay for new pages, which on small machines costs as much as the measured operations. Has no
/// effect without glibc.
public func keepFreedMemory() {
    measuring_keep_freed_memory()
}

/// The resident memory of this process in bytes; 0 if unknown.
public func residentMemory() -> Int {
    Int(measuring_resident_bytes())
}

/// The memory of this process in bytes, of shared pages its proportion; 0 if unknown.
public func proportionalMemory() -> Int {
    Int(measuring_proportional_bytes())
}
