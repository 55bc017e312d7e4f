import CForgeKVStore

// Memory safety: A pool hands out each piece of memory once, of the requested size at least, until it is given back,
// and frees it in `deinit`; the owner of an arena's slabs frees these. Only the table's one writer calls.

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
        unsafe forge_prefer_large_pages(address, size)
        return unsafe address
    }
}

/// Memory for the entries of a table, many in one piece, so that those that were made together lie together.
@safe
final class EntryPool: @unchecked Sendable {
    // Invariant of the unchecked conformance: only the table's one writer uses it, or the deinitializer of the table.

    private var slabs: [UnsafeMutableRawPointer] = unsafe []
    private var totalSize = 0

    /// The free rest of the last slab.
    @exclusivity(unchecked) private var next = 0
    @exclusivity(unchecked) private var end = 0
    @exclusivity(unchecked) private var slab: UnsafeMutableRawPointer?

    /// Returned memory, by its size.
    @exclusivity(unchecked) private var free: [[UnsafeMutableRawPointer]] = unsafe []

    /// A line of a cache: an entry of a name that is not too long takes one.
    static let granularity = 64

    /// Memory of so many bytes, whose address is a multiple of ``granularity``.
    @inline(__always)
    func take(_ size: Int) -> UnsafeMutableRawPointer {
        let units = Self.units(size)
        if unsafe units < free.count, let address = unsafe free[units].popLast() { return unsafe address }
        let size = units * Self.granularity
        if unsafe end - next < size { addSlab(size) }
        defer { unsafe next += size }
        // There is a slab by now.
        return unsafe slab.unsafelyUnwrapped + next
    }

    @inline(never)
    private func addSlab(_ size: Int) {
        unsafe end = max(TableMemory.slabSize(after: totalSize), size)
        unsafe totalSize += end
        unsafe next = 0
        let address = unsafe TableMemory.allocate(end)
        unsafe slabs.append(address)
        unsafe slab = address
    }

    /// Takes memory of so many bytes back.
    func giveBack(_ address: UnsafeMutableRawPointer, _ size: Int) {
        let units = Self.units(size)
        while unsafe free.count <= units { unsafe free.append([]) }
        unsafe free[units].append(address)
    }

    private static func units(_ size: Int) -> Int { (size + granularity - 1) / granularity }

    deinit {
        unsafe slabs.forEach { unsafe $0.deallocate() }
    }
}

/// Memory for the encoded values that are loaded when a store is opened, or from a mirror's list: one allocation for
/// many values.
///
/// A value stays where it is until the arena is emptied or freed, so readers inside a read-side critical section may look at it.
@safe
final class ValueArena: @unchecked Sendable {
    // Invariant of the unchecked conformance: it is used by the table's one writer, or when the table is given up. The
    // same invariant makes checks of exclusive access needless, whose cost would slow loading.

    private var slabs: [(address: UnsafeMutableRawPointer, size: Int)] = unsafe []
    private var totalSize = 0
    @exclusivity(unchecked) private var next: UnsafeMutableRawPointer?
    @exclusivity(unchecked) private var room = 0

    /// Values that are longer are kept in objects of their own, which are freed when they are overwritten.
    static let maximumValueSize = 1 << 10

    /// A copy of a value of at most ``maximumValueSize`` bytes.
    @inline(__always)
    func copy(_ value: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
        if unsafe value.count >= room { addSlab() }
        // There is a slab by now.
        let address = unsafe next.unsafelyUnwrapped
        if let source = value.baseAddress { unsafe address.copyMemory(from: source, byteCount: value.count) }
        unsafe next = address + value.count
        unsafe room -= value.count
        return unsafe address
    }

    @inline(never)
    private func addSlab() {
        let size = TableMemory.slabSize(after: totalSize)
        totalSize += size
        let address = unsafe TableMemory.allocate(size)
        unsafe slabs.append((address, size))
        unsafe next = address
        unsafe room = size
    }

    /// Gives up all memory, for the caller to free.
    func takeSlabs() -> [(address: UnsafeMutableRawPointer, size: Int)] {
        defer {
            unsafe slabs = []
            totalSize = 0
            unsafe room = 0
        }
        return unsafe slabs
    }

    deinit {
        unsafe slabs.forEach { unsafe $0.address.deallocate() }
    }
}
