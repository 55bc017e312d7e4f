import Synchronization

/// The subscribers by key. The lock is held for look-ups only, never during a call of a store or a stream.
final class KVStreamHub: Sendable {
    struct Subscriber: Sendable {
        /// Ends the stream after its undelivered elements.
        var finish: @Sendable () -> Void

        /// Whether the key exists now.
        var isPresent: @Sendable () -> Bool

        /// Notifies of a write: whether the key exists afterwards, and the number of the write.
        var notify: @Sendable (_ isPresent: Bool, _ write: UInt64) -> Void

        /// Waits until the consumer has made this progress on all earlier notifications.
        var wait: @Sendable (KVStreamProgress) async -> Void
    }

    private struct State {
        var subscribers: [KeyName: [UInt64: Subscriber]] = [:]
        var lastID: UInt64 = 0

        /// The observation of remote changes, kept while there are subscribers.
        var observation: KVObservation?
    }

    private let state = Mutex(State())

    func add(_ subscriber: Subscriber, of name: KeyName) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.subscribers[name, default: [:]][state.lastID] = subscriber
            return state.lastID
        }
    }

    func remove(_ id: UInt64, of name: KeyName) {
        // Returned, so that a stream's elements are released outside the lock.
        _ = state.withLock { state -> (Subscriber?, KVObservation?) in
            let removed = state.subscribers[name]?.removeValue(forKey: id)
            if state.subscribers[name]?.isEmpty == true { state.subscribers[name] = nil }
            guard state.subscribers.isEmpty else { return (removed, nil) }
            defer { state.observation = nil }
            return (removed, state.observation)
        }
    }

    /// Starts observing remote changes unless already observing; the observation is kept only while there are
    /// subscribers. Calls must be serialised.
    func observe(_ start: () -> KVObservation?) {
        guard state.withLock({ $0.observation == nil }), let observation = start() else { return }
        state.withLock { state in
            if !state.subscribers.isEmpty { state.observation = observation }
        }
    }

    /// The subscribers of a key.
    func subscribers(of name: KeyName) -> [Subscriber] {
        state.withLock { state in state.subscribers[name].map { Array($0.values) } ?? [] }
    }

    /// The subscribers of all keys.
    var all: [Subscriber] {
        state.withLock { state in state.subscribers.values.flatMap(\.values) }
    }

    var count: Int {
        state.withLock { state in state.subscribers.values.reduce(0) { $0 + $1.count } }
    }

    func finish() {
        for subscriber in all { subscriber.finish() }
    }
}
