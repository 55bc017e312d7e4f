import ForgeFileSystem

extension KVTransactionalStoring {
    /// Suspends until every earlier write is durable against a power cut.
    ///
    /// For servers, and all code that runs in tasks: ``synchronize()`` blocks its thread until the device has flushed,
    /// and the pool has one thread per core. This call waits on another thread. Calls at the same time share one flush.
    /// Synchronous code, and code that flushes rarely and has a thread of its own, calls ``synchronize()``, which costs
    /// no thread switches. Cancelling the task does not end the wait.
    ///
    /// - Throws: ``KVStoreError``, as ``synchronize()``.
    public func flush() async throws {
        try await BlockingLane.general.run { try self.synchronize() }
    }
}
