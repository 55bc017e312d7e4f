import Dispatch
import Synchronization

/// The observers of a store's changes. They are called on a queue, one at a time, with no lock held.
///
/// Changes made while the observers run are collected and reported together afterwards.
final class ChangeObservers: Sendable {
    typealias Handler = @Sendable (_ names: [String]?) -> Void

    private struct State {
        var handlers: [UInt64: Handler] = [:]
        var lastID: UInt64 = 0
        var pending = Pending.names([])
        var isScheduled = false
    }

    /// The names whose change has not been reported yet.
    private enum Pending {
        case names(Set<KeyName>)
        case all

        /// The maximum number of names in a report. More are reported as nil: any may have changed.
        static let limit = 1_000

        mutating func add(_ names: some Collection<KeyName>) {
            guard case .names(var pending) = self else { return }
            self = .all  // Gives up the reference, so that the set is changed in place.
            pending.formUnion(names)
            if pending.count <= Self.limit { self = .names(pending) }
        }
    }

    private let state = Mutex(State())
    private let count = Atomic(0)
    private let queue = DispatchQueue(label: "ForgeKVStore.changes")

    /// Whether there is an observer.
    @inline(__always)
    var hasObservers: Bool { count.load(ordering: .relaxed) > 0 }

    func add(_ handler: @escaping Handler) -> KVObservation {
        let id = state.withLock { state in
            state.lastID += 1
            state.handlers[state.lastID] = handler
            count.store(state.handlers.count, ordering: .sequentiallyConsistent)
            return state.lastID
        }
        return KVObservation { [self] in remove(id) }
    }

    private func remove(_ id: UInt64) {
        // Returned, so that it is destroyed outside the lock.
        _ = state.withLock { state in
            let handler = state.handlers.removeValue(forKey: id)
            count.store(state.handlers.count, ordering: .relaxed)
            return handler
        }
    }

    /// Reports that the values of names may have changed; nil if any may have. Call it once the change is visible to
    /// reads.
    @inline(never)
    func notify(_ names: [KeyName]?) {
        if let names, names.isEmpty { return }
        let wasScheduled = state.withLock { state in
            if let names { state.pending.add(names) } else { state.pending = .all }
            defer { state.isScheduled = true }
            return state.isScheduled
        }
        guard !wasScheduled else { return }
        queue.async { self.report() }
    }

    private func report() {
        let (handlers, pending) = state.withLock { state in
            defer {
                state.pending = .names([])
                state.isScheduled = false
            }
            return (Array(state.handlers.values), state.pending)
        }
        let names: [String]? =
            switch pending {
            case .names(let names): names.map(\.string)
            case .all: nil
            }
        for handler in handlers { handler(names) }
    }

    /// Observes a store and another one, if that reports changes, with one handler, which is called for one change at a
    /// time; nil if the first store does not report changes.
    static func observe(
        _ store: any KVStoring, and other: any KVStoring, _ handler: @escaping Handler
    ) -> KVObservation? {
        let changes = ChangeObservers()
        let own = changes.add(handler)
        func observe(_ store: any KVStoring) -> KVObservation? {
            store.observeChanges { names in changes.notify(names?.map(KeyName.init)) }
        }
        guard let first = observe(store) else { return nil }
        let second = observe(other)
        return KVObservation { withExtendedLifetime((own, first, second)) {} }
    }
}
