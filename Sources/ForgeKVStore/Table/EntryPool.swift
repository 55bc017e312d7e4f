/// Memory for the entries of a table, many in one piece, so that those that were made together lie together.
final class EntryPool: @unchecked Sendable {
    // Invariant of the unchecked conformance: only the table's one writer uses it, or the deinitializer of the table.

    private var slabs: [UnsafeMutableRawPointer] = []
    private var totalSize = 0

    /// The free rest of the last slab.
    @exclusivity(unchecked) private var next = 0
    @exclusivity(unchecked) private var end = 0
    @exclusivity(unchecked) private var slab: UnsafeMutableRawPointer?

    /// Returned memory, by its size.
    @exclusivity(unchecked) private var free: [[UnsafeMutableRawPointer]] = []

    /// A line of a cache: an entry of a name that is not too long takes one.
    static let granularity = 64

    /// Memory of so many bytes, whose address is a multiple of ``granularity``.
    @inline(__always)
    func take(_ size: Int) -> UnsafeMutableRawPointer {
        let units = Self.units(size)
        if units < free.count, let address = free[units].popLast() { return address }
        let size = units * Self.granularity
        if end - next < size { addSlab(size) }
        defer { next += size }
        // There is a slab by now.
        return slab.unsafelyUnwrapped + next
    }

    @inline(never)
    private func addSlab(_ size: Int) {
        end = max(TableMemory.slabSize(after: totalSize), size)
        totalSize += end
        next = 0
        let address = TableMemory.allocate(end)
        slabs.append(address)
        slab = address
    }

    /// Takes memory of so many bytes back.
    func giveBack(_ address: UnsafeMutableRawPointer, _ size: Int) {
        let units = Self.units(size)
        while free.count <= units { free.append([]) }
        free[units].append(address)
    }

    private static func units(_ size: Int) -> Int { (size + granularity - 1) / granularity }

    deinit {
        for slab in slabs { slab.deallocate() }
    }
}
