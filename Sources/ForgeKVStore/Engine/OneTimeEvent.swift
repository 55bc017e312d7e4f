import Dispatch

/// An event that happens once, such as the end of opening or closing a store, and that threads can wait for.
final class OneTimeEvent: Sendable {
    private let happened = DispatchSemaphore(value: 0)

    /// Called once.
    func signal() { happened.signal() }

    var hasHappened: Bool {
        guard happened.wait(timeout: .now()) == .success else { return false }
        happened.signal()
        return true
    }

    func wait() {
        happened.wait()
        happened.signal()
    }
}
