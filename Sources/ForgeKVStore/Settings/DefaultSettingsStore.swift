import ForgeFileSystem
import Foundation
import Logging
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
public enum DefaultSettingsStore {
    /// The store of the innermost ``withStore(_:_:)``, or else that of the process, opened now if it was not used
    /// before.
    public static var store: any KVTransactionalStoring {
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
    /// try DefaultSettingsStore.open { try FileKVStore(at: groupContainer.appending(path: "settings"), options: options) }
    /// ```
    ///
    /// - Parameter opening: Opens the store, which should report changes. It is called immediately, and by later accesses
    ///   as long as it throws `.unavailable(.locked)`; never in a process that runs tests or a preview.
    /// - Throws: The error of `opening`, which is also ``openingError``; settings are then in memory, or, after
    ///   `.unavailable(.locked)`, unavailable until the device is unlocked. `.refused` if the store was used or chosen before, also
    ///   by `opening` itself.
    public static func open(_ opening: @escaping @Sendable () throws -> any KVTransactionalStoring) throws {
        try process.open(opening)
    }

    /// Calls `body` with `store` as the store of settings without one, including in child tasks, but not in detached
    /// tasks and other threads.
    public static func withStore<Result>(
        _ store: any KVTransactionalStoring, _ body: () throws -> Result
    ) rethrows -> Result {
        hasScopes.store(true, ordering: .relaxed)
        return try $scoped.withValue(store) { try body() }
    }

    /// The same for an asynchronous `body`, which runs on the caller's actor.
    public static func withStore<Result>(
        _ store: any KVTransactionalStoring, isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> Result
    ) async rethrows -> Result {
        hasScopes.store(true, ordering: .relaxed)
        return try await $scoped.withValue(store) { try await body() }
    }
}

extension DefaultSettingsStore {
    @TaskLocal private static var scoped: (any KVTransactionalStoring)?
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
    static let processStore: any KVTransactionalStoring = process.store

    /// The same if it is on disk: a call of a known type copies no existential.
    private static let processFileStore = processStore as? FileKVStore

    /// Forwards each read to ``store``, which it looks up anew; no other call is made.
    struct Reader: KVStoring {
        func get<T>(_ key: KVKey<T>) -> T? {
            if !hasScopes.load(ordering: .relaxed), let store = processFileStore { return store.get(key) }
            return store.get(key)
        }

        func set<T>(_ key: KVKey<T>, value: T) throws { try store.set(key, value: value) }
        func remove<T>(_ key: KVKey<T>) throws { try store.remove(key) }
        func contains<T>(_ key: KVKey<T>) -> Bool { store.contains(key) }
        func removeAll() throws { try store.removeAll() }
    }
}

/// The store of a process's settings: chosen once, or else opened by the first use.
///
/// While the device has not been unlocked since it started, opening fails with `.unavailable(.locked)`. Nothing is kept
/// in memory then: the stored values exist, and an empty store in their place would show defaults and lose writes. Every
/// access tries again instead.
final class ProcessSettingsStore: Sendable {
    typealias Opening = @Sendable () throws -> any KVTransactionalStoring

    private let isTest: Bool
    private let standardOpening: Opening
    private let state = Mutex(State.unused)

    /// The changes for those who subscribed while the device was locked: of the store, once it is open.
    private let waiting = ChangeHub()
    private let forwarding = Mutex<KVChanges.Forwarding?>(nil)

    private enum State {
        case unused

        /// The device is locked; the next access calls `opening` again.
        case locked(any Error, opening: Opening)

        /// `openingError` is the reason why the store is only in memory.
        case opened(any KVTransactionalStoring, openingError: (any Error)?)

        var isUnused: Bool { if case .unused = self { true } else { false } }
    }

    /// - Parameters:
    ///   - isTest: Whether the store is always in memory.
    ///   - opening: Opens the store if none is chosen.
    init(isTest: Bool, opening: @escaping Opening) {
        self.isTest = isTest
        let openingInMemory: Opening = { InMemoryKVStore() }
        standardOpening = isTest ? openingInMemory : opening
    }

    /// The store, opened now if none is open; while the device is locked, one whose calls try to open it.
    var store: any KVTransactionalStoring {
        do {
            return try opened()
        } catch {
            return LockedSettingsStore(process: self)
        }
    }

    var openingError: (any Error)? {
        switch state.withLock({ $0 }) {
        case .unused: nil
        case .locked(let error, _): error
        case .opened(_, let error): error
        }
    }

    /// Chooses the store; see ``DefaultSettingsStore/open(_:)``.
    func open(_ opening: @escaping Opening) throws {
        guard !isTest else { return }
        let alreadyInUse = KVStoreError(
            .refused, .open, detail: "the default store of settings was used or chosen before")
        guard state.withLock({ $0.isUnused }) else { throw alreadyInUse }
        let result = Self.state(opening)
        try state.withLock { state in
            guard state.isUnused else { throw alreadyInUse }
            state = result
        }
        if let openingError { throw openingError }
    }

    /// The store, opened now if none is open.
    ///
    /// - Throws: The error of opening while the device is locked.
    fileprivate func opened() throws -> any KVTransactionalStoring {
        let opening: Opening
        switch state.withLock({ $0 }) {
        case .unused: opening = standardOpening
        case .locked(_, let chosen): opening = chosen
        case .opened(let store, _): return store
        }
        // Opening reports issues to code of the app, so no lock is held. If another thread opens first, its object is
        // used; both are objects over one store.
        let result = Self.state(opening)
        let (state, wasLocked) = self.state.withLock { state in
            if case .opened = state { return (state, false) }
            let wasLocked = !state.isUnused
            state = result
            return (state, wasLocked)
        }
        switch state {
        case .opened(let store, _):
            if wasLocked { forward(store) }
            return store
        case .locked(let error, _): throw error
        case .unused: preconditionFailure("opening ended in the state `unused`")
        }
    }

    /// The changes of the store once it is open, and what it contains when it is opened.
    fileprivate func subscribeWaiting(to scope: KVScope) -> KVChanges {
        let changes = waiting.changes(in: scope) { _ in nil }
        // It may have been opened meanwhile.
        if case .opened(let store, _) = state.withLock({ $0 }) { forward(store) }
        return changes
    }

    /// Reports the content and the changes of the store to those who subscribed before it was opened, if any.
    private func forward(_ store: any KVTransactionalStoring) {
        guard waiting.hasSubscribers else { return }
        let waiting = waiting
        forwarding.withLock { forwarding in
            guard forwarding == nil, let changes = store.subscribe(to: .prefix("")) else { return }
            forwarding = KVChanges.Forwarding(Task { await waiting.forward(changes, of: store) })
        }
        waiting.appendAll(store)
        waiting.wake()
    }

    private static func state(_ opening: @escaping Opening) -> State {
        do {
            return .opened(try opening(), openingError: nil)
        } catch  where isLocked(error) {
            Logger(label: "ForgeKVStore").warning("settings are unavailable until the device is unlocked: \(error)")
            return .locked(error, opening: opening)
        } catch {
            Logger(label: "ForgeKVStore").critical("settings are only kept in memory: \(error)")
            return .opened(InMemoryKVStore(), openingError: error)
        }
    }

    private static func isLocked(_ error: any Error) -> Bool {
        switch error {
        case let error as KVStoreError: error.code == .unavailable(.locked)
        case let error as FileSystemError: error.isLocked
        default: false
        }
    }
}

/// The store of a process's settings while the device is locked: every call tries to open it.
///
/// Until that succeeds, `get` returns nil, `contains` false, and every other call throws `.unavailable(.locked)`. Once
/// it has succeeded, calls are forwarded.
private struct LockedSettingsStore: KVTransactionalStoring {
    let process: ProcessSettingsStore

    private func opened(_ operation: KVStoreError.Operation, _ name: String? = nil) throws -> any KVTransactionalStoring
    {
        do {
            return try process.opened()
        } catch var error as KVStoreError {
            (error.operation, error.key) = (operation, name)
            throw error
        } catch {
            throw KVStoreError(.unavailable(.locked), operation, key: name, underlying: error)
        }
    }

    /// The open store, or nil. For calls that cannot throw.
    private var openedIfPossible: (any KVTransactionalStoring)? {
        do { return try process.opened() } catch { return nil }
    }

    func get<T>(_ key: KVKey<T>) -> T? { openedIfPossible?.get(key) }

    func contains<T>(_ key: KVKey<T>) -> Bool { openedIfPossible?.contains(key) ?? false }

    func read<T>(_ key: KVKey<T>) throws -> T? { try opened(.read, key.name).read(key) }

    func set<T>(_ key: KVKey<T>, value: T) throws { try opened(.set, key.name).set(key, value: value) }

    func remove<T>(_ key: KVKey<T>) throws { try opened(.remove, key.name).remove(key) }

    func removeAll() throws { try opened(.removeAll).removeAll() }

    func keys() throws -> [String] { try opened(.keys).keys() }

    func rawValue(named name: String) throws -> [UInt8]? { try opened(.read, name).rawValue(named: name) }

    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try opened(.set, name).setRawValue(bytes, named: name)
    }

    func removeValue(named name: String) throws { try opened(.remove, name).removeValue(named: name) }

    func entry(named name: String) throws -> KVEntry? { try opened(.read, name).entry(named: name) }

    func snapshot() throws -> KVSnapshot { try opened(.snapshot).snapshot() }

    func commit(_ batch: KVBatch) throws { try opened(.batch).commit(batch) }

    func synchronize() throws { try opened(.synchronize).synchronize() }

    func subscribe(to scope: KVScope) -> KVChanges? {
        guard let store = openedIfPossible else { return process.subscribeWaiting(to: scope) }
        return store.subscribe(to: scope)
    }

    func report(_ issue: KVStoreIssue) {
        if let store = openedIfPossible { return store.report(issue) }
        Logger(label: "ForgeKVStore").error("\(issue)")
    }
}

extension ChangeHub {
    /// Reports the changes of a store until the task is cancelled.
    fileprivate func forward(_ changes: KVChanges, of store: any KVTransactionalStoring) async {
        var iterator = changes.makeAsyncIterator()
        while !Task.isCancelled {
            do throws(KVStoreError) {
                guard let set = try await iterator.nextSet() else { return }
                for change in set.changes {
                    switch change {
                    case .resync: appendAll(store)
                    case .changed(let name, let entry, _):
                        append(Change(KeyName(name), entry?.bytes, entry?.revision ?? 0))
                    }
                }
            } catch {
                appendAll(store)
            }
            wake()
        }
    }

    /// Reports the content of a store, but for names that cannot be read.
    fileprivate func appendAll(_ store: any KVTransactionalStoring) {
        appendAll { name in
            try store.entry(named: String(decoding: name, as: UTF8.self)).map { ($0.bytes, $0.revision) }
        }
    }
}

/// Detects processes that must not use the settings of an app.
enum TestProcess {
    /// Whether this process runs tests (XCTest or Swift Testing) or an Xcode preview.
    static let isCurrent = matches(
        executable: CommandLine.arguments.first ?? "", environment: ProcessInfo.processInfo.environment)

    /// Arguments are ignored: the path of a test bundle may be an argument of an app.
    static func matches(executable: String, environment: [String: String]) -> Bool {
        // Set by Xcode.
        let variables = ["XCTestConfigurationFilePath", "XCTestBundlePath", "XCTestSessionIdentifier"]
        if variables.contains(where: { environment[$0] != nil }) || environment["XCODE_RUNNING_FOR_PREVIEWS"] == "1" {
            return true
        }
        // `swift test` runs the test bundle itself (Linux), or a tool that loads it (macOS).
        let name = executable.split(separator: "/").last ?? ""
        return name.hasSuffix(".xctest") || name.hasSuffix("-test-runner")
            || ["xctest", "swiftpm-testing-helper", "swiftpm-xctest-helper"].contains(name)
    }
}
