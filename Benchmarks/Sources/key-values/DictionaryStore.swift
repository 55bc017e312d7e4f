import Synchronization

/// What one would write instead of a store: a dictionary behind a lock. It forgets everything with the process.
final class DictionaryStore: Sendable {
    private let values = Mutex<[String: any Sendable]>([:])

    func get<Value>(_ name: String, as type: Value.Type) -> Value? {
        values.withLock { $0[name] as? Value }
    }

    func set(_ name: String, _ value: some Sendable) {
        values.withLock { $0[name] = value }
    }
}
