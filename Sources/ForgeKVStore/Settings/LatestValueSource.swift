import Synchronization

/// Pushes the current value of a key into the buffer of a stream, which keeps the latest.
final class LatestValueSource<Value: Codable & Sendable>: Sendable {
    let buffer = KVStreamBuffer<Value>(limit: 1)
    private let key: KVKey<Value>

    /// Released, with the store, when the stream has ended.
    private struct Source {
        var read: @Sendable () -> Value?
        var observation: KVObservation?
    }

    private let source: Mutex<Source?>

    /// Held from reading a value until it is buffered, so that an older value never replaces a newer one.
    private let pushing = Mutex(())

    init(_ key: KVKey<Value>, _ read: @escaping @Sendable () -> Value?) {
        self.key = key
        source = Mutex(Source(read: read))
    }

    /// Pushes the current value now and on every call of the observation.
    func observe(_ start: (_ push: @escaping @Sendable () -> Void) -> KVObservation) {
        let observation = start { [weak self] in self?.push() }
        source.withLock { $0?.observation = observation }
        push()
    }

    func push() {
        pushing.withLock { _ in
            guard let read = source.withLock({ $0?.read }) else { return }
            let value = read()
            buffer.push(KVChange(value: value, revision: nil, write: 0), content(of: value))
        }
    }

    /// Ends the observation, and releases the store.
    func cancel() {
        // Returned, so that they are released outside the lock.
        _ = source.withLock { source in
            defer { source = nil }
            return source
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
