import Foundation
import Synchronization

/// Threads that repeat a task until they are stopped.
final class Crew: Sendable {
    private let isStopped = Atomic(false)
    private let total = Mutex(Tally())
    private let members = DispatchGroup()

    /// Starts a thread with its own state.
    func add<State: ~Copyable>(
        _ make: @escaping @Sendable () throws -> State, _ work: @escaping @Sendable (inout State) throws -> Void,
        tally: @escaping @Sendable (borrowing State) -> Tally = { _ in Tally() }
    ) {
        members.enter()
        Thread.detachNewThread { [self] in
            defer { members.leave() }
            do {
                var state = try make()
                defer {
                    let found = tally(state)
                    total.withLock { $0.add(found) }
                }
                while !isStopped.load(ordering: .relaxed) { try work(&state) }
            } catch {
                total.withLock { $0.note("\(error)") }
            }
        }
    }

    /// Stops all threads, waits for them, and returns their combined tally.
    func stop() -> Tally {
        isStopped.store(true, ordering: .relaxed)
        members.wait()
        return total.withLock { $0 }
    }
}
