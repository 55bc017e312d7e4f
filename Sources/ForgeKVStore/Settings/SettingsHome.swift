import Foundation
import Synchronization

/// The store of settings that are declared without one: `@Setting(.theme) var theme`.
///
/// In an app it is a ``FileKVStore``, opened by the first use: in the directory `settings` of the app's own directory
/// below Application Support, unless ``open(_:)`` chooses another. All processes of the app may use it concurrently. If
/// it cannot be opened, settings are kept in memory until the process ends; ``openingError`` has the reason, which is
/// also logged.
///
/// Before the device is first unlocked after its start, when a prewarmed app or one in the background may run, the
/// stored values cannot be read. Nothing is kept in memory then: every access tries to open the store again, reading a
/// setting returns its default, and `read` and all writes throw ``KVStoreError`` with `.unavailable(.locked)`. After the
/// unlock the first access opens the store, and observers and `values` then report what it contains.
///
/// In a process that runs tests or an Xcode preview it is an ``InMemoryKVStore``, regardless of ``open(_:)``, so that
/// no test changes the settings of an app. The tests of a process share it. ``withStore(_:_:)`` gives a test a separate
/// store; the trait `.settingsInMemory` of the product ForgeTestTraits does that for each test of a suite.
public enum SettingsHome {
    /// A store with the abilities that settings use: atomic changes and observation.
    public typealias Store = KVTransactionalStoring & KVObservableStoring

    /// The store of the innermost ``withStore(_:_:)``, or else that of the process, opened now if it was not used
    /// before.
    public static var store: any Store {
        // Reading a task-local value costs more than reading a setting.
        if hasScopes.load(ordering: .relaxed), let scoped { return scoped }
        return processStore
    }

    /// The reason why the store could not be opened; nil if it was opened or not used yet. Settings are only in memory,
    /// or, if the reason is `.unavailable(.locked)`, unavailable until the device is unlocked.
    public static var openingError: (any Error)? { process.openingError }

    /// Chooses the store of the process; call it before the first use, at the start of the app.
    ///
    /// ```swift
    /// try SettingsHome.open { try FileKVStore(at: groupContainer.appending(path: "settings"), options: options) }
    /// ```
    ///
    /// - Parameter opening: Opens the store. It is called immediately, and by later accesses as long as it throws
    ///   `.unavailable(.locked)`; never in a process that runs tests or a preview.
    /// - Throws: The error of `opening`, which is also ``openingError``; settings are then in memory, or, after
    ///   `.unavailable(.locked)`, unavailable until the device is unlocked. ``AlreadyInUse`` if the store was used or
    ///   chosen before, also by `opening` itself.
    public static func open(_ opening: @escaping @Sendable () throws -> any Store) throws {
        try process.open(opening)
    }

    /// Calls `body` with `store` as the store of settings without one, including in child tasks, but not in detached
    /// tasks and other threads.
    public static func withStore<Result>(
        _ store: any Store, _ body: () throws -> Result
    ) rethrows -> Result {
        hasScopes.store(true, ordering: .relaxed)
        return try $scoped.withValue(store) { try body() }
    }

    /// The same for an asynchronous `body`, which runs on the caller's actor.
    public static func withStore<Result>(
        _ store: any Store, isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
    ) async rethrows -> Result {
        hasScopes.store(true, ordering: .relaxed)
        return try await $scoped.withValue(store) { try await body() }
    }

    /// The error of ``open(_:)`` after the store was used or chosen.
    public struct AlreadyInUse: Error, CustomStringConvertible {
        public var description: String { "the home of the settings was used or chosen before" }
    }
}

extension SettingsHome {
    @TaskLocal private static var scoped: (any Store)?
    private static let hasScopes = Atomic(false)

    private static let process = ProcessSettingsStore(isTest: TestProcess.isCurrent) {
        let app = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
        let support = try FileManager.default.url(
            for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: false)
        let directory = support.appendingPathComponent(app).appendingPathComponent("settings")
        return try FileKVStore(at: directory, options: .init(sharing: .shared))
    }

    /// The store outside of every ``withStore(_:_:)``, looked up once, because a lock would cost more than a read. If the
    /// device is locked at the first use, calls of this store open it later.
    static let processStore: any Store = process.store

    /// The same if it is on disk: a call of a known type copies no existential.
    private static let processFileStore = processStore as? FileKVStore

    /// Forwards every call to ``store``, which it looks up anew.
    struct Reader: KVStoring {
        func get<T>(_ key: KVKey<T>) -> T? {
            if !hasScopes.load(ordering: .relaxed), let store = processFileStore { return store.get(key) }
            return store.get(key)
        }

        func set<T>(_ key: KVKey<T>, value: T) throws { try store.set(key, value: value) }
        func remove<T>(_ key: KVKey<T>) throws { try store.remove(key) }
        func contains<T>(_ key: KVKey<T>) -> Bool { store.contains(key) }
        func removeAll() throws { try store.removeAll() }
        func read<T>(_ key: KVKey<T>) throws -> T? { try store.read(key) }
    }
}
