/// Memory for the entries of a table, many at a time, so that they lie close together and each in a line of its own.
final class EntryPool: @unchecked Sendable {
    // Invariant of the unchecked conformance: it is used by the table's one writer, or by who gives the table up.

    private var slabs: [UnsafeMutableRawPointer] = []
    private var free: [UnsafeMutableRawPointer] = []

    /// What is left of the last slab.
    private var next = 0
    private var end = 0

    private static let smallestSlab = 16
    private static let largestSlab = 4096

    /// Memory for an entry.
    func take() -> UnsafeMutableRawPointer {
        if let address = free.popLast() { return address }
        if next == end { addSlab() }
        defer { next += 1 }
        return slabs[slabs.count - 1] + next * KeyEntry.size
    }

    private func addSlab() {
        end = min(max(2 * end, Self.smallestSlab), Self.largestSlab)
        next = 0
        slabs.append(.allocate(byteCount: end * KeyEntry.size, alignment: KeyEntry.size))
    }

    /// Takes memory back in which there is no entry any more.
    func giveBack(_ address: UnsafeMutableRawPointer) {
        free.append(address)
    }

    deinit {
        for slab in slabs { slab.deallocate() }
    }
}
