import ForgeFileSystem
import Synchronization

/// Tells work on a thread of its own that the task which waits for it was cancelled.
final class Cancellation: Sendable {
    private let flag = Atomic(false)

    func cancel() {
        flag.store(true, ordering: .relaxed)
    }

    func check() throws {
        if flag.load(ordering: .relaxed) { throw CancellationError() }
    }

    /// Runs `body` where it may wait for the device, unless the task is cancelled before it begins.
    ///
    /// `body` may look at the cancellation at points where it has changed nothing yet.
    static func offload<Result: Sendable>(
        _ body: @escaping @Sendable (Cancellation) throws -> Result
    ) async throws -> Result {
        try Task.checkCancellation()
        let cancellation = Cancellation()
        return try await withTaskCancellationHandler {
            try await BlockingWork.run { () throws(any Error) in
                try cancellation.check()
                return try body(cancellation)
            }
        } onCancel: {
            cancellation.cancel()
        }
    }
}
