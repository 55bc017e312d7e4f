/// Typed values, built on ``entry(named:)`` and ``commit(_:timeToLive:)``.
extension AsyncKVStoring {
    /// The value of a key; nil if it is absent, has another type, or cannot be read.
    ///
    /// To tell these apart, call ``AsyncKVStoring/read(_:)``.
    public func get<T>(_ key: KVKey<T>) async -> T? {
        do throws(KVStoreError) {
            return try await read(key)
        } catch {
            return nil
        }
    }

    /// The value of a key; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` if the value is not of this type, `.unavailable(.server)` or `.timeout`
    ///   if the store cannot be read.
    public func read<T>(_ key: KVKey<T>) async throws(KVStoreError) -> T? { try await versioned(key)?.value }

    /// The value of a key and its revision; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``, as by `read`.
    public func versioned<T>(_ key: KVKey<T>) async throws(KVStoreError) -> (value: T, revision: UInt64)? {
        guard let entry = try await entry(named: key.name) else { return nil }
        return (try entry.value(of: key), entry.revision)
    }

    /// Whether the key has a value, of any type.
    ///
    /// - Throws: ``KVStoreError`` if the store cannot be read.
    public func contains<T>(_ key: KVKey<T>) async throws(KVStoreError) -> Bool {
        try await entry(named: key.name) != nil
    }

    /// Stores a value, replacing any existing one with its time to live.
    ///
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.unknownOutcome` or
    ///   `.durabilityUnknown`.
    public func set<T>(_ key: KVKey<T>, value: T, timeToLive: Duration? = nil) async throws(KVStoreError) {
        let batch = try KVBatch(setting: key, to: value)
        do throws(KVStoreError) {
            try await commit(batch, timeToLive: timeToLive)
        } catch {
            throw error.of(.set, key.name)
        }
    }

    /// Removes a key and its value, of whatever type; has no effect if it is absent.
    ///
    /// - Throws: ``KVStoreError``. The value is kept unless the code is `.unknownOutcome` or `.durabilityUnknown`.
    public func remove<T>(_ key: KVKey<T>) async throws(KVStoreError) {
        var batch = KVBatch()
        batch.remove(key)
        do throws(KVStoreError) {
            try await commit(batch, timeToLive: nil)
        } catch {
            throw error.of(.remove, key.name)
        }
    }

    /// Stores a value if the key is absent.
    ///
    /// - Returns: Whether the value was stored.
    /// - Throws: ``KVStoreError``, as by ``compareAndSet(_:revision:value:timeToLive:)``.
    @discardableResult
    public func createIfAbsent<T>(
        _ key: KVKey<T>, value: T, timeToLive: Duration? = nil
    ) async throws(KVStoreError) -> Bool {
        try await compareAndSet(key, revision: nil, value: value, timeToLive: timeToLive)
    }

    /// Stores a value if the current one has a given revision.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - revision: The revision from `versioned`; nil requires the key to be absent.
    ///   - value: The new value.
    ///   - timeToLive: How long the value exists; nil, without end, even if the old one had an end.
    /// - Returns: Whether the revision matched and the value was stored.
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.unknownOutcome` or
    ///   `.durabilityUnknown`.
    @discardableResult
    public func compareAndSet<T>(
        _ key: KVKey<T>, revision: UInt64?, value: T, timeToLive: Duration? = nil
    ) async throws(KVStoreError) -> Bool {
        var batch = try KVBatch(setting: key, to: value)
        batch.require(key, revision: revision)
        do throws(KVStoreError) {
            try await commit(batch, timeToLive: timeToLive)
            return true
        } catch {
            if error.code == .conflict { return false }
            throw error.of(.set, key.name)
        }
    }

    /// Updates a value atomically: no other write occurs between reading and writing.
    ///
    /// The closure runs again after a concurrent write, at most 10,000 times, so it must have no other effect, and must
    /// not write the key itself.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - initial: The value passed to the closure if the key is absent.
    ///   - timeToLive: How long the new value exists; nil, without end, even if the old one had an end.
    ///   - change: Changes the value.
    /// - Returns: The stored value.
    /// - Throws: ``KVStoreError``, and the error of the closure; the old value is kept, unless the code is
    ///   `.unknownOutcome` or `.durabilityUnknown`.
    @discardableResult
    public func update<T>(
        _ key: KVKey<T>, default initial: @autoclosure () -> T, timeToLive: Duration? = nil,
        _ change: (inout T) throws -> Void
    ) async throws -> T {
        var attempts = UpdateAttempts(of: key.name)
        while true {
            let old = try await versioned(key)
            var value = old?.value ?? initial()
            try change(&value)
            if try await compareAndSet(key, revision: old?.revision, value: value, timeToLive: timeToLive) {
                return value
            }
            try attempts.didFail()
        }
    }

    /// Makes several changes atomically, for concurrent readers and across a crash.
    ///
    /// - Parameters:
    ///   - timeToLive: How long the stored values exist; nil, without end.
    ///   - changes: Adds the changes to a batch.
    /// - Throws: ``KVStoreError``, and the error of the closure; nothing was changed, unless the code is
    ///   `.unknownOutcome` or `.durabilityUnknown`.
    public func batch(timeToLive: Duration? = nil, _ changes: (inout KVBatch) throws -> Void) async throws {
        var batch = KVBatch()
        try changes(&batch)
        try await commit(batch, timeToLive: timeToLive)
    }

    /// All names with a prefix, in the order of their bytes, read in pages.
    ///
    /// - Throws: ``KVStoreError``.
    /// - Complexity: One request for every 1,000 names.
    public func keys(prefix: String = "") async throws(KVStoreError) -> [String] {
        var names: [String] = []
        while true {
            let page = try await keys(prefix: prefix, after: names.last, limit: 1000)
            names += page.names
            guard page.hasMore, !page.names.isEmpty else { return names }
        }
    }

    /// The changes of all names from now on; see ``changes(prefix:from:)``.
    public func changes() -> KVChanges { changes(prefix: "", from: nil) }
}

extension KVEntry {
    /// The decoded value.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` if it is not of the key's type.
    public func value<T>(of key: KVKey<T>) throws(KVStoreError) -> T { try key.decode(bytes) }
}

extension KVBatch {
    /// The batch of one value.
    fileprivate init<T>(setting key: KVKey<T>, to value: T) throws(KVStoreError) {
        self.init()
        do {
            try set(key, value: value)
        } catch {
            throw KVStoreError(of: error, .set, key: key.name).of(.set, key.name)
        }
    }
}
