import Synchronization

/// The slots of an open-addressing hash table with linear probing. Their number is a power of two. A slot is empty or
/// refers to an entry; a used slot is never emptied, so a search may stop at the first empty slot.
///
/// A slot is one word: the address of an entry, and in its low six bits, which are zero because the address is a
/// multiple of 64, a tag: the top six bits of the hash. Most entries with another name are skipped by their tag alone.
struct SlotArray {
    /// The address of the first slot, a multiple of 64, with the base-2 logarithm of the slot count in its low bits.
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

    /// The address of the first slot that is probed for a hash.
    @inline(__always)
    func slotAddress(hash: UInt64) -> UnsafeRawPointer {
        UnsafeRawPointer(slot(Int(truncatingIfNeeded: hash) & (count &- 1)))
    }

    /// Adds an entry. Precondition: no slot has an entry of this name, and at least one slot is empty.
    func insert(_ entry: KeyEntry, hash: UInt64) {
        let mask = count - 1
        var index = Int(truncatingIfNeeded: hash) & mask
        while slot(index).pointee.load(ordering: .relaxed) != 0 { index = (index + 1) & mask }
        slot(index).pointee.store(UInt(bitPattern: entry.address) | Self.tag(hash), ordering: .releasing)
    }

    /// Calls `body` with every entry, in no particular order.
    func forEach(_ body: (KeyEntry) -> Void) { forEach(in: 0..<count, body) }

    /// Calls `body` with every entry in a range of slots.
    func forEach(in range: Range<Int>, _ body: (KeyEntry) -> Void) {
        for index in range {
            let word = slot(index).pointee.load(ordering: .acquiring)
            if word != 0 { body(Self.entry(word)) }
        }
    }

    /// Frees the memory.
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

    /// The tag (fingerprint) is the top bits of a hash; its low bits select the first slot to probe.
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
