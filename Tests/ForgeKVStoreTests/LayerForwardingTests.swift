import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

/// A store that only records its calls, each requirement of the protocol separately.
private final class Probe: KVTransactionalStoring {
    typealias Operation = KVStoreCall.Operation

    private let counted = Mutex<Set<Operation>>([])

    /// The calls of the store since the last query.
    func take() -> Set<Operation> {
        counted.withLock { counted in
            defer { counted = [] }
            return counted
        }
    }

    private func count(_ operation: Operation) { counted.withLock { _ = $0.insert(operation) } }

    func get<T>(_ key: KVKey<T>) -> T? {
        count(.get)
        return nil
    }

    func set<T>(_ key: KVKey<T>, value: T) throws { count(.set) }
    func remove<T>(_ key: KVKey<T>) throws { count(.remove) }

    func contains<T>(_ key: KVKey<T>) -> Bool {
        count(.contains)
        return false
    }

    func removeAll() throws { count(.removeAll) }

    func read<T>(_ key: KVKey<T>) throws -> T? {
        count(.read)
        return nil
    }

    func keys() throws -> [String] {
        count(.keys)
        return ["n/a", "a"]
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        count(.rawValue)
        return nil
    }

    func setRawValue(_ bytes: [UInt8], named name: String) throws { count(.setRawValue) }
    func removeValue(named name: String) throws { count(.removeValue) }

    func entry(named name: String) throws -> KVEntry? {
        count(.entry)
        return nil
    }

    func snapshot() throws -> KVSnapshot {
        count(.snapshot)
        return KVSnapshot([])
    }

    func commit(_ batch: KVBatch) throws { count(.commit) }
    func synchronize() throws { count(.synchronize) }

    private let others = Mutex((subscriptions: 0, issues: 0))
    var subscriptionCount: Int { others.withLock { $0.subscriptions } }
    var issueCount: Int { others.withLock { $0.issues } }

    func subscribe(to scope: KVScope) -> KVChanges? {
        others.withLock { $0.subscriptions += 1 }
        return KVChanges { nil }
    }

    func report(_ issue: KVStoreIssue) { others.withLock { $0.issues += 1 } }
}

extension KVStoreCall.Operation {
    /// The calls of a store on this machine.
    fileprivate static let local = allCases.filter { ![.capabilities, .entries, .changes].contains($0) }
}

@Suite("Every layer forwards every requirement of a key-value store")
struct LayerForwardingTests {
    private typealias Operation = KVStoreCall.Operation

    /// A layer over the probe, and the calls that it forwards differently.
    private struct Layer: Sendable {
        var make: @Sendable (Probe) -> any KVTransactionalStoring
        var instead: [Operation: Operation] = [:]
        var refuses: Set<Operation> = []
    }

    private static let writes: Set<Operation> = [.set, .remove, .removeAll, .setRawValue, .removeValue, .commit]

    private static let layers: [String: Layer] = [
        "namespaced": Layer(make: { NamespacedKVStore($0, namespace: "n") }, instead: [.removeAll: .commit]),
        "read-only": Layer(make: { ReadOnlyKVStore($0) }, refuses: writes),
        "defaults-over, front": Layer(
            make: { FallbackKVStore($0, defaults: InMemoryKVStore()) }, instead: [.get: .read]),
        "recording": Layer(make: { RecordingKVStore($0) }),
        "reactive": Layer(make: { ReactiveKVStore($0) }),
        "migrating, new": Layer(
            make: { MigratingKVStore(from: InMemoryKVStore(), to: $0) }, instead: [.get: .read]),
        "expiring": Layer(
            make: { ExpiringKVStore($0) },
            instead: [.get: .read, .contains: .read, .rawValue: .read, .setRawValue: .set]),
    ]

    @Test(arguments: layers.keys.sorted(), KVStoreCall.Operation.local)
    func forwards(_ name: String, _ operation: KVStoreCall.Operation) throws {
        let layer = try #require(Self.layers[name])
        let probe = Probe()
        let store = layer.make(probe)
        do {
            try Self.call(operation, of: store)
            #expect(!layer.refuses.contains(operation))
        } catch let error as KVStoreError {
            #expect(layer.refuses.contains(operation))
            #expect(error.code == .readOnly)
        }
        let expected = layer.instead[operation] ?? operation
        #expect(probe.take().contains(expected) != layer.refuses.contains(operation))
    }

    private static func call(_ operation: KVStoreCall.Operation, of store: any KVTransactionalStoring) throws {
        let key = KVKey<Int>("a")
        switch operation {
        case .get: _ = store.get(key)
        case .set: try store.set(key, value: 1)
        case .remove: try store.remove(key)
        case .contains: _ = store.contains(key)
        case .removeAll: try store.removeAll()
        case .read: _ = try store.read(key)
        case .keys: _ = try store.keys()
        case .rawValue: _ = try store.rawValue(named: "a")
        case .setRawValue: try store.setRawValue([], named: "a")
        case .removeValue: try store.removeValue(named: "a")
        case .entry: _ = try store.entry(named: "a")
        case .snapshot: _ = try store.snapshot()
        case .commit: try store.batch { $0.remove(key) }
        case .synchronize: try store.synchronize()
        case .capabilities, .entries, .changes: Issue.record("a call of stores on servers")
        }
    }

    /// The names of the functions in a declaration of the package's source.
    private static func functions(after start: String, in file: String) throws -> [String] {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../Sources/ForgeKVStore/Protocol/\(file)")
        let text = try String(contentsOf: source, encoding: .utf8)
        let body = try #require(
            text.components(separatedBy: start).dropFirst().first?.components(separatedBy: "\n}").first)
        return body.components(separatedBy: "\n").compactMap { line in
            let words = line.trimmingCharacters(in: .whitespaces).components(separatedBy: " ")
            guard let place = words.firstIndex(of: "func"), place + 1 < words.count else { return nil }
            return String(words[place + 1].prefix { $0.isLetter })
        }
    }

    @Test("the list of operations is the list of the protocols' requirements")
    func requirements() throws {
        let required =
            try Self.functions(after: "public protocol KVStoring: Sendable {", in: "KVStoring.swift")
            + Self.functions(after: "public protocol KVRawStoring: KVStoring {", in: "KVStoring.swift")
            + Self.functions(
                after: "public protocol KVTransactionalStoring: KVRawStoring {", in: "KVStoring.swift")
        // These pass on no value, and have a test of their own.
        let recorded = required.filter { !["report", "subscribe"].contains($0) }
        #expect(recorded.sorted() == KVStoreCall.Operation.local.map(\.rawValue).sorted())
        let remote = try Self.functions(after: "public protocol AsyncKVStoring: Sendable {", in: "AsyncKVStoring.swift")
        #expect(Set(recorded + remote) == Set(KVStoreCall.Operation.allCases.map(\.rawValue)))
    }

    @Test(
        "every layer forwards subscriptions and issues", arguments: layers.keys.sorted())
    func subscribes(_ name: String) throws {
        let probe = Probe()
        let store = try #require(Self.layers[name]).make(probe)
        // A reactive store finds out whether its base store reports changes.
        #expect(probe.subscriptionCount == (name == "reactive" ? 1 : 0))
        let changes = store.subscribe(to: .prefix(""))
        #expect(changes != nil)
        #expect(probe.subscriptionCount == (name == "reactive" ? 2 : 1))
        store.report(.tornTail(sizeInBytes: 1))
        #expect(probe.issueCount == 1)
    }

    @Test("layers with defaults or migration also read the second store")
    func secondStores() throws {
        for operation: Operation in [.get, .read, .contains, .keys, .rawValue] {
            let probe = Probe()
            try Self.call(operation, of: FallbackKVStore(InMemoryKVStore(), defaults: probe))
            let instead = operation
            #expect(probe.take().contains(instead), "\(operation)")
            try Self.call(operation, of: MigratingKVStore(from: probe, to: InMemoryKVStore()))
            #expect(probe.take().contains(operation == .get ? .read : operation), "\(operation)")
        }
    }
}

/// A minimal store: all other calls must come from the layer.
private struct Plain: KVStoring {
    let base = InMemoryKVStore()

    func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }
    func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }
    func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }
    func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }
    func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
    func removeAll() throws { try base.removeAll() }
}

/// A store with raw values and no transactions.
private struct Raw: KVLayer, KVRawStoring {
    let base = InMemoryKVStore()
}

/// A custom wrapper that changes nothing.
private struct Forwarding<Base: KVStoring>: KVLayer, KVStoring {
    let base: Base
}

extension Forwarding: KVRawStoring where Base: KVRawStoring {}
extension Forwarding: KVTransactionalStoring where Base: KVTransactionalStoring {}

/// The example of the documentation.
private struct UppercaseKVStore<Base: KVStoring>: KVLayer, KVStoring {
    let base: Base

    func set<T>(_ key: KVKey<T>, value: T) throws {
        if let text = value as? String, let upper = text.uppercased() as? T {
            try base.set(key, value: upper)
        } else {
            try base.set(key, value: value)
        }
    }
}

@Suite("A layer has the abilities of its base")
struct LayerConformanceTests {
    @Test("over a store with only the calls of `KVStoring`", arguments: ConformanceChecks.keyValueStore)
    func plain(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: ReactiveKVStore(Plain()))
        try await check.run(on: RecordingKVStore(Plain()))
        try await check.run(on: ExpiringKVStore(Plain()))
        try await check.run(on: FallbackKVStore(Plain(), defaults: Plain()))
        try await check.run(on: Forwarding(base: Plain()))
    }

    @Test("over a store with raw values", arguments: ConformanceChecks.rawKeyValueStore)
    func raw(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        try await check.run(on: ReactiveKVStore(Raw()))
        try await check.run(on: RecordingKVStore(Raw()))
        try await check.run(on: ExpiringKVStore(Raw()))
        try await check.run(on: FallbackKVStore(Raw(), defaults: Raw()))
        try await check.run(on: MigratingKVStore(from: Raw(), to: Raw()))
        try await check.run(on: Forwarding(base: Raw()))
    }

    @Test("over a transactional store", arguments: ConformanceChecks.transactionalKeyValueStore)
    func transactional(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        func base() -> Forwarding<InMemoryKVStore> { Forwarding(base: InMemoryKVStore()) }
        try await check.run(on: base())
        try await check.run(on: ReactiveKVStore(base()))
        try await check.run(on: Forwarding(base: base()))
        try await check.run(on: MigratingKVStore(from: Raw(), to: base()))
    }

    @Test("a layer of an app implements only the calls that it changes")
    func uppercase() throws {
        let store = UppercaseKVStore(base: InMemoryKVStore())
        try store.set(KVKey<String>("a"), value: "text")
        try store.set(KVKey<Int>("b"), value: 1)
        #expect(store.get(KVKey<String>("a")) == "TEXT")
        #expect(try store.read(KVKey<Int>("b")) == 1)
        #expect(!(store is any KVRawStoring))
    }

    @Test("a generic function wraps a store of unknown type")
    func opened() throws {
        func settings(in store: some KVRawStoring) -> any KVRawStoring {
            NamespacedKVStore(store, namespace: "settings")
        }
        let base = InMemoryKVStore()
        let store: any KVRawStoring = base
        try settings(in: store).set(KVKey<Int>("a"), value: 1)
        #expect(try base.keys() == ["settings/a"])
    }

    @Test("a layer over `any KVStoring` reports the changes of the store")
    func openedForChanges() async throws {
        func layer(over store: some KVStoring) -> any KVStoring { RecordingKVStore(ReactiveKVStore(store)) }
        let base = InMemoryKVStore()
        let store: any KVStoring = base
        let layered = layer(over: store)
        var changes = layered.changes(KVKey<Int>("a")).makeAsyncIterator()
        try layered.set(KVKey<Int>("a"), value: 1)
        #expect(await changes.next()?.revision == nil)
        #expect(await changes.next()?.revision == (try base.entry(named: "a")?.revision))
        #expect(ReactiveKVStore(base) is any KVTransactionalStoring)
    }
}
