import Dispatch
import ForgeFileSystem
import Synchronization

/// The synchronous writes.
extension MirroredKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try key.identity.validate(.set, in: nil)
        var batch = KVBatch()
        do {
            try batch.set(key, value: value)
        } catch let error as KVStoreError {
            throw KVStoreError(error.code, .set, key: key.name, underlying: error.underlying)
        }
        try commit(batch, .set, key.name)
    }

    public func remove<T>(_ key: KVKey<T>) throws { try removeValue(named: key.name) }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try KeyName(name).validate(.set, in: nil)
        var batch = KVBatch()
        batch.append(.set(name: name, bytes: bytes))
        try commit(batch, .set, name)
    }

    public func removeValue(named name: String) throws {
        try KeyName(name).validate(.remove, in: nil)
        var batch = KVBatch()
        batch.append(.remove(name: name))
        try commit(batch, .remove, name)
    }

    /// Removes every name of the remote store in one batch, or none: `.valueTooLarge` if they are more than a batch may
    /// change.
    public func removeAll() throws {
        try blocking(.removeAll, nil) { [remote] () async throws(AsyncKVStoreError) in
            var batch = KVBatch()
            for name in try await remote.keys() { batch.append(.remove(name: name)) }
            try await remote.commit(batch, timeToLive: nil)
        }
    }

    private func commit(_ batch: KVBatch, _ operation: KVStoreError.Operation, _ name: String) throws {
        try blocking(operation, name) { [remote] () async throws(AsyncKVStoreError) in
            try await remote.commit(batch, timeToLive: nil)
        }
    }

    /// Blocks the thread until `body` has returned, if the configuration permits it.
    private func blocking(
        _ operation: KVStoreError.Operation, _ name: String?,
        _ body: @escaping @Sendable () async throws(AsyncKVStoreError) -> Void
    ) throws(KVStoreError) {
        guard case .blocking(let limit) = configuration.synchronousWrites else {
            throw KVStoreError(.readOnly, operation, key: name)
        }
        let result = Result()
        let task = Task {
            let outcome: AsyncKVStoreError?
            do throws(AsyncKVStoreError) {
                try await body()
                outcome = nil
            } catch {
                outcome = error
            }
            result.end(outcome)
        }
        guard result.wait(for: limit) else {
            task.cancel()
            throw KVStoreError(.unknownOutcome, operation, key: name)
        }
        if let error = result.error.withLock({ $0 }) { throw KVStoreError(error, operation, key: name) }
    }

    private final class Result: Sendable {
        let error = Mutex<AsyncKVStoreError?>(nil)
        private let semaphore = DispatchSemaphore(value: 0)

        func end(_ error: AsyncKVStoreError?) {
            self.error.withLock { $0 = error }
            semaphore.signal()
        }

        /// Whether the end came in time.
        func wait(for limit: Duration) -> Bool {
            let seconds = limit / .seconds(1)
            return semaphore.wait(timeout: .now() + seconds) == .success
        }
    }
}

extension KVStoreError {
    /// Classifies a failed write to a remote store.
    fileprivate init(_ error: AsyncKVStoreError, _ operation: Operation, key: String?) {
        let code: Code =
            switch error.code {
            case .conflict: .conflict
            case .refused: .readOnly
            case .tooLarge: .valueTooLarge
            case .invalidKey: .invalidKey
            case .durabilityUnknown: .durabilityUnknown
            case .unknownOutcome, .notYetVisible: .unknownOutcome
            default: .unavailable(.inputOutput)
            }
        self.init(code, operation, key: error.key ?? key, underlying: error)
    }
}
