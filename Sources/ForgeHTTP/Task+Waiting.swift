#if Etcd || S3
extension Task where Failure == any Error {
    /// Waits for the value of a task that several callers share. A caller that is cancelled stops waiting; the task
    /// goes on.
    ///
    /// - Throws: The error of the task, or `CancellationError`.
    package func valueForWaiter() async throws -> Success {
        let (ended, end) = AsyncStream.makeStream(of: Result<Success, any Error>.self)
        Task<Void, Never> {
            end.yield(await result)
            end.finish()
        }
        for await result in ended { return try result.get() }
        throw Swift.CancellationError()
    }
}
#endif
