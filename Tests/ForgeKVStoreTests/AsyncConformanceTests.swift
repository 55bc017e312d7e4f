import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite struct AsyncKeyValueConformanceTests {
    /// Runs a check on two stores over one in memory, and returns that one.
    @discardableResult
    private func run(
        _ check: ConformanceCheck<AsyncKVStoreUnderTest>,
        on makeStores: (LocalAsyncKVStore) async throws -> (any AsyncKVStoring, any AsyncKVStoring)
    ) async throws -> LocalAsyncKVStore {
        let clock = ManualClock()
        let base = LocalAsyncKVStore(ExpiringKVStore(InMemoryKVStore(), now: { clock.now }))
        let (store, other) = try await makeStores(base)
        try await check.run(on: AsyncKVStoreUnderTest(store, other: other, pass: { clock.advance($0) }))
        return base
    }

    @Test("the adapter over a store in memory conforms", arguments: ConformanceChecks.asyncKeyValueStore)
    func inMemory(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        try await run(check) { ($0, $0) }
    }

    @Test("the adapter over a store on disk conforms", arguments: ConformanceChecks.asyncKeyValueStore)
    func onDisk(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        let directory = TemporaryDirectory()
        let clock = ManualClock()
        let disk = try FileKVStore(at: directory.url)
        let base = ExpiringKVStore(disk, now: { clock.now })
        let url = directory.url
        try await check.run(
            on: AsyncKVStoreUnderTest(
                LocalAsyncKVStore(base, durability: .powerCut), other: LocalAsyncKVStore(base),
                pass: { clock.advance($0) },
                reopen: {
                    try disk.close()
                    return LocalAsyncKVStore(ExpiringKVStore(try FileKVStore(at: url), now: { clock.now }))
                }))
        withExtendedLifetime(directory) {}
    }

    @Test("an update of a store in memory has whole commits, and a list of an earlier revision is refused")
    func wholeCommits() async throws {
        let base = InMemoryKVStore()
        let store = LocalAsyncKVStore(base)
        var changes = store.changes(prefix: "n.", from: nil).makeAsyncIterator()
        #expect(try await changes.nextSet()?.changes == [.resync])
        try base.batch { batch in
            for number in 0..<100 { try batch.set(KVKey<Int>("n.\(number)"), value: number) }
            try batch.set(KVKey<Int>("m"), value: 1)
        }
        let added = try await changes.nextSet()
        #expect(added?.changes.count == 100)
        #expect(added?.revision == nil)
        try base.batch { batch in
            for number in 0..<50 { batch.remove(KVKey<Int>("n.\(number)")) }
            try batch.set(KVKey<Int>("n.99"), value: 0)
        }
        let removed = try #require(try await changes.nextSet()).changes
        #expect(removed.count == 51)
        let entry = try base.entry(named: "n.99")
        #expect(removed.contains(.changed(name: "n.99", entry: entry, revision: nil)))
        #expect(removed.contains(.changed(name: "n.0", entry: nil, revision: nil)))
        let error = await #expect(throws: KVStoreError.self) {
            _ = try await store.entries(prefix: "", after: nil, limit: 10, at: 1)
        }
        #expect(error?.code == .refused)
    }

    @Test("names that changed before they are requested are delivered once each")
    func manyNames() async throws {
        let base = InMemoryKVStore()
        var changes = LocalAsyncKVStore(base).changes(prefix: "", from: nil).makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        for number in 0..<900 { try base.set(KVKey<Int>("\(number)"), value: number) }
        var seen: Set<String> = []
        while seen.count < 900 {
            guard case .changed(let name, _, _) = try await changes.next() else { continue }
            #expect(seen.insert(name).inserted)
        }
    }

    @Test("a base without expirations and changes declares so", arguments: ConformanceChecks.asyncKeyValueStore)
    func plain(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        let base = WithoutChanges(base: InMemoryKVStore())
        let store = LocalAsyncKVStore(base)
        #expect(await store.capabilities().changes == .none)
        #expect(await store.capabilities().expiry == nil)
        try await check.run(on: AsyncKVStoreUnderTest(store, other: store, pass: { _ in }))
    }

    @Test("errors of the base have the operation, and a flush that fails leaves a write whose durability is unknown")
    func errorsOfTheBase() async throws {
        let base = FailingStore()
        let store = LocalAsyncKVStore(base, durability: .powerCut)
        let (unread, unknown) = (KVStoreError.Code.unavailable(.inputOutput), KVStoreError.Code.durabilityUnknown)
        let calls: [(KVStoreError.Operation, String?, KVStoreError.Code, @Sendable () async throws -> Void)] = [
            (.read, "a", unread, { _ = try await store.entry(named: "a") }),
            (.keys, nil, unread, { _ = try await store.keys(prefix: "", after: nil, limit: 1) }),
            (.keys, nil, unread, { _ = try await store.entries(prefix: "", after: nil, limit: 1, at: nil) }),
            (.set, "a", unknown, { try await store.set(KVKey<Int>("a"), value: 1) }),
        ]
        for (operation, name, code, call) in calls {
            let error = await #expect(throws: KVStoreError.self) { try await call() }
            #expect(error?.code == code && error?.operation == operation && error?.key == name)
            #expect(error?.underlying != nil)
        }
        #expect(base.base.get(KVKey<Int>("a")) == 1)
        // Without a promise of durability nothing is flushed.
        try await LocalAsyncKVStore(base, durability: .processEnd).set(KVKey<Int>("a"), value: 2)
        #expect(base.base.get(KVKey<Int>("a")) == 2)
    }

    @Test("a namespace conforms", arguments: ConformanceChecks.asyncKeyValueStore)
    func namespaced(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        if check.needs.contains(.longestNames) { return }
        let base = try await run(check) { base in
            try await base.set(KVKey<Int>("a"), value: 7)
            return (
                NamespacedKVStore(base, namespace: "n/s"), NamespacedKVStore(base, namespace: "n/s")
            )
        }
        #expect(try await base.read(KVKey<Int>("a")) == 7)
    }

    @Test("a store that is recorded conforms", arguments: ConformanceChecks.asyncKeyValueStore)
    func recorded(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        try await run(check) { (RecordingKVStore($0), RecordingKVStore($0)) }
    }

    @Test("a store whose calls may fail conforms while none does", arguments: ConformanceChecks.asyncKeyValueStore)
    func faultless(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        try await run(check) { (FaultingAsyncKVStore($0) { _ in nil }, $0) }
    }

    @Test("errors in a namespace have the caller's name")
    func namesOfErrors() async throws {
        let base = LocalAsyncKVStore(InMemoryKVStore())
        let store = NamespacedKVStore(base, namespace: "n")
        let name = String(repeating: "x", count: 1024)
        let error = await #expect(throws: KVStoreError.self) { try await store.set(KVKey<Int>(name), value: 1) }
        #expect(error?.code == .invalidKey)
        #expect(error?.key == name)
    }

    @Test("a fault before a write leaves the store unchanged, a fault after it does not")
    func faults() async throws {
        let base = LocalAsyncKVStore(InMemoryKVStore())
        let store = FaultingAsyncKVStore(base) { call in
            guard call.operation == .commit else { return nil }
            return call.names == ["before"] ? .before(.unavailable(.server)) : .after(.unknownOutcome)
        }
        for (name, code) in [("before", KVStoreError.Code.unavailable(.server)), ("after", .unknownOutcome)] {
            let error = await #expect(throws: KVStoreError.self) {
                try await store.set(KVKey<Int>(name), value: 1)
            }
            #expect(error?.code == code)
            #expect(error?.operation == .set)
        }
        #expect(try await store.keys() == ["after"])
    }

    @Test("a fault of the changes loses none of them")
    func faultsOfChanges() async throws {
        let base = InMemoryKVStore()
        let fault = Mutex<FaultingAsyncKVStore<LocalAsyncKVStore>.Fault?>(nil)
        let store = FaultingAsyncKVStore(LocalAsyncKVStore(base)) { call in
            call == KVStoreCall(.changes, ["p/"]) ? fault.withLock { $0 } : nil
        }
        var iterator = store.changes(prefix: "p/", from: nil).makeAsyncIterator()
        #expect(try await iterator.next() == .resync)
        try base.set(KVKey<Int>("p/a"), value: 1)
        for planned in [FaultingAsyncKVStore<LocalAsyncKVStore>.Fault.before(.unavailable(.server)), .after(.timeout)] {
            fault.withLock { $0 = planned }
            let error = await #expect(throws: KVStoreError.self) { _ = try await iterator.nextSet() }
            #expect(error?.operation == .changes)
            #expect(
                planned == .before(.unavailable(.server))
                    ? error?.code == .unavailable(.server) : error?.code == .timeout)
        }
        fault.withLock { $0 = nil }
        #expect(try await iterator.next() == .changed(name: "p/a", entry: base.entry(named: "p/a"), revision: nil))
    }

    @Test("a record contains operations and names in order, and no values")
    func recording() async throws {
        let store = RecordingKVStore(LocalAsyncKVStore(InMemoryKVStore()))
        let key = KVKey<Int>("a")
        _ = try await store.capabilities()
        try await store.set(KVKey<String>("name\n"), value: "secret")
        try await store.update(key, default: 1) { $0 += 1 }
        _ = try await store.keys(prefix: "p/")
        _ = try await store.entries(prefix: "q/", after: nil, limit: 1, at: nil)
        _ = store.changes(prefix: "r/", from: nil)
        await #expect(throws: KVStoreError.self) {
            try await store.createIfAbsent(key, value: 1, timeToLive: .seconds(1))
        }
        let calls = store.calls
        #expect(
            calls.map(\.operation) == [.capabilities, .commit, .entry, .commit, .keys, .entries, .changes, .commit])
        #expect(calls.map(\.names) == [[], ["name\n"], ["a"], ["a", "a"], ["p/"], ["q/"], ["r/"], ["a", "a"]])
        #expect(calls[1].description == "commit \"name\\x0a\"")
        var dumped = ""
        dump(calls, to: &dumped)
        #expect(!dumped.contains("secret"))
        store.clear()
        #expect(store.calls == [])
    }

    @Test("waiting for a change ends when the task is cancelled")
    func cancellation() async throws {
        let store = LocalAsyncKVStore(InMemoryKVStore())
        let (ready, isReady) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            var count = 0
            for try await _ in store.changes() {
                count += 1
                isReady.yield()
            }
            return count
        }
        for await _ in ready { break }
        task.cancel()
        #expect(try await task.value == 1)
    }

    @Test("a consumer that is far behind gets a resync instead of 10,001 names")
    func overflow() async throws {
        let base = InMemoryKVStore()
        let store = LocalAsyncKVStore(base)
        var iterator = store.changes().makeAsyncIterator()
        #expect(try await iterator.next() == .resync)
        try base.batch { batch in for index in 0...10_000 { try batch.set(KVKey<Int>("\(index)"), value: index) } }
        #expect(try await iterator.next() == .resync)
        try base.set(KVKey<Int>("a"), value: 1)
        #expect(try await iterator.next() == .changed(name: "a", entry: base.entry(named: "a"), revision: nil))
    }
}

/// A store of a program whose lists and flushes fail.
private struct FailingStore: KVLayer, KVTransactionalStoring {
    let base = InMemoryKVStore()

    private var error: CocoaError { CocoaError(.fileReadUnknown) }

    func entry(named name: String) throws -> KVEntry? { throw error }
    func keys() throws -> [String] { throw error }
    func snapshot() throws -> KVSnapshot { throw error }
    func commit(_ batch: KVBatch) throws { try base.commit(batch) }
    func synchronize() throws { throw error }
}

/// A store that reports no changes.
private struct WithoutChanges: KVTransactionalStoring {
    let base: InMemoryKVStore

    func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }
    func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }
    func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }
    func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }
    func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
    func removeAll() throws { try base.removeAll() }
    func keys() throws -> [String] { try base.keys() }
    func rawValue(named name: String) throws -> [UInt8]? { try base.rawValue(named: name) }
    func setRawValue(_ bytes: [UInt8], named name: String) throws { try base.setRawValue(bytes, named: name) }
    func removeValue(named name: String) throws { try base.removeValue(named: name) }
    func entry(named name: String) throws -> KVEntry? { try base.entry(named: name) }
    func snapshot() throws -> KVSnapshot { try base.snapshot() }
    func commit(_ batch: KVBatch) throws { try base.commit(batch) }
    func synchronize() throws { try base.synchronize() }
}

private final class ManualClock: Sendable {
    private let time = Mutex(Date(timeIntervalSince1970: 0))

    var now: Date { time.withLock { $0 } }

    func advance(_ duration: Duration) { time.withLock { $0 += duration / .seconds(1) } }
}

/// What the defaults of the protocol would hide: pages of values with the identity of the store, times to live, and
/// updates of changes.
@Suite("Every layer forwards every requirement of an asynchronous store")
struct AsyncForwardingTests {
    @Test(arguments: ["recording", "faulting", "read-only", "namespaced"])
    func forwards(_ name: String) async throws {
        let remote = RemoteDouble()
        let revision = remote.change([("n/a", 1), ("n/b", 2)])
        let recorded = RecordingKVStore(remote)
        let store: any AsyncKVStoring =
            switch name {
            case "recording": RecordingKVStore(recorded)
            case "read-only": ReadOnlyKVStore(recorded)
            case "faulting": FaultingAsyncKVStore(recorded) { _ in nil }
            default: NamespacedKVStore(recorded, namespace: "n")
            }
        let prefix = name == "namespaced" ? "" : "n/"

        let page = try await store.entries(prefix: prefix, after: nil, limit: 10, at: revision)
        #expect(page.entries.map(\.name) == [prefix + "a", prefix + "b"])
        #expect(page.revision == revision)
        #expect(page.storeID?.hasPrefix("one") == true)
        #expect(recorded.calls == [KVStoreCall(.entries, ["n/"])])

        var iterator = store.changes(prefix: prefix, from: revision).makeAsyncIterator()
        let next = remote.change([("n/a", 3), ("n/b", nil)])
        let update = try await iterator.nextSet()
        #expect(update?.changes.count == 2)
        #expect(update?.revision == next)

        let removal = KVKey<Int>(prefix + "a")
        var batch = KVBatch()
        batch.remove(removal)
        guard name != "read-only" else {
            let error = await #expect(throws: KVStoreError.self) { try await store.commit(batch, timeToLive: nil) }
            #expect(error?.code == .readOnly)
            return
        }
        #expect(try await store.commit(batch, timeToLive: nil) == next + 1)
        let error = await #expect(throws: KVStoreError.self) {
            try await store.set(removal, value: 1, timeToLive: .seconds(1))
        }
        #expect(error?.code == .refused)
    }
}

/// A store with the required calls alone, whose pages of names a test chooses, and whose commits fail. A name that begins
/// with `gone` has no value.
private struct PagedStore: AsyncKVStoring {
    /// The pages by the name before them.
    var pages: [String: AsyncKVPage] = [:]
    var failure = KVStoreError.Code.refused

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        AsyncKVCapabilities(
            maximumBatchSize: nil, expiry: nil, changes: .none, readConsistency: .linearizable, durability: .memory)
    }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        name.hasPrefix("gone") ? nil : KVEntry(bytes: Array(name.utf8), revision: 1)
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        pages[after ?? ""] ?? AsyncKVPage(names: [], hasMore: true)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        throw KVStoreError(failure, .batch)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges { KVChanges { nil } }
}

@Suite("The defaults of an asynchronous store")
struct AsyncDefaultsTests {
    @Test("read the values of each page of names, and go on while all of a page are gone")
    func pages() async throws {
        let single = PagedStore(pages: ["": AsyncKVPage(names: ["x"], hasMore: false, revision: 3)])
        let only = try await single.entries(prefix: "", after: nil, limit: 1, at: nil)
        #expect(only.entries.map(\.name) == ["x"] && !only.hasMore && only.revision == 3)
        #expect(try await single.keys() == ["x"])

        let store = PagedStore(pages: [
            "": AsyncKVPage(names: ["gone 1"], hasMore: true, revision: 5),
            "gone 1": AsyncKVPage(names: ["a", "gone 2"], hasMore: true, revision: 6),
            "gone 2": AsyncKVPage(names: ["b"], hasMore: true),
        ])
        let first = try await store.entries(prefix: "", after: nil, limit: 1, at: nil)
        #expect(first.entries.map(\.name) == ["a"] && first.hasMore && first.revision == 5)
        #expect(first.entries.map(\.entry.bytes) == [Array("a".utf8)])
        let second = try await store.entries(prefix: "", after: "gone 2", limit: 1, at: nil)
        #expect(second.entries.map(\.name) == ["b"] && second.hasMore && second.revision == nil)
        let last = try await store.entries(prefix: "", after: "b", limit: 1, at: nil)
        #expect(last.entries.isEmpty && !last.hasMore)
        #expect(try await store.keys() == ["gone 1", "a", "gone 2", "b"])
    }

    @Test("name the call and the key in an error, and return false for a conflict")
    func errors() async throws {
        struct Refusing: Codable, Sendable {
            init() {}
            init(from decoder: any Decoder) throws {}
            func encode(to encoder: any Encoder) throws { throw CancellationError() }
        }
        let store = PagedStore()
        let key = KVKey<Int>("a")
        let calls: [(KVStoreError.Operation, KVStoreError.Code, () async throws -> Void)] = [
            (.set, .refused, { try await store.set(key, value: 1) }),
            (.remove, .refused, { try await store.remove(key) }),
            (.set, .refused, { try await store.createIfAbsent(key, value: 1) }),
            (.set, .unencodable, { try await store.set(KVKey<Refusing>("a"), value: Refusing()) }),
        ]
        for (operation, code, call) in calls {
            let error = await #expect(throws: KVStoreError.self) { try await call() }
            #expect(error?.code == code && error?.operation == operation && error?.key == "a")
        }
        let changing = PagedStore(failure: .conflict)
        #expect(try await !changing.createIfAbsent(key, value: 1))
        #expect(try await !changing.compareAndSet(key, revision: 1, value: 1))
    }

    @Test("compare pages by all that they show, and durabilities by the failure that writes survive")
    func comparisons() {
        let page = AsyncKVPage(names: ["a"], hasMore: true, revision: 1)
        #expect(page == AsyncKVPage(names: ["a"], hasMore: true, revision: 1))
        for other in [
            AsyncKVPage(names: ["b"], hasMore: true, revision: 1),
            AsyncKVPage(names: ["a"], hasMore: false, revision: 1),
            AsyncKVPage(names: ["a"], hasMore: true, revision: 2),
        ] { #expect(page != other) }
        let durabilities: [AsyncKVCapabilities.Durability] = [.memory, .processEnd, .powerCut]
        for (first, left) in durabilities.enumerated() {
            for (second, right) in durabilities.enumerated() { #expect((left < right) == (first < second)) }
        }
    }
}
