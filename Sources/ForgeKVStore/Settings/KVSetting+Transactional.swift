public import ForgeFileSystem

extension KVTransactionalStoring {
    /// Updates a setting atomically: no other write occurs between reading and writing.
    ///
    /// ```swift
    /// try store.update(.launches) { $0 += 1 }
    /// ```
    ///
    /// The closure gets the default if no value is stored. It runs again after a concurrent write, so it must have no
    /// other effect. It runs without any lock held.
    ///
    /// - Returns: The stored value.
    /// - Throws: ``KVStoreError``, and the error of the closure; the old value is kept.
    @discardableResult
    public func update<T>(
        _ setting: KVSetting<T>, durability: Durability = .none, _ change: (inout T) throws -> Void
    ) throws -> T {
        try update(setting.key, default: setting.defaultValue, durability: durability, change)
    }

    /// Stores the value of a setting and, for `.full`, waits until it is durable against a power cut.
    ///
    /// - Throws: ``KVStoreError``, as ``set(_:value:durability:)-(KVKey<T>,_,_)``.
    public func set<T>(_ setting: KVSetting<T>, value: T, durability: Durability) throws {
        try set(setting.key, value: value, durability: durability)
    }

    /// Stores the value of a setting if none is stored.
    ///
    /// - Returns: Whether the value was stored.
    @discardableResult
    public func createIfAbsent<T>(_ setting: KVSetting<T>, value: T) throws -> Bool {
        try createIfAbsent(setting.key, value: value)
    }
}

extension KVBatch {
    /// Adds setting the value of a setting.
    ///
    /// - Throws: ``KVStoreError`` with the code `.unencodable`; the batch is unchanged.
    public mutating func set<T>(_ setting: KVSetting<T>, value: T) throws { try set(setting.key, value: value) }

    /// Adds removing the stored value of a setting.
    public mutating func remove<T>(_ setting: KVSetting<T>) { remove(setting.key) }
}

extension KVSnapshot {
    /// The value of a setting, or its default if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` if the value is not of the setting's
    ///   type.
    public func read<T>(_ setting: KVSetting<T>) throws -> T { try read(setting.key) ?? setting.defaultValue }
}
