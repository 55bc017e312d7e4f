import ForgeFileSystem
public import Foundation

extension FileKVStore {
    /// Closes the store for all its objects in this process: when this returns, all writes are durable and another
    /// process can open the store.
    ///
    /// Afterwards reads return the last content, observers are not called, and other calls throw
    /// `.unavailable(.closed)`. A concurrent write is either durable as well or throws. Closing again, or concurrently,
    /// gives the same result once the store is closed.
    ///
    /// Without this call the store is closed when its last object is released, and a failure is only logged.
    ///
    /// - Throws: ``KVStoreError``: `.durabilityUnknown` if the device failed, `.noStore` if the directory was removed
    ///   or another log has taken the place of this one, `.damaged` if another program has truncated the log, which has
    ///   lost writes; the store is closed nevertheless. `.unavailable(.inUse(processID:))` within ``Options/onIssue``,
    ///   whose caller this would wait for; the call has no effect.
    public func close() throws { try engine.close() }

    /// Closes the store like ``close()``, without blocking a thread of the pool while the device flushes.
    ///
    /// - Throws: ``KVStoreError``, as ``close()``; the store is closed nevertheless.
    public func shutDown() async throws {
        try await BlockingWork.run { try self.close() }
    }

    /// Opens a store, calls `body` with it, and closes it, even if `body` throws. A tool that several processes may run
    /// at once passes `Options(sharing: .shared)`; otherwise the second one fails, as the store is in use.
    ///
    /// ```swift
    /// try FileKVStore.withStore(at: url) { store in
    ///     try store.set(KVKey<Int>("launches"), value: 1)
    /// }  // Durable, and free for other processes.
    /// ```
    ///
    /// - Returns: The result of `body`.
    /// - Throws: The error of opening, of `body`, or else of ``close()``.
    public static func withStore<Result>(
        at url: URL, options: Options = Options(), _ body: (FileKVStore) throws -> Result
    ) throws -> Result {
        let store = try FileKVStore(at: url, options: options)
        let result = Swift.Result { try body(store) }
        return try store.closing(after: result)
    }

    /// The same for an asynchronous `body`, which runs on the caller's actor, and with ``shutDown()``.
    public static func withStore<Result>(
        at url: URL, options: Options = Options(), isolation: isolated (any Actor)? = #isolation,
        _ body: (FileKVStore) async throws -> Result
    ) async throws -> Result {
        let store = try FileKVStore(at: url, options: options)
        let result: Swift.Result<Result, any Error>
        do {
            result = .success(try await body(store))
        } catch {
            result = .failure(error)
        }
        do {
            try await store.shutDown()
        } catch {
            // The earlier error is the one to report.
            _ = try result.get()
            throw error
        }
        return try result.get()
    }

    private func closing<Value>(after result: Result<Value, any Error>) throws -> Value {
        do {
            try close()
        } catch {
            // The earlier error is the one to report.
            _ = try result.get()
            throw error
        }
        return try result.get()
    }
}
