public import Foundation

extension FileKVStore {
    /// Closes the store, for all its objects in this process: everything that was written is durable when this returns,
    /// and another process can open the store.
    ///
    /// Afterwards reads give what the store held, observers are not called, and other calls throw
    /// `.unavailable(.closed)`. A write in another thread meanwhile either is durable as well or throws. Closing again, or
    /// in another thread meanwhile, gives the same result when the store is closed.
    ///
    /// Without this call the store is closed when its last object is released, and a failure is only logged.
    ///
    /// - Throws: ``KVStoreError``: `.durabilityUnknown` if the device failed; the store is closed nevertheless.
    ///   `.unavailable(.inUse(processID:))` in ``Options/onIssue``, whose caller this would wait for; that call changes
    ///   nothing.
    public func close() throws { try engine.close() }

    /// Opens a store, calls `body` with it, and closes it, also if `body` throws.
    ///
    /// ```swift
    /// try FileKVStore.withStore(at: url) { store in
    ///     try store.set(KVKey<Int>("launches"), value: 1)
    /// }  // Durable, and free for other processes.
    /// ```
    ///
    /// - Returns: What `body` returned.
    /// - Throws: The error of opening, of `body`, or else of ``close()``.
    public static func withStore<Result>(
        at url: URL, options: Options = Options(), _ body: (FileKVStore) throws -> Result
    ) throws -> Result {
        let store = try FileKVStore(at: url, options: options)
        let result = Swift.Result { try body(store) }
        return try store.closing(after: result)
    }

    /// The same for an asynchronous `body`, which runs on the caller's actor.
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
        return try store.closing(after: result)
    }

    private func closing<Value>(after result: Result<Value, any Error>) throws -> Value {
        do {
            try close()
        } catch {
            // The earlier error is the one that the caller needs to hear.
            _ = try result.get()
            throw error
        }
        return try result.get()
    }
}
