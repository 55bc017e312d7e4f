import ForgeFileSystem
import ForgeKVStore
import TestDepth
import Testing

@Suite("The changes of a store", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct ChangesTests {
    private let store = InMemoryKVStore()
    private let key = KVKey<Int>("a")

    private func next(_ changes: inout KVChanges.Iterator) async throws -> Int? {
        guard case .changed(_, let entry, _) = try await changes.next() else { return nil }
        return try entry?.value(of: key)
    }

    @Test(
        "of a key begin with its entry and have every write in order",
        arguments: ["memory", "file", "user defaults", "namespaced", "expiring", "defaults", "migrating", "reactive"])
    func key(_ name: String) async throws {
        let suite = TemporarySuite()
        let store: any KVRawStoring =
            switch name {
            case "memory": store
            case "file": try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem())
            case "user defaults": UserDefaultsKVStore(suiteName: suite.name)
            case "namespaced": NamespacedKVStore(store, namespace: "n")
            case "expiring": ExpiringKVStore(store)
            case "defaults": FallbackKVStore(store, defaults: InMemoryKVStore())
            case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: store)
            default: ReactiveKVStore(store)
            }
        try store.set(key, value: 1)
        var changes = try #require(store.subscribe(to: .key("a"))).makeAsyncIterator()
        #expect(try await next(&changes) == 1)
        try store.set(key, value: 2)
        try store.set(KVKey<Int>("b"), value: 9)
        try store.remove(key)
        let bytes = try store.rawValue(named: "b")
        try store.setRawValue(try #require(bytes), named: "a")
        try store.removeAll()
        for value in [2, nil, 9, nil] as [Int?] { #expect(try await next(&changes) == value) }
    }

    @Test("of a prefix have the names of a batch together, and its removals")
    func prefix() async throws {
        var changes = try #require(store.subscribe(to: .prefix("p/"))).makeAsyncIterator()
        try store.batch { batch in
            try batch.set(KVKey<Int>("p/a"), value: 1)
            try batch.set(KVKey<Int>("q"), value: 1)
            batch.remove(KVKey<Int>("p/b"))
            try batch.set(KVKey<Int>("p/a"), value: 2)
        }
        let entry = try store.entry(named: "p/a")
        #expect(
            try await changes.nextSet()?.changes == [
                .changed(name: "p/a", entry: entry, revision: nil), .changed(name: "p/b", entry: nil, revision: nil),
            ])
        try store.removeAll()
        #expect(try await changes.nextSet()?.changes == [.resync])
    }

    @Test("of an empty batch are none")
    func emptyBatch() async throws {
        let file = try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem())
        for store: any KVTransactionalStoring in [store, file] {
            var changes = try #require(store.subscribe(to: .prefix(""))).makeAsyncIterator()
            try store.commit(KVBatch())
            try store.set(key, value: 1)
            #expect(try await next(&changes) == 1)
        }
    }

    @Test("that may show or hide a default are a resync of a prefix")
    func defaults() async throws {
        let defaults = InMemoryKVStore()
        let layer = FallbackKVStore(store, defaults: defaults)
        var changes = try #require(layer.subscribe(to: .prefix(""))).makeAsyncIterator()
        try layer.set(key, value: 1)
        #expect(try await next(&changes) == 1)
        try layer.remove(key)
        #expect(try await changes.next() == .resync)
        try defaults.set(key, value: 7)
        #expect(try await changes.next() == .resync)
    }

    @Test("that names of equal characters have are different")
    func names() {
        let names = ["\u{E9}", "e\u{301}"]
        #expect(Set(names.map { KVStoreCall(.set, [$0]) }).count == 2)
        #expect(Set(names.map { AsyncKVPage(names: [$0], hasMore: false) }).count == 2)
        #expect(Set(names.map { KVKeyProblem.tooLong(name: $0) }).count == 2)
        #expect(Set(names.map { KVKeyProblem.similar(names: [$0]) }).count == 2)
        #expect(Set(names.flatMap { KVKeyCatalog(KVKey<Int>($0)).entries }).count == 2)
        let composed = KVChange.changed(name: "\u{E9}", entry: nil, revision: nil)
        #expect(composed != .changed(name: "e\u{301}", entry: nil, revision: nil))
        #expect(composed == .changed(name: "\u{E9}", entry: nil, revision: nil))
        #expect(Set([composed, .changed(name: "e\u{301}", entry: nil, revision: nil), .resync]).count == 3)
    }

    @Test("of a store that reports none are none")
    func none() {
        struct Plain: KVStoring {
            func get<T>(_ key: KVKey<T>) -> T? { nil }
            func set<T>(_ key: KVKey<T>, value: T) throws {}
            func remove<T>(_ key: KVKey<T>) throws {}
            func contains<T>(_ key: KVKey<T>) -> Bool { false }
            func removeAll() throws {}
        }
        for layer: any KVStoring in [Plain(), ReadOnlyKVStore(Plain()), ExpiringKVStore(Plain())] {
            let changes = layer.subscribe(to: .key("a"))
            #expect(changes == nil)
        }
    }
}

/// Calls a handler with the names of each set of changes of a store, or nil if any may have changed, until it is
/// released.
final class Observation: Sendable {
    private let task: Task<Void, Never>

    init(_ store: some KVStoring, _ handler: @escaping @Sendable ([String]?) -> Void) {
        let changes = store.subscribe(to: .prefix("")) ?? KVChanges { nil }
        task = Task {
            var iterator = changes.makeAsyncIterator()
            do {
                while let set = try await iterator.nextSet() {
                    let names = set.changes.map { change in
                        guard case .changed(let name, _, _) = change else { return nil as String? }
                        return name
                    }
                    handler(names.contains(nil) ? nil : names.compactMap(\.self))
                }
            } catch {
                handler(nil)
            }
        }
    }

    deinit { task.cancel() }
}

/// The changes of a key with its decoded value.
struct KeyChanges<Value: Codable & Sendable>: AsyncSequence, Sendable {
    struct Element: Sendable {
        /// The value; nil if the key is absent or its value is not of the type.
        var value: Value?
        var revision: UInt64?
    }

    typealias Failure = Never

    let key: KVKey<Value>
    let changes: KVChanges

    func makeAsyncIterator() -> Iterator { Iterator(key: key, changes: changes.makeAsyncIterator()) }

    struct Iterator: AsyncIteratorProtocol {
        let key: KVKey<Value>
        var changes: KVChanges.Iterator

        mutating func next() async -> Element? { await next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            do {
                guard case .changed(_, let entry, _)? = try await changes.next(isolation: actor) else { return nil }
                return Element(value: try entry?.value(of: key), revision: entry?.revision)
            } catch {
                return Element()
            }
        }
    }
}

extension KVStoring {
    /// The changes of a key; none if the store does not report any.
    func changes<Value>(_ key: KVKey<Value>) -> KeyChanges<Value> {
        KeyChanges(key: key, changes: subscribe(to: .key(key.name)) ?? KVChanges { nil })
    }
}
