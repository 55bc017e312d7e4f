import ForgeFileSystem
import Synchronization

/// The copy of a mirror on disk: its values and its position, which change together.
///
/// A ``FileKVStore`` whose values are ``CopiedEntry``. The record with the empty name is the header: every other name
/// can be that of a value. It contains the position, and the value with the empty name if the mirror has one.
final class MirrorCopy: Sendable {
    /// A value with its revision in the remote store.
    private struct CopiedEntry: Codable {
        var revision: UInt64
        var bytes: [UInt8]

        init(_ entry: KVEntry) { (revision, bytes) = (entry.revision, entry.bytes) }

        var entry: KVEntry { KVEntry(bytes: bytes, revision: revision) }
    }

    private struct Header: Codable {
        var position: MirrorState.Position
        var emptyName: CopiedEntry?
    }

    private static let header = KVKey<Header>("")
    private let store: FileKVStore
    private let path: String

    /// Whether the log was damaged, so that values may be missing, or older than the position.
    private let isDamaged = SharedFlag()

    private final class SharedFlag: Sendable {
        let value = Atomic(false)
    }

    init(_ place: MirroredKVStore.Configuration.Copy) throws {
        var options = FileKVStore.Options(maximumValueSizeInBytes: .max)
        options.onIssue = { [isDamaged] issue in
            switch issue {
            case .damage, .missingRecords: isDamaged.value.store(true, ordering: .relaxed)
            default: break
            }
        }
        // Two mirrors would mix their values and positions.
        options.isOnlyUse = true
        path = place.path.description
        store = try FileKVStore(at: place.path, fileSystem: place.fileSystem, options: options)
    }

    /// The values and their position; nothing if there is no copy yet, or it was damaged.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` for a store that is not a copy of a mirror.
    func content() throws -> (MirroredList, MirrorState.Position) {
        let snapshot = try store.snapshot()
        guard !snapshot.isEmpty else { return ([], MirrorState.Position()) }
        let header = try snapshot.read(Self.header)
        let isDamaged = isDamaged.value.load(ordering: .relaxed)
        guard header != nil || isDamaged && snapshot.allSatisfy({ isCopied($0.name, in: snapshot) }) else {
            throw KVStoreError(.undecodable, .open, key: "", store: path)
        }
        guard let header, !isDamaged else {
            try discard(snapshot)
            return ([], MirrorState.Position())
        }
        var content: MirroredList = []
        for (name, _) in snapshot where !name.isEmpty {
            if let entry = try snapshot.read(KVKey<CopiedEntry>(name))?.entry { content.append((name, entry)) }
        }
        if let entry = header.emptyName?.entry { content.append(("", entry)) }
        return (content, header.position)
    }

    /// Whether a value is one of a mirror's.
    private func isCopied(_ name: String, in snapshot: KVSnapshot) -> Bool {
        do {
            return try snapshot.read(KVKey<CopiedEntry>(name)) != nil
        } catch {
            return false
        }
    }

    /// Removes what is left of a damaged copy: its opening has repaired the log, so the next one would not know that
    /// values are missing.
    private func discard(_ snapshot: KVSnapshot) throws {
        var batch = KVBatch()
        for (name, _) in snapshot { batch.append(.remove(name: name)) }
        try store.commit(batch)
        try store.synchronize()
        isDamaged.value.store(false, ordering: .relaxed)
    }

    /// Makes changes and moves to a position, together.
    func write(_ changes: [MirroredChange], _ position: MirrorState.Position) throws {
        try write(changes, Header(position: position, emptyName: try store.read(Self.header)?.emptyName))
    }

    private func write(_ changes: [MirroredChange], _ header: Header) throws {
        var header = header
        var batch = KVBatch()
        for change in changes { try add(change, to: &batch, &header) }
        try batch.set(Self.header, value: header)
        try store.commit(batch)
    }

    /// Replaces the content, writing what differs.
    func replace(by content: KVSnapshot, _ position: MirrorState.Position) throws {
        let old = Dictionary(try self.content().0.map { (KeyName($0.name), $0.entry) }) { _, last in last }
        var changes: [MirroredChange] = []
        for (text, entry) in content {
            let name = KeyName(text)
            if old[name] != entry { changes.append(MirroredChange(name: name, entry: entry)) }
        }
        for name in try store.keys() where !name.isEmpty && content[name] == nil {
            changes.append(MirroredChange(name: KeyName(name), entry: nil))
        }
        try write(changes, Header(position: position, emptyName: content[""].map { CopiedEntry($0) }))
    }

    func close() throws { try store.close() }

    private func add(_ change: MirroredChange, to batch: inout KVBatch, _ header: inout Header) throws {
        let entry = change.entry.map { CopiedEntry($0) }
        let key = KVKey<CopiedEntry>(change.name.string)
        if change.name.string.isEmpty {
            header.emptyName = entry
        } else if let entry {
            try batch.set(key, value: entry)
        } else {
            batch.remove(key)
        }
    }
}
