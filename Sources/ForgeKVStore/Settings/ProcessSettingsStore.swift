import ForgeFileSystem
import Foundation
import Logging
import Synchronization

/// The store of a process's settings: chosen once, or else opened by the first use.
///
/// While the device has not been unlocked since it started, opening fails with `.unavailable(.locked)`. Nothing is kept
/// in memory then: the stored values exist, and an empty store in their place would show defaults and lose writes. Every
/// access tries again instead.
final class ProcessSettingsStore: Sendable {
    typealias Opening = @Sendable () throws -> any SettingsHome.Store

    private let isTest: Bool
    private let standardOpening: Opening
    private let state = Mutex(State.unused)

    /// The observers that were added while the device was locked.
    private let waiting = ChangeObservers()
    private let observation = Mutex<KVObservation?>(nil)

    private enum State {
        case unused

        /// The device is locked; the next access calls `opening` again.
        case locked(any Error, opening: Opening)

        /// `openingError` is the reason why the store is only in memory.
        case opened(any SettingsHome.Store, openingError: (any Error)?)

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
    var store: any SettingsHome.Store {
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

    /// Chooses the store; see ``SettingsHome/open(_:)``.
    func open(_ opening: @escaping Opening) throws {
        guard !isTest else { return }
        let alreadyInUse = SettingsHome.AlreadyInUse()
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
    fileprivate func opened() throws -> any SettingsHome.Store {
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
            if wasLocked {
                observe(store)
                waiting.notify(nil)
            }
            return store
        case .locked(let error, _): throw error
        case .unused: preconditionFailure("a store was opened, or not")
        }
    }

    /// Calls `handler` for the changes of the store once it is open, and when it is opened.
    fileprivate func addWaiting(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        let observation = waiting.add(handler)
        // It may have been opened meanwhile.
        if case .opened(let store, _) = state.withLock({ $0 }) {
            observe(store)
            waiting.notify(nil)
        }
        return observation
    }

    /// Reports the changes of the store to the observers that were added before it was opened, if any.
    private func observe(_ store: any SettingsHome.Store) {
        guard waiting.hasObservers, observation.withLock({ $0 == nil }) else { return }
        let new = store.observeChanges { [waiting] names in waiting.notify(names?.map(KeyName.init)) }
        observation.withLock { $0 = new }
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
private struct LockedSettingsStore: KVTransactionalStoring, KVObservableStoring, KVIssueReporting {
    let process: ProcessSettingsStore

    private func opened(_ operation: KVStoreError.Operation, _ name: String? = nil) throws -> any SettingsHome.Store {
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
    private var openedIfPossible: (any SettingsHome.Store)? {
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

    func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        openedIfPossible?.observeChanges(handler) ?? process.addWaiting(handler)
    }

    func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        observeChanges(handler)
    }

    func report(_ issue: KVStoreIssue) {
        if let store = openedIfPossible { return store.reportOrLog(issue) }
        Logger(label: "ForgeKVStore").error("\(issue)")
    }
}
