import ForgeFileSystem
import Synchronization

/// Signals cancellation of a task to work on a separate thread.
final class Cancellation: Sendable {
    private let flag = Atomic(false)

    func cancel() {
        flag.store(true, ordering: .relaxed)
    }

    /// Throws if the task was cancelled, on whatever thread its work runs.
    func check() throws {
        if flag.load(ordering: .relaxed) || Task.isCancelled { throw CancellationError() }
    }

    /// Runs `body` on a thread that may block, unless the task is cancelled before it begins.
    ///
    /// `body` may check for cancellation at points where it has not changed anything.
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
