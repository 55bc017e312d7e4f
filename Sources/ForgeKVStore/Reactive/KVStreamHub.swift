import Synchronization

/// Who watches which key. Its lock is held for look-ups only, never while a store or a stream is called.
final class KVStreamHub: Sendable {
    struct Watcher: Sendable {
        /// Ends the stream after what it has.
        var finish: @Sendable () -> Void

        /// Whether the watched key is there now.
        var isPresent: @Sendable () -> Bool

        /// Tells of a write to the key: whether it is there now.
        var tell: @Sendable (_ isPresent: Bool) -> Void
    }

    private struct State {
        var watchers: [KeyName: [UInt64: Watcher]] = [:]
        var lastID: UInt64 = 0
    }

    private let state = Mutex(State())

    func add(
        _ name: KeyName, finish: @escaping @Sendable () -> Void, isPresent: @escaping @Sendable () -> Bool,
        tell: @escaping @Sendable (_ isPresent: Bool) -> Void
    ) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.watchers[name, default: [:]][state.lastID] = Watcher(
                finish: finish, isPresent: isPresent, tell: tell)
            return state.lastID
        }
    }

    func remove(_ id: UInt64, of name: KeyName) {
        // Returned, so that it is destroyed outside the lock: with it goes the last reference to a stream's elements.
        _ = state.withLock { state -> Watcher? in
            let removed = state.watchers[name]?.removeValue(forKey: id)
            if state.watchers[name]?.isEmpty == true { state.watchers[name] = nil }
            return removed
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
