package import ForgeFileSystem
import Synchronization
package import SystemPackage

/// A counter of calls that fails those with given numbers.
package final class CallCounter: Sendable {
    private let state: Mutex<State>

    private struct State {
        var count = 0
        var failing: Range<Int>
        var didFail = false
    }

    /// Creates a counter that fails the calls with these numbers, counted from 0.
    package init(failing: Range<Int> = 0..<0) {
        state = Mutex(State(failing: failing))
    }

    /// The number of calls.
    package var count: Int { state.withLock { $0.count } }

    /// Whether any call failed.
    package var didFail: Bool { state.withLock { $0.didFail } }

    /// Counts a call, and throws if it is to fail.
    package func countOrFail(_ operation: FileSystemOperation, _ path: POSIXPath?, _ errno: Errno)
        throws(FileSystemError)
    {
        let fails = state.withLock { state in
            defer { state.count += 1 }
            guard state.failing.contains(state.count) else { return false }
            state.didFail = true
            return true
        }
        if fails { throw FileSystemError(operation, errno, path: path) }
    }
}
