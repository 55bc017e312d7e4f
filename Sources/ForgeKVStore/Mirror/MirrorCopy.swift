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

    /// The threads for its calls, all of which may wait for the device.
    var lane: BlockingLane { store.engine.lane }

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
        path = String(place.path)
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

/// Writes the content of a mirror to its copy, behind the mirror: the device delays no change in memory.
///
/// While one write runs, the names that change are collected; the next write stores their values as they are then. If
/// the names are too many, or a write has failed, the next write compares the whole content with the copy.
final class MirrorCopyWriter: Sendable {
    private struct State {
        var position: MirrorState.Position

        /// The names whose values were changed since the last write began; nil if any may differ from the copy.
        var names: Set<KeyName>? = []

        /// Whether the position or a value has changed since the last write began.
        var isBehind = false
        var task: Task<Void, Never>?
        var failure: (any Error)?
    }

    private enum Work: Sendable {
        case changes([MirroredChange])
        case all(KVSnapshot)
    }

    /// The largest number of collected names.
    static let limit = 10_000

    private let copy: MirrorCopy
    private let memory: InMemoryKVStore

    /// Held for every change in memory, so that a write takes values and position of one instant.
    private let state: Mutex<State>

    /// Creates the writer of a copy whose content the memory has.
    init(_ copy: MirrorCopy, of memory: InMemoryKVStore, at position: MirrorState.Position) {
        self.copy = copy
        self.memory = memory
        state = Mutex(State(position: position))
    }

    /// Why the last write failed.
    var failure: (any Error)? { state.withLock { $0.failure } }

    /// Whether no write runs.
    var isIdle: Bool { state.withLock { $0.task == nil } }

    /// Calls `change`, which gives `names`, or with nil any names, the values of a position in memory, and schedules
    /// their write to the copy.
    func record(
        _ names: [KeyName]?, _ position: MirrorState.Position, _ change: () throws(KVStoreError) -> Void
    ) throws(KVStoreError) {
        try state.withLock { (state) throws(KVStoreError) in
            try change()
            guard names != [] || position != state.position else { return }
            (state.position, state.isBehind) = (position, true)
            if let names { state.names?.formUnion(names) }
            if names == nil || state.names?.count ?? 0 > Self.limit { state.names = nil }
            if state.task == nil { state.task = Task { await write() } }
        }
    }

    /// Writes until the copy has everything, or a write has failed and nothing has changed since it began: then the next
    /// change begins another.
    private func write() async {
        while true {
            do {
                guard let (work, position) = try takeWork() else { return }
                try await copy.lane.run { [copy] in
                    switch work {
                    case .changes(let changes): try copy.write(changes, position)
                    case .all(let content): try copy.replace(by: content, position)
                    }
                }
                state.withLock { $0.failure = nil }
            } catch {
                state.withLock { ($0.names, $0.failure) = (nil, error) }
            }
        }
    }

    /// Takes the pending changes. Returns nil, and marks the task as ended, if there are none.
    private func takeWork() throws -> (Work, MirrorState.Position)? {
        try state.withLock { state in
            guard state.isBehind else {
                state.task = nil
                return nil
            }
            let names = state.names
            (state.names, state.isBehind) = ([], false)
            guard let names else { return (.all(try memory.snapshot()), state.position) }
            let changes = names.map { MirroredChange(name: $0, entry: memory.cell(of: $0).map { KVEntry($0) }) }
            return (.changes(changes), state.position)
        }
    }

    /// Waits for the writes, tries a failed one once more, and closes the copy durably.
    func close() async throws {
        while let task = state.withLock({ $0.task }) { await task.value }
        try await copy.lane.run { [self] in
            let rest = Result {
                if failure != nil { try copy.replace(by: memory.snapshot(), state.withLock { $0.position }) }
            }
            try copy.close()
            try rest.get()
        }
    }
}

/// A change of a mirrored value, with the revision of the remote store; nil removes it.
struct MirroredChange: Sendable {
    var name: KeyName
    var entry: KVEntry?
}

/// Names and values, with their revisions in the remote store.
typealias MirroredList = [(name: String, entry: KVEntry)]

extension InMemoryKVStore {
    /// Whether there is no value.
    var isEmpty: Bool { count == 0 }

    /// Stores a list in an empty store, in one write. Short values go to the table's arena, which takes less memory
    /// than an object for each.
    func load(_ list: MirroredList) throws(KVStoreError) {
        try change { table in
            // Gives up the memory of values that were removed.
            table.removeAll()
            table.reserve(list.count)
            for (name, entry) in list { table.store(entry.bytes, revision: entry.revision, named: name) }
            guard changes.hasSubscribers else { return }
            changes.append(list.map { ChangeHub.Change(KeyName($0.name), $0.entry.bytes, $0.entry.revision) })
        }
    }

    /// Applies changes in one write, and reports those of the names whose bytes they change.
    func apply(_ mirrored: [MirroredChange], reporting names: [KeyName]) throws(KVStoreError) {
        try change { table in
            for change in mirrored {
                if let entry = change.entry {
                    table.store(EncodedCell(entry.bytes, revision: entry.revision), change.name)
                } else {
                    table.remove(change.name)
                }
            }
            guard changes.hasSubscribers else { return }
            let names = Set(names)
            changes.append(
                mirrored.filter { names.contains($0.name) }
                    .map { ChangeHub.Change($0.name, $0.entry?.bytes, $0.entry?.revision ?? 0) })
        }
    }

    /// The revision of the value of a name; nil if it is absent.
    func revision(of name: KeyName) -> UInt64? { cell(of: name)?.revision }

    /// The changes that lead to the content of a list, and the names whose bytes they change.
    func difference(to list: MirroredList) throws -> (changes: [MirroredChange], names: [KeyName]) {
        var changes: [MirroredChange] = []
        var names: [KeyName] = []
        var listed = Set<KeyName>(minimumCapacity: list.count)
        for (text, entry) in list {
            let name = KeyName(text)
            listed.insert(name)
            let current = cell(of: name)
            let hasEqualBytes = current.map { $0.encodedSize == entry.bytes.count && $0.bytes == entry.bytes } ?? false
            guard !hasEqualBytes || current?.revision != entry.revision else { continue }
            changes.append(MirroredChange(name: name, entry: entry))
            if !hasEqualBytes { names.append(name) }
        }
        for name in try keys().lazy.map(KeyName.init) where !listed.contains(name) {
            changes.append(MirroredChange(name: name, entry: nil))
            names.append(name)
        }
        return (changes, names)
    }
}
