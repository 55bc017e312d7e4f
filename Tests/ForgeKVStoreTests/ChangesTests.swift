import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

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
        var none = try #require(store.subscribe(to: .key(String(repeating: "x", count: 1025)))).makeAsyncIterator()
        guard case .changed(_, nil, _)? = try await none.next() else {
            Issue.record("an invalid name is not absent")
            return
        }
    }

    @Test("wake a consumer that waits for them, whichever call makes them", arguments: ["memory", "file", "defaults"])
    func waking(_ name: String) async throws {
        let suite = TemporarySuite()
        let store: any KVRawStoring =
            switch name {
            case "memory": store
            case "file": try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem())
            default: UserDefaultsKVStore(suiteName: suite.name)
            }
        let (ping, pong) = (KVKey<Int>("ping"), KVKey<Int>("pong"))
        let pings = try #require(store.subscribe(to: .key(ping.name)))
        let pongs = try #require(store.subscribe(to: .key(pong.name)))
        let rounds = name == "defaults" ? 24 : 200
        // Each side waits for the other one's change.
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for try await change in pings {
                    guard case .changed(_, let entry?, _) = change else { continue }
                    let number = try entry.value(of: ping)
                    switch number % 4 {
                    case 1: try store.remove(pong)
                    case 3: try store.removeAll()
                    default: try store.set(pong, value: number)
                    }
                    if number == rounds - 1 { return }
                }
            }
            var number = 0
            for try await _ in pongs {
                if number == rounds { break }
                try store.set(ping, value: number)
                number += 1
            }
            try await group.waitForAll()
        }
    }

    /// The sets, one after the other.
    private func changes(_ sets: [KVChangeSet]) -> KVChanges {
        final class Rest: Sendable {
            let sets: Mutex<[KVChangeSet]>

            init(_ sets: [KVChangeSet]) { self.sets = Mutex(sets) }

            func next() -> KVChangeSet? { sets.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
        }
        let rest = Rest(sets)
        return KVChanges { rest.next() }
    }

    private func change(_ name: String, _ revision: UInt64? = nil) -> KVChange {
        .changed(name: name, entry: nil, revision: revision)
    }

    @Test("that belong together are together, after those that were taken one by one")
    func sets() async throws {
        let sets = [
            KVChangeSet(["a", "b", "c"].map { change($0) }, revision: 7), KVChangeSet([], revision: 8),
            KVChangeSet([]), KVChangeSet([change("d")]),
        ]
        var iterator = changes(sets).makeAsyncIterator()
        #expect(try await iterator.next() == change("a"))
        #expect(try await iterator.nextSet() == KVChangeSet([change("b"), change("c")], revision: 7))
        #expect(try await iterator.nextSet() == KVChangeSet([], revision: 8))
        #expect(try await iterator.next() == change("d"))
        #expect(try await iterator.nextSet() == nil)
        #expect(try await iterator.next() == nil)
    }

    @Test("that a layer leaves out are left out, but not a revision nor a notice")
    func mapped() async throws {
        let sets = [
            KVChangeSet([change("x")]), KVChangeSet([change("x")], revision: 5), KVChangeSet([]),
            KVChangeSet([change("x"), change("y", 3), .resync], revision: 6), KVChangeSet([change("x")]),
        ]
        let mapped = changes(sets).mapChanges { name, entry in
            guard name != "x" else { return nil }
            return (name: name + "'", entry: entry)
        }
        var iterator = mapped.makeAsyncIterator()
        #expect(try await iterator.nextSet() == KVChangeSet([], revision: 5))
        #expect(try await iterator.nextSet() == KVChangeSet([]))
        #expect(try await iterator.nextSet() == KVChangeSet([change("y'", 3), .resync], revision: 6))
        #expect(try await iterator.nextSet() == nil)
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

    /// A store that reports no changes.
    private struct Silent: KVLayer, KVStoring {
        let base = InMemoryKVStore()
        func subscribe(to scope: KVScope) -> KVChanges? { nil }
    }

    @Test("of a store with defaults that report none are a resync for a name that becomes absent")
    func silentDefaults() async throws {
        let defaults = Silent()
        try defaults.base.set(key, value: 7)
        let layer = ReactiveKVStore(FallbackKVStore(store, defaults: defaults))
        var changes = try #require(layer.subscribe(to: .prefix(""))).makeAsyncIterator()
        var values = layer.stream(key).makeAsyncIterator()
        #expect(await values.next() == 7)
        try layer.set(key, value: 1)
        #expect(try await next(&changes) == 1)
        #expect(await values.next() == 1)
        try layer.remove(key)
        #expect(try await changes.next() == .resync)
        #expect(await values.next() == 7)
        // A value that equals the default is no other value.
        try layer.set(key, value: 7)
        try layer.set(key, value: 2)
        #expect(await values.next() == 2)
    }

    @Test("over a store that reports none begin with a resync, once")
    func beginning() async throws {
        let reactive = ReactiveKVStore(Silent())
        var changes = try #require(reactive.subscribe(to: .prefix(""))).makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        try reactive.set(key, value: 1)
        #expect(try await next(&changes) == 1)
    }

    @Test("of values are values as the store converts them, and a new end of one is no new value")
    func converted() async throws {
        let suite = TemporarySuite()
        let defaults = ReactiveKVStore(UserDefaultsKVStore(suiteName: suite.name))
        var truths = defaults.stream(KVKey<Bool>("a")).makeAsyncIterator()
        #expect(await truths.next() == .some(nil))
        try defaults.set(key, value: 5)
        #expect(await truths.next() == true)

        let expiring = ExpiringKVStore(store)
        let reactive = ReactiveKVStore(expiring)
        var values = reactive.stream(key).makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        try expiring.set(key, value: 1)
        #expect(await values.next() == 1)
        try expiring.set(key, value: 1, expiresAt: .distantFuture)
        try expiring.set(key, value: 2)
        #expect(await values.next() == 2)
    }

    private func names(_ changes: inout KVChanges.Iterator) async throws -> [String?] {
        let set = try await changes.nextSet()
        return (set?.changes ?? []).map { change in
            guard case .changed(let name, _, _) = change else { return nil }
            return name
        }
    }

    @Test("of user defaults contain what other code announces, and the store's own writes once")
    func announced() async throws {
        let suite = TemporarySuite()
        let store = UserDefaultsKVStore(suiteName: suite.name)
        let other = try #require(UserDefaults(suiteName: suite.name))
        func announce() { NotificationCenter.default.post(name: UserDefaults.didChangeNotification, object: nil) }
        var values = store.values(of: key).makeAsyncIterator()
        var changes = try #require(store.subscribe(to: .prefix(""))).makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        try store.set(key, value: 1)
        #expect(await values.next() == 1)
        #expect(try await names(&changes) == ["a"])
        announce()
        other.set(true, forKey: "größe")
        announce()
        #expect(try await names(&changes) == ["größe"])
        other.set(2, forKey: "a")
        announce()
        #expect(await values.next() == 2)
        #expect(try await names(&changes) == ["a"])
        other.removeObject(forKey: "größe")
        announce()
        #expect(try await names(&changes) == ["größe"])
        try store.removeAll()
        announce()
        #expect(try await names(&changes) == [nil])
        #expect(await values.next() == .some(nil))
        try store.set(key, value: 5)
        #expect(try await names(&changes) == ["a"])
    }

    @Test("of user defaults contain what other processes change in the keys that the system observes")
    func observedKeys() async throws {
        let suite = TemporarySuite()
        let observed = Mutex<[String: @Sendable () -> Void]>([:])
        var platform = UserDefaultsPlatform.current
        platform.observeKey = { name, observedSuite, onChange in
            #expect(observedSuite == suite.name)
            observed.withLock { $0[name] = onChange }
            return nil
        }
        let store = UserDefaultsKVStore(suiteName: suite.name, on: platform) { name, _ in
            UserDefaults(suiteName: name)
        }
        try store.set(KVKey<Int>("b"), value: 1)
        try store.set(KVKey<Int>("dotted.name"), value: 1)
        var values = store.values(of: key).makeAsyncIterator()
        var changes = try #require(store.subscribe(to: .prefix(""))).makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        let observedNames = observed.withLock { Set($0.keys) }
        #expect(observedNames == ["a", "b"])
        let other = try #require(UserDefaults(suiteName: suite.name))
        for (name, value) in [("a", 2), ("b", 3)] {
            other.set(value, forKey: name)
            let announce = try #require(observed.withLock { $0[name] })
            announce()
            #expect(try await names(&changes) == [name])
        }
        #expect(await values.next() == 2)
        // No key is observed in a refused suite, nor a name that no value can have.
        let refused = UserDefaultsKVStore(suiteName: "a/b", on: platform) { _, _ in nil }
        withExtendedLifetime(refused.subscribe(to: .key("c"))) {}
        withExtendedLifetime(store.subscribe(to: .key(String(repeating: "x", count: 2_000)))) {}
        let namesAfterwards = observed.withLock { Set($0.keys) }
        #expect(namesAfterwards == observedNames)
    }

    @Test("of user defaults: the store is released when nobody subscribes to them any more")
    func observing() async {
        let suite = TemporarySuite()
        weak var store: UserDefaultsKVStore?
        do {
            let object = UserDefaultsKVStore(suiteName: suite.name)
            store = object
            withExtendedLifetime(object.subscribe(to: .key("a"))) {}
        }
        // Foundation keeps what it calls. A check that another test has caused may still run.
        while store != nil { await Task.yield() }
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
        #expect(composed != .resync && .resync != composed)
        let entry = KVEntry(bytes: [1], revision: 1)
        #expect(composed != .changed(name: "\u{E9}", entry: entry, revision: nil))
        #expect(composed != .changed(name: "\u{E9}", entry: nil, revision: 1))
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
