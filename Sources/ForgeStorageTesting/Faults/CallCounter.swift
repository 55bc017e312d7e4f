package import ForgeFileSystem
import Synchronization
package import SystemPackage

/// Calls counted, so that the one with a given number can be made to fail.
package final class CallCounter: Sendable {
    private let state: Mutex<State>

    private struct State {
        var count = 0
        var failing: Range<Int>
        var didFail = false
    }

    /// A counter that fails the calls with these numbers, counted from 0.
    package init(failing: Range<Int> = 0..<0) {
        state = Mutex(State(failing: failing))
    }

    /// How many calls there were.
    package var count: Int { state.withLock { $0.count } }

    /// Whether any call was made to fail.
    package var didFail: Bool { state.withLock { $0.didFail } }

    /// Counts a call and throws if it is one of those that fail.
    package func count(_ operation: FileSystemOperation, _ path: POSIXPath?, _ errno: Errno) throws(FileSystemError) {
        let fails = state.withLock { state in
            defer { state.count += 1 }
            guard state.failing.contains(state.count) else { return false }
            state.didFail = true
            return true
        }
        if fails { throw FileSystemError(operation, errno, path: path) }
    }
}
