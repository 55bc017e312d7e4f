import Foundation
import Synchronization

/// Work that is done once: calls beside it wait for it, and it and all later ones have its result.
final class SingleRun: Sendable {
    private enum State {
        case notBegun
        case running(thread: ObjectIdentifier)
        case over(KVStoreError?)
    }

    private let state = Mutex(State.notBegun)
    private let end = OneTimeEvent()

    /// Does the work, or has the result of the call that does it.
    ///
    /// - Throws: The error of the work; `reentered` in a call by the work itself, which would wait for itself.
    func run(
        reentered: @autoclosure () -> KVStoreError, _ work: () throws(KVStoreError) -> Void
    ) throws(KVStoreError) {
        let thread = ObjectIdentifier(Thread.current)
        let earlier = state.withLock { state in
            let earlier = state
            if case .notBegun = earlier { state = .running(thread: thread) }
            return earlier
        }
        switch earlier {
        case .notBegun:
            let failure: KVStoreError?
            do throws(KVStoreError) {
                try work()
                failure = nil
            } catch {
                failure = error
            }
            state.withLock { $0 = .over(failure) }
            end.signal()
        case .running(let running):
            guard running != thread else { throw reentered() }
            end.wait()
        case .over: break
        }
        if case .over(let failure?) = state.withLock({ $0 }) { throw failure }
    }
}
