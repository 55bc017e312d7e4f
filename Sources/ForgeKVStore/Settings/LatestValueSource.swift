import Synchronization

/// Puts the present value of a key into the buffer of a stream, which keeps the latest.
final class LatestValueSource<Value: Codable & Sendable>: Sendable {
    let buffer = KVStreamBuffer<Value>(limit: 1)
    private let key: KVKey<Value>
    private let read: @Sendable () -> Value?

    /// Held from the reading of a value until it is in the buffer, so that an older one never replaces a newer.
    private let pushing = Mutex(())

    init(_ key: KVKey<Value>, _ read: @escaping @Sendable () -> Value?) {
        self.key = key
        self.read = read
    }

    func push() {
        pushing.withLock { _ in
            let value = read()
            buffer.push(KVChange(value: value, revision: nil, write: 0), content(of: value))
        }
    }

    private func content(of value: Value?) -> KVContent {
        guard let value else { return .absent }
        do {
            return .bytes(try ValueTable.encode(value, for: key))
        } catch {
            return .unknown
        }
    }
}
