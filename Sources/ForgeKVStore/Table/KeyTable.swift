import Synchronization

// Memory safety: An entry stays allocated until no reader can have its address (`Reclamation`), and its name never
// changes. A slot is empty or holds the address of an entry; one writer changes them, atomically. The hash of a name
// loads eight or four bytes only where its length, compared before, permits it.

/// The part of a table that readers use: two addresses, so that a look-up counts no references. Valid for as long as
/// its ``ValueTable``.
@safe
struct TableView: @unchecked Sendable {
    // `@unchecked Sendable`: the addresses are constant, and what they lead to is read and written atomically.

    let domain = ReadDomain()
    private let root: UnsafeMutablePointer<Root>

    private struct Root: ~Copyable {
        /// Where the present slots are.
        let slots: Atomic<UInt>
    }

    init(_ array: SlotArray) {
        unsafe root = .allocate(capacity: 1)
        unsafe root.initialize(to: Root(slots: Atomic(array.bits)))
    }

    /// Frees the slots; no thread may be reading.
    func destroy() {
        array.deallocate()
        unsafe root.deinitialize(count: 1)
        unsafe root.deallocate()
    }

    /// The present slots, for readers inside a critical section and for the writer.
    @inline(__always)
    var array: SlotArray {
        unsafe SlotArray(bits: root.pointee.slots.load(ordering: .sequentiallyConsistent))
    }

    /// Publishes another array; returns the one before for the writer to retire.
    func exchange(_ array: SlotArray) -> SlotArray {
        unsafe SlotArray(bits: root.pointee.slots.exchange(array.bits, ordering: .sequentiallyConsistent))
    }
}

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
        bits = unsafe UInt(bitPattern: TableMemory.allocate(MemoryLayout<UInt>.size << exponent)) | UInt(exponent)
        for index in 0..<count { unsafe slot(index).initialize(to: Atomic(0)) }
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
        find(hash: hash) { unsafe $0.isNamed(name) }
    }

    @inline(__always)
    private func find(hash: UInt64, where isNamed: (KeyEntry) -> Bool) -> KeyEntry? {
        let mask = count &- 1
        let tag = Self.tag(hash)
        var index = Int(truncatingIfNeeded: hash) & mask
        while true {
            let word = unsafe slot(index).pointee.load(ordering: .acquiring)
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
        unsafe UnsafeRawPointer(slot(Int(truncatingIfNeeded: hash) & (count &- 1)))
    }

    /// Adds an entry. Precondition: no slot has an entry of this name, and at least one slot is empty.
    func insert(_ entry: KeyEntry, hash: UInt64) {
        let mask = count - 1
        var index = Int(truncatingIfNeeded: hash) & mask
        while unsafe slot(index).pointee.load(ordering: .relaxed) != 0 { index = (index + 1) & mask }
        unsafe slot(index).pointee.store(UInt(bitPattern: entry.address) | Self.tag(hash), ordering: .releasing)
    }

    /// Calls `body` with every entry, in no particular order.
    func forEach(_ body: (KeyEntry) -> Void) { forEach(in: 0..<count, body) }

    /// Calls `body` with every entry in a range of slots.
    func forEach(in range: Range<Int>, _ body: (KeyEntry) -> Void) {
        for index in range {
            let word = unsafe slot(index).pointee.load(ordering: .acquiring)
            if word != 0 { body(Self.entry(word)) }
        }
    }

    /// Frees the memory.
    func deallocate() { unsafe address.deallocate() }

    /// The memory of the slots.
    @inline(__always)
    var address: UnsafeMutableRawPointer {
        // Never zero.
        unsafe UnsafeMutableRawPointer(bitPattern: bits & ~Self.lowBits).unsafelyUnwrapped
    }

    @inline(__always)
    private func slot(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt>> {
        unsafe address.assumingMemoryBound(to: Atomic<UInt>.self) + index
    }

    /// The tag (fingerprint) is the top bits of a hash; its low bits select the first slot to probe.
    @inline(__always)
    private static func tag(_ hash: UInt64) -> UInt {
        UInt(truncatingIfNeeded: hash &>> UInt64(UInt64.bitWidth - lowBits.nonzeroBitCount))
    }

    @inline(__always)
    private static func entry(_ word: UInt) -> KeyEntry {
        // Never zero.
        unsafe KeyEntry(UnsafeMutableRawPointer(bitPattern: word & ~lowBits).unsafelyUnwrapped)
    }
}

/// The place of one key in a table: its name, and what stands under it. It stays where it is for as long as the table
/// that leads to it does.
///
/// Under a name of up to 24 bytes all of it is in one line of a cache; otherwise what a reader needs comes first. Only
/// one writer at a time changes it; readers see by its version, which is odd meanwhile, whether what they have read
/// belongs together (a sequence lock; Boehm, "Can Seqlocks Get Along With Programming Language Memory Models?", 2012).
@safe
struct KeyEntry {
    private struct Front: ~Copyable {
        let version = Atomic<UInt32>(0)
        let nameCount: UInt16
        let kind: Atomic<UInt8>
        /// The ``mark(_:)`` of the revision that was last reported as unreadable; zero for none.
        let reported = Atomic<UInt8>(0)
        let first: Atomic<UInt64>
        let second: Atomic<UInt64>

        init(nameCount: UInt16, _ content: EntryContent) {
            self.nameCount = nameCount
            kind = Atomic(content.kind)
            first = Atomic(content.words.0)
            second = Atomic(content.words.1)
        }
    }

    /// Behind the name.
    private struct Back: ~Copyable {
        let revision: Atomic<UInt64>
        let encodedSize: Atomic<UInt64>

        init(_ content: EntryContent) {
            revision = Atomic(content.revision)
            encodedSize = Atomic(UInt64(content.encodedSize))
        }
    }

    let address: UnsafeMutableRawPointer

    private static let frontSize = 24
    private static let backSize = 16

    /// How much memory the entry of a name of so many bytes takes.
    static func size(nameCount: Int) -> Int { frontSize + nameSize(nameCount) + backSize }

    /// A name is followed by zeros up to a multiple of eight.
    private static func nameSize(_ count: Int) -> Int { (count + 7) / 8 * 8 }

    /// An entry for a name in memory of its ``size(nameCount:)``; the caller has given up the content.
    init(_ name: UnsafeRawBufferPointer, _ content: EntryContent, at address: UnsafeMutableRawPointer) {
        precondition(MemoryLayout<Front>.size <= Self.frontSize && MemoryLayout<Back>.size <= Self.backSize)
        unsafe self.address = address
        // Names are at most 1,024 bytes long; every write has checked.
        unsafe address.bindMemory(to: Front.self, capacity: 1).initialize(
            to: Front(nameCount: UInt16(name.count), content))
        let size = Self.nameSize(name.count)
        // The last word holds the end of the name, and the zeros behind it.
        if size > 0 { unsafe (address + Self.frontSize + size - 8).storeBytes(of: 0, as: UInt64.self) }
        unsafe UnsafeMutableRawBufferPointer(start: address + Self.frontSize, count: size).copyMemory(from: name)
        unsafe backAddress.bindMemory(to: Back.self, capacity: 1).initialize(to: Back(content))
    }

    @inline(__always)
    init(_ address: UnsafeMutableRawPointer) {
        unsafe self.address = address
    }

    @inline(__always)
    private var front: UnsafeMutablePointer<Front> { unsafe address.assumingMemoryBound(to: Front.self) }

    private var backAddress: UnsafeMutableRawPointer {
        unsafe address + Self.size(nameCount: nameCount) - Self.backSize
    }

    private var back: UnsafeMutablePointer<Back> { unsafe backAddress.assumingMemoryBound(to: Back.self) }

    var name: KeyName { unsafe KeyName(String(decoding: nameBytes, as: UTF8.self)) }

    @inline(__always)
    var nameCount: Int { unsafe Int(front.pointee.nameCount) }

    @inline(__always)
    func isNamed(_ name: KeyName) -> Bool { unsafe name.isEqual(to: address + Self.frontSize, count: nameCount) }

    @inline(__always)
    func isNamed(_ name: UnsafeRawBufferPointer) -> Bool { unsafe nameBytes.isEqual(to: name) }

    /// The hash of the name.
    var hash: UInt64 { unsafe KeyHash.hash(nameBytes) }

    /// The name; valid while the entry is.
    @inline(__always)
    var nameBytes: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: address + Self.frontSize, count: nameCount)
    }

    /// A number that no other entry of the table has.
    var identity: UInt { unsafe UInt(bitPattern: address) }

    /// How much memory it takes.
    var sizeInBytes: Int { Self.size(nameCount: nameCount) }
}

// MARK: Reading

extension KeyEntry {
    /// Values read after this are consistent if ``isStill(_:)`` is true afterwards.
    @inline(__always)
    var version: UInt32 { unsafe front.pointee.version.load(ordering: .acquiring) }

    @inline(__always)
    func isStill(_ version: UInt32) -> Bool {
        atomicMemoryFence(ordering: .acquiring)
        return unsafe version & 1 == 0 && front.pointee.version.load(ordering: .relaxed) == version
    }

    @inline(__always)
    var kind: UInt8 { unsafe front.pointee.kind.load(ordering: .relaxed) }

    @inline(__always)
    var words: EntryContent.Words {
        unsafe (front.pointee.first.load(ordering: .relaxed), front.pointee.second.load(ordering: .relaxed))
    }

    /// The content: for the writer, and for readers that check ``isStill(_:)`` afterwards.
    var content: EntryContent {
        unsafe EntryContent(
            kind: kind, words: words, revision: revision,
            encodedSize: Int(back.pointee.encodedSize.load(ordering: .relaxed)))
    }

    var revision: UInt64 { unsafe back.pointee.revision.load(ordering: .relaxed) }

    /// Records that the value of a revision cannot be read; returns whether that is the first report.
    func report(_ revision: UInt64) -> Bool {
        let mark = Self.mark(revision)
        return unsafe front.pointee.reported.exchange(mark, ordering: .relaxed) != mark
    }

    /// Tells a revision from the next ones, for a reader may be late.
    private static func mark(_ revision: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: revision % 255) + 1 }
}

// MARK: Writing

extension KeyEntry {
    /// Replaces the content and returns the old one, which the caller then owns.
    @inline(__always)
    func exchange(_ content: EntryContent) -> EntryContent {
        let old = self.content
        let back = unsafe back
        let version = unsafe front.pointee.version.load(ordering: .relaxed)
        unsafe front.pointee.version.store(version &+ 1, ordering: .relaxed)
        atomicMemoryFence(ordering: .releasing)
        unsafe front.pointee.kind.store(content.kind, ordering: .relaxed)
        unsafe front.pointee.reported.store(0, ordering: .relaxed)
        unsafe front.pointee.first.store(content.words.0, ordering: .relaxed)
        unsafe front.pointee.second.store(content.words.1, ordering: .relaxed)
        unsafe back.pointee.revision.store(content.revision, ordering: .relaxed)
        unsafe back.pointee.encodedSize.store(UInt64(content.encodedSize), ordering: .relaxed)
        unsafe front.pointee.version.store(version &+ 2, ordering: .releasing)
        return old
    }
}

/// The look-ups of readers, which take no lock: a value is read between two equal versions of its entry, inside a
/// read-side critical section.
extension TableView {
    /// Why a look-up ended without a value and without the certainty that there is none.
    enum Interruption: Error {
        /// The writer is changing the entry: wait for it.
        case busy

        /// The value has to be decoded.
        case encoded(ValueCell)
    }

    /// How many times a reader looks at an entry that the writer is changing, which takes a few nanoseconds unless its
    /// thread was suspended meanwhile.
    private static let patience = 64

    /// The value of a key. Inlined into the `get` of each store, which is specialised for the common types.
    @inline(__always)
    func value<Value>(of key: KVKey<Value>) throws(Interruption) -> Value? {
        let section = domain.enter()
        guard let entry = array.find(key.identity) else {
            section.leave()
            return nil
        }
        for _ in 0..<Self.patience {
            let version = entry.version
            let kind = entry.kind
            let words = entry.words
            guard entry.isStill(version) else { continue }
            // No variable has the type `Value?`: every call would ask the runtime for it.
            if kind > EntryContent.cell, kind == InlineTypes.kind(of: Value.self), key.schema == nil {
                if Value.self == String.self { return section.leave(copyingText: words, as: Value.self) }
                section.leave()
                return InlineTypes.value(words, as: Value.self)
            }
            if kind == EntryContent.cell, words.1 != 0, words.1 == CellType.decoded(key).decodedTag {
                return unsafe section.leave(copyingValueOf: EntryContent.cellAddress(words))
            }
            if kind == EntryContent.emptyKind {
                section.leave()
                return nil
            }
            let content = entry.content
            guard entry.isStill(version), let cell = cell(of: content, in: entry, version, leaving: section) else {
                continue
            }
            throw .encoded(cell)
        }
        section.leave()
        throw .busy
    }

    /// The cell of a name.
    func cell(of name: KeyName) throws(Interruption) -> ValueCell? {
        let section = domain.enter()
        guard let entry = array.find(name) else {
            section.leave()
            return nil
        }
        for _ in 0..<Self.patience {
            let version = entry.version
            let content = entry.content
            guard entry.isStill(version) else { continue }
            guard content.kind != EntryContent.emptyKind else {
                section.leave()
                return nil
            }
            guard let cell = cell(of: content, in: entry, version, leaving: section) else { continue }
            return cell
        }
        section.leave()
        throw .busy
    }

    /// The cell of non-empty content, or a new one for a value that has none; leaves the section. Nil,
    /// still inside, if the entry was changed while encoded bytes were copied.
    @inline(never)
    private func cell(
        of content: EntryContent, in entry: KeyEntry, _ version: UInt32, leaving section: ReadGuard
    ) -> ValueCell? {
        switch content.kind {
        case EntryContent.cell:
            return unsafe section.leave(retaining: EntryContent.cellAddress(content.words))
        case EntryContent.encoded:
            // The bytes belong to the arena, which may free them once this thread has left.
            let copy = content.copyOfEncodedValue
            guard entry.isStill(version) else { return nil }
            section.leave()
            return copy
        case InlineTypes.textKind:
            let text = section.leave(copyingText: content.words, as: String.self)
            return InlineTypes.cell(text, revision: content.revision)
        default:
            section.leave()
            return InlineTypes.cell(content)
        }
    }

    /// Records a report that the value of a name at a revision cannot be read; returns whether it is the first.
    func report(_ revision: UInt64, of name: KeyName) -> Bool {
        let section = domain.enter()
        defer { section.leave() }
        return array.find(name)?.report(revision) ?? true
    }
}
