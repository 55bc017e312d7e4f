import ForgeCoding
public import ForgeFileSystem

/// What can be done with any store that keeps revisions, by ``KVStoring/entry(named:)`` and ``KVStoring/commit(_:)``.
extension KVStoring {
    /// The value of a key together with its revision; nil if there is none.
    ///
    /// - Throws: ``KVStoreError``, as by ``read(_:)``; `.unsupported` for a store without revisions.
    public func versioned<T>(_ key: KVKey<T>) throws -> (value: T, revision: UInt64)? {
        guard let entry = try entry(named: key.name) else { return nil }
        do {
            return (try ValueTable.decode(entry.bytes, as: key), entry.revision)
        } catch {
            throw KVStoreError(decoding: error, .read, key: key.name)
        }
    }

    /// Changes a value in one step: no write of another thread comes between the reading and the writing.
    ///
    /// The closure is called again when there was one, so it must do nothing but change the value. No lock is held while it
    /// runs.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - initial: What the closure finds where the key is absent.
    ///   - change: Changes the value.
    /// - Returns: The value that was stored.
    /// - Throws: ``KVStoreError``, and whatever the closure throws; the old value is still there.
    @discardableResult
    public func update<T>(
        _ key: KVKey<T>, default initial: @autoclosure () -> T, _ change: (inout T) throws -> Void
    ) throws -> T {
        while true {
            let old = try versioned(key)
            var value = old?.value ?? initial()
            try change(&value)
            if try compareAndSet(key, revision: old?.revision, value: value) { return value }
        }
    }

    /// Stores a value if the key is absent.
    ///
    /// - Returns: Whether it was.
    @discardableResult
    public func createIfAbsent<T>(_ key: KVKey<T>, value: T) throws -> Bool {
        try compareAndSet(key, revision: nil, value: value)
    }

    /// Stores a value if the one that is there has a given revision.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - revision: The revision as ``versioned(_:)`` told it; nil: the key must be absent.
    ///   - value: The new value.
    /// - Returns: Whether it was so, and the value is stored.
    /// - Throws: ``KVStoreError``; the old value is still there.
    @discardableResult
    public func compareAndSet<T>(_ key: KVKey<T>, revision: UInt64?, value: T) throws -> Bool {
        var batch = KVBatch()
        try batch.set(key, value: value)
        batch.require(key.name, revision: revision)
        do {
            try commit(batch)
            return true
        } catch let error as KVStoreError where error.code == .conflict {
            return false
        }
    }

    /// Makes several changes together: all or none, in every thread and across a crash.
    ///
    /// ```swift
    /// try store.batch { batch in
    ///     try batch.set(balance, value: 90)
    ///     try batch.set(pending, value: 10)
    /// }
    /// ```
    ///
    /// - Throws: ``KVStoreError``, and whatever the closure throws: nothing was changed.
    public func batch(_ changes: (inout KVBatch) throws -> Void) throws {
        var batch = KVBatch()
        try changes(&batch)
        try commit(batch)
    }

    /// The names of all keys that begin with a text, compared byte by byte, in no particular order.
    public func keys(prefix: String) throws -> [String] {
        try keys().filter { $0.utf8.starts(with: prefix.utf8) }
    }

    /// Stores a value and, for `.full`, waits until it would survive a power cut.
    public func set<T>(_ key: KVKey<T>, value: T, durability: Durability) throws {
        try set(key, value: value)
        if durability != .none { try synchronize() }
    }
}
