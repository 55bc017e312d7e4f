import CForgeKVStore

/// Memory of a table; large pieces are asked for in large pages.
enum TableMemory {
    /// The size of a large page.
    static let largePage = 2 << 20

    /// The size of the next piece for objects that take `total` bytes so far: large pages only once they would leave at
    /// most a quarter of the memory unused, because the system provides a large page as a whole.
    static func slabSize(after total: Int) -> Int {
        total >= 4 * largePage ? largePage : min(max(total, 1 << 12), largePage / 4)
    }

    /// Memory whose address is a multiple of 64.
    static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
        guard size >= largePage else { return .allocate(byteCount: size, alignment: 64) }
        let size = (size + largePage - 1) / largePage * largePage
        let address = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: largePage)
        forge_prefer_large_pages(address, size)
        return address
    }
}

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

/// Memory for the encoded values that are loaded when a store is opened, or from a mirror's list: one allocation for
/// many values.
///
/// A value stays where it is until the arena is emptied or freed, so readers inside a read-side critical section may look at it.
final class ValueArena: @unchecked Sendable {
    // Invariant of the unchecked conformance: it is used by the table's one writer, or when the table is given up. The
    // same invariant makes checks of exclusive access needless, whose cost would slow loading.

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
