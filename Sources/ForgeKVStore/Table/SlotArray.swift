import Synchronization

/// The memory of a table: a power of two of slots, each empty or leading to an entry. An entry stands in the first slot
/// from that of its hash on that was free (linear probing); no slot is ever emptied again.
struct SlotArray {
    private struct Slot: ~Copyable {
        /// Written before the address is.
        var hash: UInt64
        let entry: Atomic<UInt>
    }

    /// The number of slots less one, and then, 16 bytes each, the slots.
    let address: UnsafeMutableRawPointer

    private static let headerSize = 16
    private static let slotSize = 16

    /// An empty array of `count` slots, a power of two.
    init(count: Int) {
        address = TableMemory.allocate(Self.headerSize + count * Self.slotSize)
        address.storeBytes(of: count - 1, as: Int.self)
        for index in 0..<count { slot(index).initialize(to: Slot(hash: 0, entry: Atomic(0))) }
    }

    @inline(__always)
    init(_ address: UnsafeMutableRawPointer) {
        self.address = address
    }

    var count: Int { mask + 1 }

    var sizeInBytes: Int { Self.headerSize + count * Self.slotSize }

    /// The entry of a name.
    @inline(__always)
    func find(_ name: KeyName) -> KeyEntry? {
        let mask = mask
        var index = Int(truncatingIfNeeded: name.hash) & mask
        while true {
            let slot = slot(index)
            guard let entry = UnsafeMutableRawPointer(bitPattern: slot.pointee.entry.load(ordering: .acquiring)) else {
                return nil
            }
            if slot.pointee.hash == name.hash, KeyEntry(entry).isNamed(name) { return KeyEntry(entry) }
            index = (index + 1) & mask
        }
    }

    /// Adds an entry whose name is in no slot; there must be an empty one.
    func insert(_ entry: KeyEntry, hash: UInt64) {
        var index = Int(truncatingIfNeeded: hash) & mask
        while slot(index).pointee.entry.load(ordering: .relaxed) != 0 { index = (index + 1) & mask }
        slot(index).pointee.hash = hash
        slot(index).pointee.entry.store(UInt(bitPattern: entry.address), ordering: .releasing)
    }

    /// Calls `body` with every entry, in no particular order.
    func forEach(_ body: (KeyEntry, _ hash: UInt64) -> Void) { forEach(in: 0..<count, body) }

    /// The same for a part of the slots.
    func forEach(in range: Range<Int>, _ body: (KeyEntry, _ hash: UInt64) -> Void) {
        for index in range {
            let bits = slot(index).pointee.entry.load(ordering: .acquiring)
            if let entry = UnsafeMutableRawPointer(bitPattern: bits) { body(KeyEntry(entry), slot(index).pointee.hash) }
        }
    }

    @inline(__always)
    private var mask: Int { address.load(as: Int.self) }

    @inline(__always)
    private func slot(_ index: Int) -> UnsafeMutablePointer<Slot> {
        (address + Self.headerSize + index &* Self.slotSize).assumingMemoryBound(to: Slot.self)
    }
}
