import Synchronization

/// The watchers by key. The lock is held for look-ups only, never during a call of a store or a stream.
final class KVStreamHub: Sendable {
    struct Watcher: Sendable {
        /// Ends the stream after its undelivered elements.
        var finish: @Sendable () -> Void

        /// Whether the watched key exists now.
        var isPresent: @Sendable () -> Bool

        /// Notifies of a write: whether the key exists afterwards, and the number of the write.
        var notify: @Sendable (_ isPresent: Bool, _ write: UInt64) -> Void

        /// Waits until the consumer has made this progress on all earlier notifications.
        var reach: @Sendable (KVStreamProgress) async -> Void
    }

    private struct State {
        var watchers: [KeyName: [UInt64: Watcher]] = [:]
        var lastID: UInt64 = 0

        /// The observation of remote changes, kept while there are watchers.
        var observation: KVObservation?
    }

    private let state = Mutex(State())

    func add(_ watcher: Watcher, of name: KeyName) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.watchers[name, default: [:]][state.lastID] = watcher
            return state.lastID
        }
    }

    func remove(_ id: UInt64, of name: KeyName) {
        // Returned, so that a stream's elements are released outside the lock.
        _ = state.withLock { state -> (Watcher?, KVObservation?) in
            let removed = state.watchers[name]?.removeValue(forKey: id)
            if state.watchers[name]?.isEmpty == true { state.watchers[name] = nil }
            guard state.watchers.isEmpty else { return (removed, nil) }
            defer { state.observation = nil }
            return (removed, state.observation)
        }
    }

    /// Starts observing remote changes unless already observing; the observation is kept only while there are watchers.
    /// Calls must be serialised.
    func observe(_ start: () -> KVObservation?) {
        guard state.withLock({ $0.observation == nil }), let observation = start() else { return }
        state.withLock { state in
            if !state.watchers.isEmpty { state.observation = observation }
        }
    }

    /// The watchers of a key.
    func watchers(of name: KeyName) -> [Watcher] {
        state.withLock { state in state.watchers[name].map { Array($0.values) } ?? [] }
    }

    /// The watchers of all keys.
    var all: [Watcher] {
        state.withLock { state in state.watchers.values.flatMap(\.values) }
    }

    var count: Int {
        state.withLock { state in state.watchers.values.reduce(0) { $0 + $1.count } }
    }

    func finish() {
        for watcher in all { watcher.finish() }
    }
}
