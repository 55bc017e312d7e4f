#if canImport(Darwin)
import Darwin

/// Writes zeros that the optimiser must not remove (`memset_s(3)`).
func secureErase(_ memory: UnsafeMutableRawBufferPointer) {
    guard let start = memory.baseAddress else { return }
    // It can fail only for sizes beyond the address space.
    _ = memset_s(start, memory.count, 0, memory.count)
}
#endif
