/// The tasks that wait for the progress of a stream's consumer.
struct KVStreamObservers {
    typealias Continuation = CheckedContinuation<Void, Never>

    /// The identity of a waiting task.
    final class ID: Sendable {}

    private struct Observer {
        var progress: KVStreamProgress
        var number: UInt64
        var continuation: Continuation
    }

    private var observers: [ObjectIdentifier: Observer] = [:]

    /// Tasks cancelled before they started to wait.
    private var cancelled: Set<ObjectIdentifier> = []

    mutating func add(_ id: ID, _ progress: KVStreamProgress, _ number: UInt64, _ continuation: Continuation) {
        let isCancelled = cancelled.remove(ObjectIdentifier(id)) != nil
        // Number 0 precedes the first push.
        observers[ObjectIdentifier(id)] = Observer(
            progress: progress, number: isCancelled ? 0 : number, continuation: continuation)
    }

    mutating func cancel(_ id: ID) -> Continuation? {
        guard let observer = observers.removeValue(forKey: ObjectIdentifier(id)) else {
            cancelled.insert(ObjectIdentifier(id))
            return nil
        }
        return observer.continuation
    }

    /// Drops the record of a task that no longer waits.
    mutating func forget(_ id: ID) { cancelled.remove(ObjectIdentifier(id)) }

    /// Removes and returns the tasks whose progress has been reached.
    mutating func take(delivered: UInt64, processed: UInt64) -> [Continuation] {
        guard !observers.isEmpty else { return [] }
        let reached = observers.filter { ($0.value.progress == .delivered ? delivered : processed) >= $0.value.number }
        for id in reached.keys { observers[id] = nil }
        return reached.values.map(\.continuation)
    }
}
