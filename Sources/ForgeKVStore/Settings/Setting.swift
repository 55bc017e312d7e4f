public import ForgeFileSystem
import Synchronization

/// Reads and writes one setting of a store: as the property wrapper `@Setting`, or as a handle in a constant.
///
/// ```swift
/// extension KVSettings {
///     static let theme = KVSetting("theme", default: Theme.system)
/// }
///
/// struct Appearance {
///     @Setting(.theme) var theme  // In ``DefaultSettingsStore``; or @Setting(.theme, in: AppStores.settings).
/// }
///
/// let theme = Setting(.theme, in: store)  // The same as a handle, for an actor or an `@Observable` class.
/// try theme.set(.dark)
/// ```
///
/// Every access goes to the store; nothing is cached here, so all readers see the same value.
///
/// An assignment cannot throw. If it fails, reading returns the stored value, ``lastError`` is set, and the error is
/// logged and passed to the store's ``FileKVStore/Options/onIssue``, if it has one. ``set(_:)`` throws instead.
///
/// This is not a model: a view is not updated when the value changes; use ``ObservedSettings`` for that.
///
/// `theme += 1` reads, then writes: a concurrent change in between is lost. Use ``withLock(_:)``.
@propertyWrapper
public struct Setting<Value: Codable & Sendable>: Sendable {
    /// All properties in one object, so that copying a handle counts one reference.
    @usableFromInline let state: SettingState<Value>

    private var store: any KVStoring { state.store ?? DefaultSettingsStore.store }

    /// Creates a handle for a setting in ``DefaultSettingsStore``, looked up by each call: in a test it is the store of
    /// the test.
    public init(_ setting: KVSetting<Value>) {
        state = SettingState(setting, nil)
    }

    /// Creates a handle for a setting in a store.
    public init(_ setting: KVSetting<Value>, in store: any KVStoring) {
        state = SettingState(setting, store)
    }

    /// The name, type and default of the value.
    public var setting: KVSetting<Value> { state.setting }

    /// The value, or the default if it is absent or cannot be read.
    public var wrappedValue: Value {
        // In the caller's module the type is known, so no runtime lookup of `Value?` is needed.
        @inlinable get { state.reader.get(state.key) ?? state.defaultValue }
        nonmutating set {
            do {
                try set(newValue)
            } catch {
                store.report(.assignment(key: setting.name, error))
            }
        }
    }

    /// The handle itself: `$theme.reset()`.
    public var projectedValue: Setting { self }

    /// The error of the latest write through this handle, or of the closure of ``withLock(_:)``; nil if it succeeded.
    public var lastError: (any Error)? { state.error.withLock { $0 } }

    /// Stores a value.
    ///
    /// - Throws: ``KVStoreError``, as ``KVStoring/set(_:value:)``. The old value is kept.
    public func set(_ value: Value) throws { try recording { try store.set(setting.key, value: value) } }

    /// Removes the stored value, so that reading gives the default.
    ///
    /// - Throws: ``KVStoreError``, as ``KVStoring/remove(_:)``.
    public func reset() throws { try recording { try store.remove(setting.key) } }

    /// The stored value; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``, as ``KVStoring/read(_:)``.
    public func read() throws -> Value? { try store.read(setting.key) }

    /// Changes the value atomically: no other write, of this or another process, occurs between reading and writing.
    ///
    /// The closure gets the default if no value is stored. It runs again after a concurrent write, so it must have no
    /// other effect. No lock is held while it runs, despite the name, which follows `Mutex`.
    ///
    /// - Returns: The result of the closure's last run.
    /// - Throws: ``KVStoreError``, and the error of the closure; `.refused` if the store has no atomic changes, as
    ///   ``UserDefaultsKVStore`` has none. The old value is kept.
    @discardableResult
    public func withLock<Result>(_ change: (inout Value) throws -> Result) throws -> Result {
        try recording {
            guard let store = store as? any KVTransactionalStoring else {
                throw KVStoreError(.refused, .set, key: setting.name, detail: "the store has no atomic changes")
            }
            return try store.changing(setting.key, default: setting.defaultValue, change)
        }
    }

    /// The values: the current one, then the latest one after each change.
    ///
    /// If the store does not report changes (``KVStoring/subscribe(to:)``), the current value is the only one.
    public var values: KVSettingValues<Value> { store.values(of: setting) }

    private func recording<Result>(_ write: () throws -> Result) throws -> Result {
        do {
            let result = try write()
            state.error.withLock { $0 = nil }
            return result
        } catch {
            state.error.withLock { $0 = error }
            throw error
        }
    }
}

/// The constants of a ``Setting`` and the error of its latest write.
@usableFromInline
final class SettingState<Value: Codable & Sendable>: Sendable {
    /// Nil for the store of ``DefaultSettingsStore``.
    let store: (any KVStoring)?

    /// The store that reads go to; not optional, because unwrapping would copy it in every read.
    @usableFromInline let reader: any KVStoring
    @usableFromInline let key: KVKey<Value>
    @usableFromInline let defaultValue: Value
    let setting: KVSetting<Value>
    let error = Mutex<(any Error)?>(nil)

    init(_ setting: KVSetting<Value>, _ store: (any KVStoring)?) {
        self.setting = setting
        self.store = store
        reader = store ?? DefaultSettingsStore.Reader()
        key = setting.key
        defaultValue = setting.defaultValue
    }
}

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
extension KVSetting: Hashable, ComparedByBytes {
    var identity: KeyName { key.identity }
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
    /// - Throws: ``KVStoreError``, as ``KVStoring/remove(_:)-(KVKey<T>)``.
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
