import ForgeFileSystem
import ForgeKVStore
import Synchronization
import TestDepth
import Testing

/// A remote store with revisions, whose history, connections and failures a test controls.
final class RemoteDouble: AsyncKVStoring {
    struct State {
        var storeID = "one"
        var revision: UInt64 = 0
        var content: [KeyName: KVEntry] = [:]

        /// The changes by revision, and the content after each.
        var log: [UInt64: [(name: KeyName, entry: KVEntry?)]] = [:]
        var history: [UInt64: [KeyName: KVEntry]] = [0: [:]]
        var compacted: UInt64 = 0

        var replays = true
        var isDown = false

        /// Whether changes are reported on no connection.
        var isMuted = false

        /// Connections with lower numbers have failed.
        var firstConnection = 0
        var connectionCount = 0
        var openCount = 0

        /// How many lists have begun, apart from checks of one entry.
        var listCount = 0
        var checkCount = 0
    }

    let state = Mutex(State())

    /// The largest page of names and values.
    private let pageSize: Int

    /// Called after each page of a list.
    private let afterPage: @Sendable (RemoteDouble) -> Void

    init(pageSize: Int = 100, afterPage: @escaping @Sendable (RemoteDouble) -> Void = { _ in }) {
        self.pageSize = pageSize
        self.afterPage = afterPage
    }

    // MARK: What a test does

    /// Makes changes at one revision; nil removes.
    @discardableResult
    func change(_ changes: [(name: String, value: Int?)]) -> UInt64 {
        state.withLock { state in
            state.change(changes.map { (KeyName($0.name), $0.value.map { encoded($0) }) })
            return state.revision
        }
    }

    @discardableResult
    func set(_ name: String, _ value: Int?) -> UInt64 { change([(name, value)]) }

    /// Another name's write elsewhere in the store: the revision grows without a change to report.
    @discardableResult
    func pass() -> UInt64 {
        state.withLock { state in
            state.revision += 1
            state.history[state.revision] = state.content
            return state.revision
        }
    }

    /// Ends the present connections.
    func cut() { state.withLock { $0.firstConnection = $0.connectionCount } }

    func compact() { state.withLock { $0.compacted = $0.revision } }

    /// Replaces the store by another one.
    func replace(by content: [String: Int], revision: UInt64, storeID: String) {
        state.withLock { state in
            var new = State()
            new.content = Dictionary(
                uniqueKeysWithValues: content.map {
                    (KeyName($0), KVEntry(bytes: encoded($1), revision: revision))
                })
            (new.revision, new.storeID) = (revision, storeID)
            new.history = [revision: new.content]
            new.connectionCount = state.connectionCount
            new.firstConnection = state.connectionCount
            (new.openCount, new.listCount, new.checkCount) = (state.openCount, state.listCount, state.checkCount)
            state = new
        }
    }

    // MARK: AsyncKVStoring

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        AsyncKVCapabilities(
            maximumBatchSize: nil, expiry: nil,
            changes: state.withLock { $0.replays } ? .replayable : .lossy, readConsistency: .linearizable,
            durability: .memory)
    }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        guard !Task.isCancelled else { throw KVStoreError(.cancelled, .read, key: name) }
        guard name.utf8.count <= 1024 else { throw KVStoreError(.invalidKey, .read, key: name) }
        return try reachable(.read).content[KeyName(name)]
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        let page = try page(prefix, after, limit, at: nil)
        return AsyncKVPage(names: page.entries.map(\.name), hasMore: page.hasMore, revision: page.revision)
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        state.withLock { state in
            if limit == 1 { state.checkCount += 1 } else if after == nil { state.listCount += 1 }
        }
        defer { if limit > 1 { afterPage(self) } }
        return try page(prefix, after, limit, at: revision)
    }

    private func page(
        _ prefix: String, _ after: String?, _ limit: Int, at revision: UInt64?
    ) throws(KVStoreError) -> AsyncKVEntryPage {
        guard !Task.isCancelled else { throw KVStoreError(.cancelled, .keys) }
        let state = try reachable(.keys)
        let revision = revision ?? state.revision
        guard let content = state.history[revision], revision >= state.compacted else {
            throw KVStoreError(.refused, .keys, detail: "compacted")
        }
        let rest = content.map { (name: $0.key.string, entry: $0.value) }
            .filter { (name, _) in
                name.utf8.starts(with: prefix.utf8)
                    && (after.map { $0.utf8.lexicographicallyPrecedes(name.utf8) } ?? true)
            }
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        let page = rest.prefix(max(1, min(limit, pageSize)))
        return AsyncKVEntryPage(
            entries: Array(page), hasMore: page.count < rest.count, revision: revision, storeID: state.storeID)
    }

    @discardableResult
    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        guard timeToLive == nil else { throw KVStoreError(.refused, .batch) }
        guard !Task.isCancelled else { throw KVStoreError(.cancelled, .batch) }
        guard !batch.changes.contains(where: { $0.name.utf8.count > 1024 }) else {
            throw KVStoreError(.invalidKey, .batch)
        }
        _ = try reachable(.batch)
        return try state.withLock { (state) throws(KVStoreError) in
            for requirement in batch.requirements
            where state.content[KeyName(requirement.name)]?.revision != requirement.revision {
                throw KVStoreError(.conflict, .batch, key: requirement.name)
            }
            var last: [KeyName: [UInt8]?] = [:]
            for change in batch.changes {
                switch change {
                case .set(let name, let bytes): last[KeyName(name)] = .some(bytes)
                case .remove(let name): last[KeyName(name)] = .some(nil)
                }
            }
            // Removing what is absent changes nothing.
            let changes = last.filter { $0.value != nil || state.content[$0.key] != nil }
            if !changes.isEmpty { state.change(changes.map { ($0.key, $0.value) }) }
            return state.revision
        }
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        let source = RemoteDoubleSource(self, prefix, from: revision)
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in try await source.next() }
    }

    func reachable(_ operation: KVStoreError.Operation) throws(KVStoreError) -> State {
        let state = state.withLock { $0 }
        guard !state.isDown else { throw KVStoreError(.unavailable(.server), operation, detail: "down") }
        return state
    }
}

extension RemoteDouble.State {
    mutating func change(_ changes: [(name: KeyName, bytes: [UInt8]?)]) {
        revision += 1
        log[revision] = changes.map { ($0.name, $0.bytes.map { KVEntry(bytes: $0, revision: revision) }) }
        for (name, bytes) in changes { content[name] = bytes.map { KVEntry(bytes: $0, revision: revision) } }
        history[revision] = content
    }
}

/// The changes of one subscription; it opens its connection with the first element, and polls.
private final class RemoteDoubleSource: Sendable {
    private struct Position {
        var connection: Int?
        var next: UInt64?
    }

    private let store: RemoteDouble
    private let prefix: String
    private let position: Mutex<Position>

    init(_ store: RemoteDouble, _ prefix: String, from revision: UInt64?) {
        self.store = store
        self.prefix = prefix
        position = Mutex(Position(next: revision.map { $0 + 1 }))
        store.state.withLock { $0.openCount += 1 }
    }

    deinit { store.state.withLock { $0.openCount -= 1 } }

    func next() async throws(KVStoreError) -> KVChangeSet? {
        while !Task.isCancelled {
            let state = try store.reachable(.changes)
            if let update = try position.withLock({ (position) throws(KVStoreError) in
                try update(&position, state)
            }) {
                return update
            }
            do { try await Task.sleep(for: .milliseconds(1)) } catch { return nil }
        }
        return nil
    }

    private func update(
        _ position: inout Position, _ state: RemoteDouble.State
    ) throws(KVStoreError) -> KVChangeSet? {
        guard let connection = position.connection else {
            position.connection = store.state.withLock { state in
                state.connectionCount += 1
                return state.connectionCount
            }
            guard let next = position.next, state.replays, next > state.compacted else {
                position.next = state.revision + 1
                return KVChangeSet([.resync], revision: state.revision)
            }
            return nil
        }
        guard connection > state.firstConnection else {
            position.connection = nil
            if !state.replays { position.next = nil }
            throw KVStoreError(.unavailable(.server), .changes, detail: "cut")
        }
        guard !state.isMuted, var next = position.next else { return nil }
        while next <= state.revision, state.log[next] == nil { next += 1 }
        guard next <= state.revision, let log = state.log[next] else { return nil }
        position.next = next + 1
        let changes = log.filter { $0.name.string.utf8.starts(with: prefix.utf8) }.map {
            KVChange.changed(name: $0.name.string, entry: $0.entry, revision: next)
        }
        return KVChangeSet(changes, revision: next)
    }
}

/// The encoded value, as a store keeps it.
func encoded(_ value: Int) -> [UInt8] {
    let store = InMemoryKVStore()
    do {
        try store.set(KVKey<Int>("a"), value: value)
        return try store.rawValue(named: "a") ?? []
    } catch {
        Issue.record(error)
        return []
    }
}

/// Waits until a condition holds.
func until(_ what: Comment? = nil, _ condition: () throws -> Bool) async throws {
    let end = ContinuousClock.now + TestDepth.hangLimit
    while try !condition() {
        try #require(ContinuousClock.now < end, what ?? "waited in vain")
        try await Task.sleep(for: .milliseconds(2))
    }
}

extension MirroredKVStore.Configuration {
    /// Without delays, with limits that a busy machine keeps.
    static var test: Self { test() }

    /// With a time after which `wait` makes the mirror list again; by default later than any test waits.
    static func test(patience: Duration = TestDepth.hangLimit * 2) -> Self {
        var configuration = Self()
        configuration.listJitter = .zero
        configuration.longestBackoff = .milliseconds(20)
        configuration.visibilityLimit = TestDepth.hangLimit
        configuration.patience = patience
        return configuration
    }
}

extension MirroredKVStore {
    /// The values that are numbers.
    var numbers: [String: Int] {
        get throws {
            let snapshot = try snapshot()
            return Dictionary(
                uniqueKeysWithValues: try snapshot.names.map { ($0, try snapshot.read(KVKey<Int>($0)) ?? 0) })
        }
    }

    func caughtUp() async throws -> Self {
        try await wait(upTo: TestDepth.hangLimit)
        return self
    }
}

/// A store that forwards to another one, by default a remote double, the calls that it does not implement.
protocol ForwardingStore: AsyncKVStoring {
    associatedtype Base: AsyncKVStoring = RemoteDouble
    var base: Base { get }
}

extension ForwardingStore {
    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { try await base.capabilities() }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? { try await base.entry(named: name) }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try await base.commit(batch, timeToLive: timeToLive)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}

/// A store whose stream delivers what a test tells it to.
final class ScriptedStore: ForwardingStore {
    let base = RemoteDouble()
    private let updates = Mutex<[KVChangeSet]>([])

    /// Whether each change is delivered by itself.
    let isSplit: Bool

    /// Whether writes return their revision.
    let returnsRevisions: Bool

    let connectionCount = Atomic(0)
    let readCount = Atomic(0)

    /// Whether reads of entries fail.
    let failsReads = Atomic(false)

    init(isSplit: Bool = false, returnsRevisions: Bool = true) {
        (self.isSplit, self.returnsRevisions) = (isSplit, returnsRevisions)
    }

    func deliver(_ changes: [KVChange], upTo revision: UInt64? = nil) {
        updates.withLock { updates in
            guard isSplit else { return updates.append(KVChangeSet(changes, revision: revision)) }
            for change in changes {
                guard case .changed(_, let entry, let revision) = change else {
                    updates.append(KVChangeSet([change]))
                    continue
                }
                // A value whose revision comes after that of its change belongs to a batch of which more follows.
                let isComplete = entry.map { $0.revision <= revision ?? 0 } ?? true
                updates.append(KVChangeSet([change], revision: isComplete ? revision : nil))
            }
        }
    }

    /// Whether everything was taken.
    var isEmpty: Bool { updates.withLock { $0.isEmpty } }

    fileprivate func take() -> KVChangeSet? { updates.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        defer { readCount.add(1, ordering: .relaxed) }
        if failsReads.load(ordering: .relaxed) { throw KVStoreError(.unavailable(.server), .read, key: name) }
        return try await base.entry(named: name)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        let revision = try await base.commit(batch, timeToLive: timeToLive)
        return returnsRevisions ? revision : nil
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        connectionCount.add(1, ordering: .relaxed)
        return KVChanges { [self] () async throws(KVStoreError) -> KVChangeSet? in
            while !Task.isCancelled {
                if let update = take() { return update }
                do { try await Task.sleep(for: .milliseconds(1)) } catch { return nil }
            }
            return nil
        }
    }
}

/// A store whose pages of values fail as a rule says.
struct RuledPages<Base: AsyncKVStoring>: ForwardingStore {
    let base: Base
    let failure: @Sendable (_ limit: Int) -> KVStoreError.Code?

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        if let code = failure(limit) { throw KVStoreError(code, .keys) }
        return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }
}
