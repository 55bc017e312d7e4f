/// Memory for the encoded values that are loaded when a store is opened, or from a mirror's list: one allocation for
/// many values.
///
/// A value stays where it is until the arena is emptied or freed, so readers inside the gate may look at it.
final class ValueArena: @unchecked Sendable {
    // Invariant of the unchecked conformance: it is used by the table's one writer, or when the table is given up. The
    // same invariant makes checks of exclusive access needless, which loading would notice.

    private var slabs: [(address: UnsafeMutableRawPointer, size: Int)] = []
    private var totalSize = 0
    @exclusivity(unchecked) private var next: UnsafeMutableRawPointer?
    @exclusivity(unchecked) private var room = 0

    /// Values that are longer are kept in objects of their own, which are freed when they are overwritten.
    static let maximumValueSize = 1 << 10

    /// A copy of a value of at most ``maximumValueSize`` bytes.
    @inline(__always)
    func copy(_ value: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
        if value.count >= room { addSlab() }
        // There is a slab by now.
        let address = next.unsafelyUnwrapped
        if let source = value.baseAddress { address.copyMemory(from: source, byteCount: value.count) }
        next = address + value.count
        room -= value.count
        return address
    }

    @inline(never)
    private func addSlab() {
        let size = TableMemory.slabSize(after: totalSize)
        totalSize += size
        let address = TableMemory.allocate(size)
        slabs.append((address, size))
        next = address
        room = size
    }

    /// Gives up all memory, for the caller to free.
    func takeSlabs() -> [(address: UnsafeMutableRawPointer, size: Int)] {
        defer {
            slabs = []
            totalSize = 0
            room = 0
        }
        return slabs
    }

    deinit {
        for slab in slabs { slab.address.deallocate() }
    }
}
