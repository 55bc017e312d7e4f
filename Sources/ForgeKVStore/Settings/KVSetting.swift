public import ForgeFileSystem

/// The namespace in which an app declares its settings.
///
/// ```swift
/// extension KVSettings {
///     static let theme = KVSetting("theme", default: Theme.system)
///     static let launches = KVSetting("launches", default: 0)
/// }
///
/// let theme = store.get(.theme)  // Theme, not Theme?
/// try store.set(.theme, value: .dark)
/// ```
///
/// ``KVSetting`` inherits the constants, so that `.theme` names one wherever a setting is expected.
public class KVSettings: @unchecked Sendable {
    // Invariant of the unchecked conformance: instances store nothing; only the subclass has constants.
    fileprivate init() {}
}

/// A setting: the name and type of a value, and its default.
///
/// Reading a setting returns the default if the value is absent or cannot be decoded as this type;
/// ``KVStoring/read(_:)-(KVSetting<T>)`` distinguishes these cases. The default is never stored: a later release may
/// change it for all users who have not chosen a value.
public final class KVSetting<Value: Codable & Sendable>: KVSettings, @unchecked Sendable {
    // Invariant of the unchecked conformance: both constants are Sendable.

    /// The name and type of the stored value.
    public let key: KVKey<Value>

    /// The result of reading if no value can be read.
    public let defaultValue: Value

    /// Creates a setting for a type that has had a single version so far.
    public convenience init(_ name: String, default defaultValue: Value) {
        self.init(KVKey(name), default: defaultValue)
    }

    /// Creates a setting for a key, which may have migrations.
    public init(_ key: KVKey<Value>, default defaultValue: Value) {
        self.key = key
        self.defaultValue = defaultValue
        super.init()
    }

    /// The name of the value.
    public var name: String { key.name }
}

/// Settings are equal if their names are; defaults are not compared.
extension KVSetting: Hashable {
    public static func == (left: KVSetting, right: KVSetting) -> Bool { left.key == right.key }

    public func hash(into hasher: inout Hasher) { key.hash(into: &hasher) }
}

// MARK: Reading

extension KVStoring {
    /// The value of a setting, or its default if the value is absent or cannot be read.
    @inlinable
    public func get<T>(_ setting: KVSetting<T>) -> T { get(setting.key) ?? setting.defaultValue }

    /// Same as ``get(_:)-(KVSetting<T>)``. There is no setter, because an assignment cannot throw.
    @inlinable
    public subscript<T>(_ setting: KVSetting<T>) -> T { self.get(setting) }

    /// The stored value of a setting; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` if the value cannot be read as this type,
    ///   `.unavailable` if the store cannot be read.
    public func read<T>(_ setting: KVSetting<T>) throws -> T? { try read(setting.key) }

    /// Whether a value is stored for the setting.
    public func contains<T>(_ setting: KVSetting<T>) -> Bool { contains(setting.key) }
}

// MARK: Writing

extension KVStoring {
    /// Stores the value of a setting, even if it equals the default.
    ///
    /// - Throws: ``KVStoreError``, as ``set(_:value:)-(KVKey<T>,_)``.
    public func set<T>(_ setting: KVSetting<T>, value: T) throws { try set(setting.key, value: value) }

    /// Removes the stored value, so that reading gives the default again.
    ///
    /// - Throws: ``KVStoreError``, as ``remove(_:)-(KVKey<T>)``.
    public func remove<T>(_ setting: KVSetting<T>) throws { try remove(setting.key) }
}

extension KVKeyCatalog {
    /// Adds the key of a setting. ``problems`` reports mistakes.
    public mutating func declare<Value>(_ setting: KVSetting<Value>, _ description: String = "") {
        declare(setting.key, description)
    }
}

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
