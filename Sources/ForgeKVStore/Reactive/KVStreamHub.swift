import Synchronization

/// Who watches which key. Its lock is held for look-ups only, never while a store or a stream is called.
final class KVStreamHub: Sendable {
    struct Watcher: Sendable {
        /// Ends the stream after what it has.
        var finish: @Sendable () -> Void

        /// Whether the watched key is there now.
        var isPresent: @Sendable () -> Bool

        /// Tells of a write to the key: whether it is there now, and the number of the write.
        var tell: @Sendable (_ isPresent: Bool, _ write: UInt64) -> Void

        /// Returns when the consumer has come as far as what it was told before the call.
        var reach: @Sendable (KVStreamProgress) async -> Void
    }

    private struct State {
        var watchers: [KeyName: [UInt64: Watcher]] = [:]
        var lastID: UInt64 = 0

        /// Keeps changes that are made elsewhere being told, for as long as somebody watches.
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
        // Returned, so that it is destroyed outside the lock: with it goes the last reference to a stream's elements.
        _ = state.withLock { state -> (Watcher?, KVObservation?) in
            let removed = state.watchers[name]?.removeValue(forKey: id)
            if state.watchers[name]?.isEmpty == true { state.watchers[name] = nil }
            guard state.watchers.isEmpty else { return (removed, nil) }
            defer { state.observation = nil }
            return (removed, state.observation)
        }
    }

    /// Sees to it that changes made elsewhere are told while somebody watches; called by one thread at a time.
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

    /// The watchers of every key.
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
