import Synchronization

/// The slots of a table, a power of two of them, each empty or leading to an entry. An entry stands in the first slot from
/// that of its hash on that was free (linear probing); no slot is ever emptied again.
///
/// A slot is one word, so that eight of them are in a line of a cache: the address of an entry, a multiple of 64, and in the
/// bits that are zero in such an address the first of the hash, so that hardly an entry is looked at in vain.
struct SlotArray {
    /// The address of the first slot, a multiple of 64 as well, and which power of two they are.
    let bits: UInt

    private static let lowBits = UInt(EntryPool.granularity) - 1

    /// An empty array of 2 to the power of `exponent` slots.
    init(exponent: Int) {
        bits = UInt(bitPattern: TableMemory.allocate(MemoryLayout<UInt>.size << exponent)) | UInt(exponent)
        for index in 0..<count { slot(index).initialize(to: Atomic(0)) }
    }

    @inline(__always)
    init(bits: UInt) {
        self.bits = bits
    }

    @inline(__always)
    var count: Int { 1 &<< Int(bits & Self.lowBits) }

    var sizeInBytes: Int { count * MemoryLayout<UInt>.size }

    /// The entry of a name.
    @inline(__always)
    func find(_ name: KeyName) -> KeyEntry? {
        find(hash: name.hash) { $0.isNamed(name) }
    }

    /// The entry of a name, by its bytes and their hash.
    @inline(__always)
    func find(_ name: UnsafeRawBufferPointer, hash: UInt64) -> KeyEntry? {
        find(hash: hash) { $0.isNamed(name) }
    }

    @inline(__always)
    private func find(hash: UInt64, where isNamed: (KeyEntry) -> Bool) -> KeyEntry? {
        let mask = count &- 1
        let tag = Self.tag(hash)
        var index = Int(truncatingIfNeeded: hash) & mask
        while true {
            let word = slot(index).pointee.load(ordering: .acquiring)
            if word == 0 { return nil }
            if word & Self.lowBits == tag {
                let entry = Self.entry(word)
                if isNamed(entry) { return entry }
            }
            index = (index &+ 1) & mask
        }
    }

    /// Where the first slot stands that is looked at for a hash.
    @inline(__always)
    func slotAddress(hash: UInt64) -> UnsafeRawPointer {
        UnsafeRawPointer(slot(Int(truncatingIfNeeded: hash) & (count &- 1)))
    }

    /// Adds an entry whose name is in no slot; there must be an empty one.
    func insert(_ entry: KeyEntry, hash: UInt64) {
        let mask = count - 1
        var index = Int(truncatingIfNeeded: hash) & mask
        while slot(index).pointee.load(ordering: .relaxed) != 0 { index = (index + 1) & mask }
        slot(index).pointee.store(UInt(bitPattern: entry.address) | Self.tag(hash), ordering: .releasing)
    }

    /// Calls `body` with every entry, in no particular order.
    func forEach(_ body: (KeyEntry) -> Void) { forEach(in: 0..<count, body) }

    /// The same for a part of the slots.
    func forEach(in range: Range<Int>, _ body: (KeyEntry) -> Void) {
        for index in range {
            let word = slot(index).pointee.load(ordering: .acquiring)
            if word != 0 { body(Self.entry(word)) }
        }
    }

    /// Gives the memory up.
    func deallocate() { address.deallocate() }

    /// The memory of the slots.
    @inline(__always)
    var address: UnsafeMutableRawPointer {
        // Never zero.
        UnsafeMutableRawPointer(bitPattern: bits & ~Self.lowBits).unsafelyUnwrapped
    }

    @inline(__always)
    private func slot(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt>> {
        address.assumingMemoryBound(to: Atomic<UInt>.self) + index
    }

    /// The fingerprint is the first bits of a hash; the last bits select the first slot.
    @inline(__always)
    private static func tag(_ hash: UInt64) -> UInt {
        UInt(truncatingIfNeeded: hash &>> UInt64(UInt64.bitWidth - lowBits.nonzeroBitCount))
    }

    @inline(__always)
    private static func entry(_ word: UInt) -> KeyEntry {
        // Never zero.
        KeyEntry(UnsafeMutableRawPointer(bitPattern: word & ~lowBits).unsafelyUnwrapped)
    }
}
