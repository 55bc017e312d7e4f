import ForgeCoding
public import ForgeFileSystem

/// Conditional and combined changes, built on ``entry(named:)`` and ``commit(_:)``.
extension KVTransactionalStoring {
    /// The value of a key and its revision; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``, as by ``KVStoring/read(_:)``.
    public func versioned<T>(_ key: KVKey<T>) throws -> (value: T, revision: UInt64)? {
        guard let entry = try entry(named: key.name) else { return nil }
        do throws(KVStoreError) {
            return (try key.decode(entry.bytes), entry.revision)
        } catch {
            throw error.of(store: self)
        }
    }

    /// Updates a value atomically: no other write occurs between reading and writing.
    ///
    /// The closure runs again after a concurrent write, so it must have no other effect, and must not write the key
    /// itself. It runs without any lock held, at most 10,000 times: after that, the call throws `.conflict`.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - initial: The value passed to the closure if the key is absent.
    ///   - durability: Whether to wait until the new value is durable against a power cut; `.none` does not.
    ///   - change: Changes the value.
    /// - Returns: The stored value.
    /// - Throws: ``KVStoreError``, and the error of the closure; the old value is kept, unless the code is
    ///   `.durabilityUnknown`.
    @discardableResult
    public func update<T>(
        _ key: KVKey<T>, default initial: @autoclosure () -> T, durability: Durability = .none,
        _ change: (inout T) throws -> Void
    ) throws -> T {
        let value = try changing(key, default: initial()) { value in
            try change(&value)
            return value
        }
        try synchronize(durability, after: .set, key: key.name)
        return value
    }

    /// Updates a value atomically if there is one.
    ///
    /// The closure runs again after a concurrent write, so it must have no other effect. If it throws, nothing is
    /// stored.
    ///
    /// - Returns: The stored value; nil if the key is absent.
    /// - Throws: ``KVStoreError``, and the error of the closure; the old value is kept, unless the code is
    ///   `.durabilityUnknown`.
    @discardableResult
    public func updateIfPresent<T>(
        _ key: KVKey<T>, durability: Durability = .none, _ change: (inout T) throws -> Void
    ) throws -> T? {
        var attempts = UpdateAttempts(of: key.name)
        while let old = try versioned(key) {
            var value = old.value
            try change(&value)
            guard try compareAndSet(key, revision: old.revision, value: value) else {
                try attempts.didFail()
                continue
            }
            try synchronize(durability, after: .set, key: key.name)
            return value
        }
        return nil
    }

    /// Removes the value of a key, of whatever type.
    ///
    /// - Returns: Whether there was one; of several concurrent calls one returns true.
    /// - Throws: ``KVStoreError``; the value is kept, unless the code is `.durabilityUnknown`.
    @discardableResult
    public func removeIfPresent<T>(_ key: KVKey<T>, durability: Durability = .none) throws -> Bool {
        while let entry = try entry(named: key.name) {
            do {
                try batch { batch in
                    batch.require(key, revision: entry.revision)
                    batch.remove(key)
                }
            } catch let error as KVStoreError {
                if error.code == .conflict { continue }
                throw error.of(.remove, key.name)
            }
            try synchronize(durability, after: .remove, key: key.name)
            return true
        }
        return false
    }

    /// Updates a value atomically; returns the result of the closure's last run.
    func changing<T, Result>(
        _ key: KVKey<T>, default initial: @autoclosure () -> T, _ change: (inout T) throws -> Result
    ) throws -> Result {
        var attempts = UpdateAttempts(of: key.name)
        while true {
            let old = try versioned(key)
            var value = old?.value ?? initial()
            let result = try change(&value)
            if try compareAndSet(key, revision: old?.revision, value: value) { return result }
            try attempts.didFail()
        }
    }

    /// Stores a value if the key is absent.
    ///
    /// - Returns: Whether the value was stored.
    @discardableResult
    public func createIfAbsent<T>(_ key: KVKey<T>, value: T) throws -> Bool {
        try compareAndSet(key, revision: nil, value: value)
    }

    /// Stores a value if the current one has a given revision.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - revision: The revision from `versioned`; nil requires the key to be absent.
    ///   - value: The new value.
    /// - Returns: Whether the revision matched and the value was stored.
    /// - Throws: ``KVStoreError``; the old value is kept.
    @discardableResult
    public func compareAndSet<T>(_ key: KVKey<T>, revision: UInt64?, value: T) throws -> Bool {
        var batch = KVBatch()
        batch.require(key.name, revision: revision)
        do {
            try batch.set(key, value: value)
            try commit(batch)
            return true
        } catch let error as KVStoreError {
            if error.code == .conflict { return false }
            let failure = error.of(.set, key.name)
            throw error.code == .unencodable ? failure.of(store: self) : failure
        }
    }

    /// Makes several changes atomically, for concurrent readers and across a crash.
    ///
    /// ```swift
    /// try store.batch { batch in
    ///     try batch.set(balance, value: 90)
    ///     try batch.set(pending, value: 10)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - durability: Whether to wait until the changes are durable against a power cut; `.none` does not.
    ///   - changes: Adds the changes to a batch.
    /// - Throws: ``KVStoreError``, and the error of the closure; nothing was changed, unless the code is
    ///   `.durabilityUnknown`.
    public func batch(durability: Durability = .none, _ changes: (inout KVBatch) throws -> Void) throws {
        var batch = KVBatch()
        do {
            try changes(&batch)
        } catch let error as KVStoreError where error.operation == .batch && error.code == .unencodable {
            throw error.of(store: self)
        }
        try commit(batch)
        try synchronize(durability, after: .batch, key: nil)
    }

    /// Stores a value and, for `.full`, waits until it is durable against a power cut.
    ///
    /// - Throws: The errors of `set`; ``KVStoreError`` with `.durabilityUnknown` if the value was stored and
    ///   `synchronize` failed.
    public func set<T>(_ key: KVKey<T>, value: T, durability: Durability) throws {
        try set(key, value: value)
        try synchronize(durability, after: .set, key: key.name)
    }

    private func synchronize(
        _ durability: Durability, after operation: KVStoreError.Operation, key: String?
    ) throws {
        guard durability != .none else { return }
        do {
            try synchronize()
        } catch {
            let store = (error as? KVStoreError)?.store
            throw KVStoreError(.durabilityUnknown, operation, key: key, store: store, underlying: error)
        }
    }
}

/// The attempts of a write that runs code of the app between reading a value and replacing it. They are bounded: if that
/// code writes the key itself, none succeeds.
struct UpdateAttempts: Sendable {
    private let name: String
    private let operation: KVStoreError.Operation
    private let code: WritingCode.Kind
    private var count = 0

    /// Far more than concurrent writers need: each of their conflicts means that another one has succeeded.
    static let limit = 10_000

    init(of name: String, _ operation: KVStoreError.Operation = .set, running code: WritingCode.Kind = .closure) {
        self.name = name
        self.operation = operation
        self.code = code
    }

    mutating func didFail(in store: String? = nil) throws(KVStoreError) {
        count += 1
        guard count >= Self.limit else { return }
        throw KVStoreError(
            .conflict, operation, key: name, store: store, underlying: WritingCode(kind: code, runCount: count))
    }
}

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
        try await BlockingLane.lane(of: self).run { try self.synchronize() }
    }
}
