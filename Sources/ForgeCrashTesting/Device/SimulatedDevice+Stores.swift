public import ForgeCrypt
public import ForgeFileStore
import ForgeFileSystem
public import ForgeKVStore
public import ForgeStorage
import ForgeStorageTesting
import Foundation
import Logging
import Synchronization

/// The stores of the app, as its running process opens them.
extension SimulatedDevice {
    /// A key-value store below the directory for application support, opened on first use.
    ///
    /// Further calls with the same name return the same object, with its original class, until the process ends.
    public func keyValueStore(
        named name: String = "settings",
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication
    ) -> DeviceKVStore {
        keyValueStore(name) { fileSystem, container in
            let path = container.path(of: .applicationSupport).appending("KeyValueStores").appending(name.asFileName)
            return DeviceKVStore(path, fileProtection, on: fileSystem)
        }
    }

    /// A file store on this device, like `DiskFileStore(directory:namespace:fileProtection:options:)` on a real one.
    public func fileStore(
        directory: StandardDirectory = .documents, namespace: String,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        options: FileStoreOptions = FileStoreOptions()
    ) -> DiskFileStore {
        DiskFileStore(
            root: URL(path(of: directory).appending(namespace.asFileName), isDirectory: true), fileSystem: fileSystem,
            fileProtection: fileProtection, options: options)
    }

    /// A secret store in the Keychain. It belongs to the device, not to the process, and survives all events.
    public func secrets(service: String = "app", accessGroup: String? = nil) -> KeychainCrypt {
        keychain.store(service: service, accessGroup: accessGroup)
    }

    /// A vault in the directory for application support, with its key in the Keychain.
    ///
    /// - Parameters:
    ///   - name: The vault's name.
    ///   - keyAccessibility: When the key can be read, and whether it moves to a new device with the vault.
    /// - Returns: The vault. If the Keychain has no key, a new key is created; an existing vault then throws
    ///   `.wrongKey`.
    /// - Throws: `CryptError`; `.unavailable(.locked)` while the key cannot be read.
    public func vault(
        named name: String = "vault", keyAccessibility: CryptAccessibility = .afterFirstUnlock
    ) throws(CryptError) -> VaultCrypt {
        let keys = secrets(service: "SimulatedDevice.vaults")
        let item = CryptKey<String>(key: name, accessibility: keyAccessibility)
        let digits: String
        if let existing = try keys.get(item) {
            digits = existing
        } else {
            digits = (0..<4).map { _ in fileSystem.randomBits().hexadecimal }.joined()
            try keys.set(digits, for: item)
        }
        let directory = path(of: .applicationSupport).appending("Vaults")
        return try VaultCrypt(
            at: URL(directory.appending(name.asFileName)), key: VaultKey.decode(hexadecimal: digits),
            fileSystem: fileSystem)
    }

    /// A session storage in the Keychain.
    public func sessionStorage<User: Codable & Sendable>(
        of user: User.Type = User.self, accessibility: CryptAccessibility = .whenUnlocked
    ) -> CryptSessionStorage<User> {
        CryptSessionStorage(store: secrets(service: "SimulatedDevice.session"), accessibility: accessibility)
    }
}

extension String {
    /// An injective encoding as a path component: each UTF-8 byte other than an ASCII letter, a digit, `-` or `_`
    /// becomes `=` and two hexadecimal digits. The empty string becomes `=`.
    fileprivate var asFileName: POSIXPath {
        var name = ""
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                name.unicodeScalars.append(Unicode.Scalar(byte))
            default: name += "=" + String(Int(byte) + 256, radix: 16).dropFirst()
            }
        }
        return POSIXPath(name.isEmpty ? "=" : name)
    }
}

extension UInt64 {
    fileprivate var hexadecimal: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// A key-value store on a ``SimulatedDevice``: a `FileKVStore` that is opened on first use.
///
/// Creating one performs no I/O and cannot fail, so that it can be a constant of an app started while the device is
/// locked. While its files are unreadable, `read` and all other throwing calls throw `KVStoreError` with
/// `.unavailable(.locked)`; `get` returns nil and `contains` false, as documented.
///
/// A store of the class `.complete` is closed when the device is locked and reopened afterwards, as in an app that
/// handles `protectedDataWillBecomeUnavailable`. Its streams go on: once a call has opened it again, a stream of a key
/// continues with the present value, and one of a prefix with `KVChange.resync`. So do streams that begin while it cannot
/// be opened; until then the key is absent for them. `ReactiveKVStore.settled()` does not wait for a stream that began
/// before the store was opened again.
///
/// It belongs to the process that it was created for: after the end of that process, every call throws
/// `.unavailable(.inputOutput)`. The changes of ``subscribe(to:)`` throw this error once, and all streams end.
///
/// Not simulated: the options of `FileKVStore`, which are the default ones, and its reports of damage, which neither a
/// logger nor a handler receives. The store is not shared: a process of ``SimulatedDevice/startExtension()`` that opens
/// its directory finds it in use. For all this, open a `FileKVStore` on ``SimulatedDevice/fileSystem``.
public final class DeviceKVStore: KVTransactionalStoring {
    /// The protection class of the store's files.
    public let protection: FileProtection

    private let fileSystem: DeviceFileSystem
    private let path: POSIXPath
    private let state = Mutex(State())

    private struct State: Sendable {
        var store: FileKVStore?
        var hasEnded = false
        /// The subscriptions to the open store or, while it is closed, to the last one and to `absence`.
        var handles: [ChangeHub.Handle] = []
        /// The number of times at which the subscriptions were ended, to begin anew or for good.
        var generation = 0

        mutating func takeHandles() -> [ChangeHub.Handle] {
            generation += 1
            defer { handles = [] }
            return handles
        }
    }

    /// For subscriptions that begin while the store cannot be opened.
    private let absence = ChangeHub()

    init(_ path: POSIXPath, _ protection: FileProtection, on fileSystem: DeviceFileSystem) {
        self.path = path
        self.protection = protection
        self.fileSystem = fileSystem
    }

    /// Releases the open store; the next call opens it again.
    func release() {
        // It is closed without the lock.
        let store = state.withLock { $0.store.take() }
        withExtendedLifetime(store) {}
    }

    /// Releases the open store for good, with its process.
    func end() {
        let (store, handles) = state.withLock { state in
            state.hasEnded = true
            return (state.store.take(), state.takeHandles())
        }
        withExtendedLifetime(store) {}
        for handle in handles { handle.finish() }
    }

    private func store(_ operation: KVStoreError.Operation, _ key: String? = nil) throws(KVStoreError) -> FileKVStore {
        do {
            let (store, handles) = try state.withLock { state in
                if let store = state.store { return (store, [] as [ChangeHub.Handle]) }
                try fileSystem.makeDirectories(path)
                try fileSystem.setProtection(protection, of: path)
                // A store with a logger would report, after its process has ended, that it cannot close its files.
                let new = try FileKVStore(at: path, fileSystem: fileSystem, options: .silent)
                state.store = new
                return (new, state.takeHandles())
            }
            for handle in handles { handle.finish() }
            return store
        } catch var error as KVStoreError {
            error.operation = operation
            error.key = key
            throw error
        } catch {
            let isLocked = (error as? FileSystemError)?.isLocked == true
            throw KVStoreError(
                .unavailable(isLocked ? .locked : .inputOutput), operation, key: key, store: String(path),
                underlying: error)
        }
    }

    /// Makes all earlier writes durable; see `FileKVStore`.
    public func synchronize() throws {
        try store(.synchronize).synchronize()
    }
}

extension DeviceKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try store(.get, key.name).get(key)
        } catch {
            return nil  // As documented; `read` distinguishes a failure from an absent value.
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        try store(.read, key.name).read(key)
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try store(.set, key.name).set(key, value: value)
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try store(.remove, key.name).remove(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        do {
            return try store(.contains, key.name).contains(key)
        } catch {
            return false  // As documented; `read` distinguishes a failure from an absent value.
        }
    }

    public func removeAll() throws {
        try store(.removeAll).removeAll()
    }

    public func keys() throws -> [String] {
        try store(.keys).keys()
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        try store(.read, name).rawValue(named: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try store(.set, name).setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws {
        try store(.remove, name).removeValue(named: name)
    }

    public func entry(named name: String) throws -> KVEntry? {
        try store(.read, name).entry(named: name)
    }

    public func snapshot() throws -> KVSnapshot {
        try store(.snapshot).snapshot()
    }

    public func commit(_ batch: KVBatch) throws {
        try store(.batch).commit(batch)
    }
}

// MARK: Changes

extension DeviceKVStore {
    public func subscribe(to scope: KVScope) -> KVChanges? {
        let changes = DeviceChanges(of: self, in: scope)
        return KVChanges(
            { () async throws(KVStoreError) -> KVChangeSet? in try await changes.next() }, handles: changes.handles)
    }

    /// The changes of the store from now on, until it is opened again or its process ends; none while it cannot be opened.
    ///
    /// - Throws: `.unavailable(.inputOutput)` after the end of the process.
    fileprivate func changesOfOpenStore(
        in scope: KVScope
    ) throws(KVStoreError) -> (changes: KVChanges, generation: Int) {
        // A failure is not one of the subscription, which waits for the next call that opens the store.
        do throws(KVStoreError) { _ = try store(.changes) } catch _ {}
        let found = state.withLock { state -> (KVChanges, Int)? in
            guard !state.hasEnded else { return nil }
            let changes = state.store?.subscribe(to: scope) ?? absence.changes(in: scope) { _ in nil }
            state.handles.removeAll { !$0.isActive }
            state.handles += changes.handles
            return (changes, state.generation)
        }
        guard let found else {
            throw KVStoreError(
                .unavailable(.inputOutput), .changes, store: String(path), underlying: ProcessEnded())
        }
        return found
    }

    /// Whether the subscriptions of a generation were ended.
    fileprivate func hasEnded(_ generation: Int) -> Bool { state.withLock { $0.generation != generation } }
}

/// The changes of a store for one consumer, across each closing and opening of the store.
private final class DeviceChanges: Sendable {
    private enum State {
        case following(KVChanges, generation: Int)
        case failed(KVStoreError)
        case ended
    }

    /// The first subscription; none if the process has ended before.
    let handles: [ChangeHub.Handle]

    private let store: DeviceKVStore
    private let scope: KVScope
    private let state: Mutex<State>

    init(of store: DeviceKVStore, in scope: KVScope) {
        (self.store, self.scope) = (store, scope)
        let first = Self.subscribe(to: store, scope)
        state = Mutex(first)
        if case .following(let changes, _) = first { handles = changes.handles } else { handles = [] }
    }

    private static func subscribe(to store: DeviceKVStore, _ scope: KVScope) -> State {
        do throws(KVStoreError) {
            let (changes, generation) = try store.changesOfOpenStore(in: scope)
            return .following(changes, generation: generation)
        } catch {
            return .failed(error)
        }
    }

    func next() async throws(KVStoreError) -> KVChangeSet? {
        while case .following(let changes, let generation) = state.withLock({ $0 }) {
            var iterator = changes.makeAsyncIterator()
            if let set = try await iterator.nextSet() { return set }
            // It ends with the consuming task, and with a `ReactiveKVStore`, too.
            guard !Task.isCancelled, store.hasEnded(generation) else { break }
            let new = Self.subscribe(to: store, scope)
            state.withLock { $0 = new }
            if case .following = new, case .prefix = scope { return KVChangeSet([.resync]) }
        }
        let last = state.withLock { state in
            defer { state = .ended }
            return state
        }
        guard case .failed(let error) = last else { return nil }
        throw error
    }
}

extension FileKVStore.Options {
    /// Options without logging, for stores whose failures and damage a test causes.
    package static var silent: Self {
        Self(logger: Logger(label: "ForgeStorageTesting") { _ in SwiftLogNoOpLogHandler() })
    }
}
