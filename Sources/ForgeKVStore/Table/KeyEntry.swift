import Synchronization

/// The place of one key in a table: its name, and what stands under it. It stays where it is for as long as the table
/// that leads to it does.
///
/// It is 64 bytes, one line of a cache, and a reader mostly needs no other. Only one writer at a time changes it; readers see
/// by its version, which is odd meanwhile, whether what they have read belongs together (a sequence lock; Boehm, "Can
/// Seqlocks Get Along With Programming Language Memory Models?", 2012).
struct KeyEntry {
    private struct Fields: ~Copyable {
        let version = Atomic<UInt32>(0)
        let encodedSize = Atomic<UInt32>(0)
        let kind = Atomic<UInt>(EntryContent.nothing)
        let first = Atomic<UInt>(0)
        let second = Atomic<UInt>(0)
        let revision = Atomic<UInt64>(0)
        /// The revision of the value that was last told to be unreadable.
        let reported = Atomic<UInt64>(0)
        let name: String
    }

    let address: UnsafeMutableRawPointer

    /// How much memory an entry takes; its address is a multiple of it.
    static let size = 64

    /// An entry for a name, without a value, in memory of ``size`` bytes.
    init(_ name: KeyName, at address: UnsafeMutableRawPointer) {
        precondition(MemoryLayout<Fields>.size <= Self.size, "an entry has become too large")
        self.address = address
        address.bindMemory(to: Fields.self, capacity: 1).initialize(to: Fields(name: name.string))
    }

    @inline(__always)
    init(_ address: UnsafeMutableRawPointer) {
        self.address = address
    }

    @inline(__always)
    private var fields: UnsafeMutablePointer<Fields> { address.assumingMemoryBound(to: Fields.self) }

    var name: KeyName { KeyName(fields.pointee.name) }

    var nameCount: Int { fields.pointee.name.utf8.count }

    @inline(__always)
    func isNamed(_ name: KeyName) -> Bool {
        fields.pointee.name.hasSameStorage(as: name.string) || isEqual(to: name)
    }

    @inline(never)
    private func isEqual(to name: KeyName) -> Bool {
        KeyName.areEqual(fields.pointee.name, name.string)
    }

    /// Takes the name out, with which the memory is free; nobody may be looking, and there is no value.
    func destroy() {
        fields.deinitialize(count: 1)
    }
}

// MARK: Reading

extension KeyEntry {
    /// What was read under a version is right if ``isStill(_:)`` says so afterwards.
    @inline(__always)
    var version: UInt32 { fields.pointee.version.load(ordering: .acquiring) }

    @inline(__always)
    func isStill(_ version: UInt32) -> Bool {
        atomicMemoryFence(ordering: .acquiring)
        return version & 1 == 0 && fields.pointee.version.load(ordering: .relaxed) == version
    }

    @inline(__always)
    var kind: UInt { fields.pointee.kind.load(ordering: .relaxed) }

    @inline(__always)
    var words: EntryContent.Words {
        (fields.pointee.first.load(ordering: .relaxed), fields.pointee.second.load(ordering: .relaxed))
    }

    /// What stands here: for the writer, and for who asks ``isStill(_:)`` afterwards.
    var content: EntryContent {
        EntryContent(
            kind: kind, words: words, revision: revision,
            encodedSize: Int(fields.pointee.encodedSize.load(ordering: .relaxed)))
    }

    var revision: UInt64 { fields.pointee.revision.load(ordering: .relaxed) }

    /// Whether it is told for the first time that the value of a revision cannot be read.
    func report(_ revision: UInt64) -> Bool {
        fields.pointee.reported.exchange(revision, ordering: .relaxed) != revision
    }
}

// MARK: Writing

extension KeyEntry {
    /// Puts something in the place of what stands here, which the caller owns then.
    @inline(__always)
    func exchange(_ content: EntryContent) -> EntryContent {
        let old = self.content
        let version = fields.pointee.version.load(ordering: .relaxed)
        fields.pointee.version.store(version &+ 1, ordering: .relaxed)
        atomicMemoryFence(ordering: .releasing)
        fields.pointee.kind.store(content.kind, ordering: .relaxed)
        fields.pointee.first.store(content.words.0, ordering: .relaxed)
        fields.pointee.second.store(content.words.1, ordering: .relaxed)
        fields.pointee.revision.store(content.revision, ordering: .relaxed)
        // The format has no longer values.
        fields.pointee.encodedSize.store(UInt32(truncatingIfNeeded: content.encodedSize), ordering: .relaxed)
        fields.pointee.version.store(version &+ 2, ordering: .releasing)
        return old
    }
}
