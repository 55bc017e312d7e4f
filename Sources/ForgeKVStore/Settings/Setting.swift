import Logging
import Synchronization

/// One setting of one store: a property that is kept.
///
/// ```swift
/// extension KVSettings {
///     static let theme = KVSetting("theme", default: Theme.system)
/// }
///
/// struct Appearance {
///     @Setting(.theme, in: AppStores.settings) var theme
/// }
///
/// let theme = Setting(.theme, in: store)  // The same as a handle, for an actor or an `@Observable` class.
/// try theme.set(.dark)
/// ```
///
/// Every access goes to the store; nothing is cached here, so a value never differs from that of other readers.
///
/// An assignment cannot throw. If it fails, reading gives the value that is stored, the error is ``lastError``, and it goes
/// to the store's `onIssue` handler, or to the log of a store that has none. ``set(_:)`` throws instead.
///
/// `theme += 1` reads, then writes: a concurrent change in between is lost. Use ``withLock(_:)``.
@propertyWrapper
public struct Setting<Value: Codable & Sendable>: Sendable {
    /// The name, type and default of the value.
    public let setting: KVSetting<Value>

    private let store: any KVStoring
    private let failure = Failure()

    /// A handle for a setting in a store.
    public init(_ setting: KVSetting<Value>, in store: any KVStoring) {
        self.setting = setting
        self.store = store.unerased
    }

    /// The value, or the default if it is absent or cannot be read.
    public var wrappedValue: Value {
        get { store.get(setting.key) ?? setting.defaultValue }
        nonmutating set {
            do {
                try set(newValue)
            } catch {
                report(error)
            }
        }
    }

    /// The handle itself: `$theme.reset()`.
    public var projectedValue: Setting { self }

    /// The error of the latest write through this handle; nil if it succeeded.
    public var lastError: (any Error)? { failure.error.withLock { $0 } }

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
    /// other effect. No lock is held while it runs, in spite of the name, which `Mutex` has given to such calls.
    ///
    /// - Returns: The result of the closure's last run.
    /// - Throws: ``KVStoreError``, and the error of the closure; ``NotTransactional`` if the store has no atomic changes,
    ///   such as ``UserDefaultsKVStore``. The old value is kept.
    @discardableResult
    public func withLock<Result>(_ change: (inout Value) throws -> Result) throws -> Result {
        try recording {
            guard let store = store as? any KVTransactionalStoring else { throw NotTransactional(key: setting.name) }
            while true {
                let old = try store.versioned(setting.key)
                var value = old?.value ?? setting.defaultValue
                let result = try change(&value)
                if try store.compareAndSet(setting.key, revision: old?.revision, value: value) { return result }
            }
        }
    }

    /// The values: the current one, then the latest one after each change, whoever made it.
    ///
    /// If the store does not report changes (``KVObservableStoring``), the current value is the only one.
    public var values: KVSettingValues<Value> {
        if let store = store as? any KVObservableStoring { return store.values(of: setting) }
        return KVSettingValues(only: wrappedValue, of: setting)
    }

    private final class Failure: Sendable {
        let error = Mutex<(any Error)?>(nil)
    }

    private func recording<Result>(_ write: () throws -> Result) throws -> Result {
        do {
            let result = try write()
            failure.error.withLock { $0 = nil }
            return result
        } catch {
            failure.error.withLock { $0 = error }
            throw error
        }
    }

    private func report(_ error: any Error) {
        let issue = KVStoreIssue.assignment(key: setting.name, error)
        guard let store = store as? any KVIssueReporting else {
            return Logger(label: "ForgeKVStore").error("\(issue)")
        }
        store.report(issue)
    }
}

/// The error of an atomic change in a store that has none.
public struct NotTransactional: Error, Hashable, CustomStringConvertible {
    /// The name of the setting.
    public var key: String

    public var description: String { "cannot change \(KeyName(key)) atomically: the store is not transactional" }
}
