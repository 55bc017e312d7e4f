import Synchronization

/// A dictionary behind a lock, the simplest alternative to a store; not persistent.
final class DictionaryStore: Peer, Sendable {
    private let values = Mutex<[String: any Sendable]>([:])

    func get<Value: Sample>(_ name: String, as type: Value.Type) -> Value? {
        values.withLock { $0[name] as? Value }
    }

    func set<Value: Sample>(_ name: String, _ value: Value) {
        values.withLock { $0[name] = value }
    }

    func setTogether<Value: Sample>(_ names: [String], _ values: [Value]) {
        for (name, value) in zip(names, values) { set(name, value) }
    }
}
