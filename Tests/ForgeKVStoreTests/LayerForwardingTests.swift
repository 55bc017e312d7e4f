import ForgeKVStore
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
