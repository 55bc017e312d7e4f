public import ForgeFileStore
public import ForgeFileSystem
public import ForgeStorageTesting
public import Foundation
import Synchronization
import SystemPackage

/// A device with one app on it, in memory: files, key-value stores, secrets and sessions that share its state, and
/// everything that happens to a device while an app lives on it.
///
/// ```swift
/// let device = try SimulatedDevice()
/// let drafts = device.fileStore(namespace: "drafts", fileProtection: .complete)
/// try await drafts.save(text, to: "letter")
/// device.lock()
/// await #expect(throws: FileStoreError.self) { try await drafts.load("letter") }   // .unavailable(.locked), not .notFound
/// ```
///
/// The stores are those of production, on a file system and a Keychain that follow the device: what cannot be read
/// because of the lock is thrown as `.unavailable(.locked)`, never reported as absent. The device starts unlocked, with
/// a passcode and an app that was just installed.
///
/// An event that ends the app's process (``reboot()``, ``crash(_:)``, ``reinstallApp()``,
/// ``restoreFromBackup(_:toNewDevice:)``) takes everything with it that was handed out before but the secrets: its
/// calls throw, and nothing of it reaches the disk any more. Ask the device anew after it, as the app does when it is
/// started again. Nothing depends on the wall clock or on chance but the vault's nonces. All calls may come from any
/// thread at once.
public final class SimulatedDevice: Sendable {
    /// The secrets; for statuses on demand, and for what a test wants to look up.
    public let keychain: FakeKeychain

    let rules = DataProtection()
    private let options: InMemoryFileSystem.Options
    private let state: Mutex<State>

    private struct State {
        var disk: InMemoryFileSystem
        var process: DeviceFileSystem
        /// What of the disk is durable.
        var durable: CrashModel
        var quota = InMemoryFileSystem.Quota()
        var container = AppContainer()
        /// Those of the running process.
        var stores: [String: DeviceKVStore] = [:]

        /// A disk with what is on it durable, and one process.
        init(_ disk: InMemoryFileSystem, _ rules: DataProtection) {
            self.disk = disk
            process = DeviceFileSystem(disk, rules)
            durable = CrashModel(disk.image, .dropAllUnsynced)
            disk.startRecordingEffects()
        }

        /// Leaves of the disk what was synchronised, and starts a process on it.
        mutating func cutPower(_ rules: DataProtection) {
            let effects = disk.takeEffects()
            for effect in effects { durable.apply(effect) }
            guard var image = StateSpace(durable, seed: 0).durable?.image else { return }
            // Neither time nor chance goes back.
            image.randomState = disk.image.randomState
            image.advance(by: durable.effectCount * 4 + 1)
            rules.keepOnly(Set(image.nodes.map(\.number)))
            let left = State(InMemoryFileSystem(image), rules)
            (disk, process, durable) = (left.disk, left.process, left.durable)
            // The root is there, so this cannot fail.
            do throws(FileSystemError) { try disk.setQuota(quota) } catch _ {}
        }

        /// Ends the app's process and starts another; release what is returned outside of any lock.
        mutating func restartProcess(_ rules: DataProtection) -> [DeviceKVStore] {
            process.endProcess()
            process = DeviceFileSystem(disk, rules)
            defer { stores = [:] }
            return Array(stores.values)
        }
    }

    /// A device, unlocked, with an app just installed.
    ///
    /// - Parameters:
    ///   - seed: What the names of temporary files and the identities of stores follow from.
    ///   - accessGroups: The Keychain's groups that the app is entitled to.
    /// - Throws: What the disk says of the app's directories; nothing that can be foreseen.
    public init(seed: UInt64 = 0, accessGroups: [String] = ["app"]) throws {
        // As iOS has it: APFS that tells case apart.
        options = InMemoryFileSystem.Options(profile: .darwin, isNormalisationInsensitive: true, seed: seed)
        keychain = FakeKeychain(accessGroups: accessGroups)
        let disk = InMemoryFileSystem(options: options)
        try AppContainer().create(on: disk)
        state = Mutex(State(disk, rules))
    }

    // MARK: The state

    /// Whether the device is locked.
    public var lockState: LockState { rules.lock }

    /// The disk without any protection: to fill it, to fail it, to look at what is stored.
    public var disk: InMemoryFileSystem { state.withLock { $0.disk } }

    /// The files as the app's running process sees them.
    public var fileSystem: DeviceFileSystem { state.withLock { $0.process } }

    /// Where one of the app's directories is; another place after every installation.
    public func url(of directory: StandardDirectory) -> URL { URL(path(of: directory), isDirectory: true) }

    /// The same as a path.
    public func path(of directory: StandardDirectory) -> POSIXPath {
        state.withLock { $0.container.path(of: directory) }
    }

    /// The key-value store of this name, the same object until the process ends.
    func keyValueStore(
        _ name: String, making new: (DeviceFileSystem, AppContainer) -> DeviceKVStore
    ) -> DeviceKVStore {
        state.withLock { state in
            if let store = state.stores[name] { return store }
            let store = new(state.process, state.container)
            state.stores[name] = store
            return store
        }
    }
}

// MARK: The lock

extension SimulatedDevice {
    /// Locks the device, as the side button does; without effect before it was unlocked for the first time.
    public func lock() {
        // Told in time, an app gives up what it will not be able to write to.
        let stores = state.withLock { $0.stores.values.filter { $0.protection == .complete } }
        guard rules.lock == .unlocked else { return }
        for store in stores { store.release() }
        rules.lock = .locked
        keychain.lock()
    }

    /// Unlocks the device with its passcode.
    public func unlock() {
        rules.lock = .unlocked
        keychain.unlock()
    }

    /// Starts the device anew, in good order: everything written is kept, the app's process ends, and nothing that is
    /// protected can be reached before the device is unlocked.
    public func reboot() {
        endProcess()
        rules.lock = .beforeFirstUnlock
        keychain.reboot()
    }

    private func endProcess() {
        let stores = state.withLock { $0.restartProcess(rules) }
        // What they hold in memory ends with the process too.
        for store in stores { store.release() }
    }
}

// MARK: The app

extension SimulatedDevice {
    /// Removes the app and installs it again: its files are gone, and its directories are at another place; its secrets
    /// are still there, as on iOS.
    public func reinstallApp() throws(FileSystemError) {
        endProcess()
        try state.withLock { (state) throws(FileSystemError) in
            try state.disk.removeTree(state.container.path)
            state.container.number += 1
            try state.container.create(on: state.disk)
        }
    }

    /// Empties the app's directory of caches, as the system does when it wants space; the process lives on.
    public func purgeCaches() throws(FileSystemError) {
        try state.withLock { (state) throws(FileSystemError) in
            try state.container.empty(.caches, on: state.disk)
        }
    }

    /// Ends the app's process without any warning.
    ///
    /// A power cut leaves one state of all those that it may leave, the one in which the most is lost; `forEachCrash`
    /// looks at all of them. After a power cut the device is before its first unlock, as after ``reboot()``.
    public func crash(_ kind: CrashKind = .processKill) {
        endProcess()
        guard kind == .powerCut else { return }
        state.withLock { $0.cutPower(rules) }
        rules.lock = .beforeFirstUnlock
        keychain.reboot()
    }
}

// MARK: The disk

extension SimulatedDevice {
    /// Fills the disk with other people's data up to this much, counted in whole blocks of 4096 bytes.
    public func fillDisk(leaving sizeInBytes: Int64) throws(FileSystemError) {
        try state.withLock { (state) throws(FileSystemError) in
            let (limit, overflows) = try state.disk.usage().sizeInBytes.addingReportingOverflow(max(0, sizeInBytes))
            state.quota = .init(sizeInBytes: overflows ? nil : limit)
            try state.disk.setQuota(state.quota)
        }
    }

    /// Takes the other people's data away again.
    public func freeDisk() throws(FileSystemError) {
        try state.withLock { (state) throws(FileSystemError) in
            state.quota = .init()
            try state.disk.setQuota(state.quota)
        }
    }
}

// MARK: Backups

extension SimulatedDevice {
    /// A backup of everything that an encrypted backup holds: files but for caches and temporary ones, and secrets.
    public func backUp() throws(FileSystemError) -> DeviceBackup {
        let secrets = keychain.backUp()
        return try state.withLock { (state) throws(FileSystemError) in
            try DeviceBackup(of: state.container.path, on: state.disk, rules, secrets: secrets)
        }
    }

    /// Sets a device up from a backup: this one, erased, or a new one in its place. It is unlocked then, with a
    /// passcode.
    ///
    /// - Parameters:
    ///   - backup: The backup; nil for one that is made right now.
    ///   - toNewDevice: Whether it is another device, on which secrets do not arrive that are bound to theirs.
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail.
    public func restoreFromBackup(
        _ backup: DeviceBackup? = nil, toNewDevice: Bool
    ) throws(FileSystemError) {
        let backup = if let backup { backup } else { try backUp() }
        endProcess()
        try state.withLock { (state) throws(FileSystemError) in
            state.container.number += 1
            var options = options
            options.seed &+= UInt64(state.container.number)
            let disk = InMemoryFileSystem(options: options)
            rules.keepOnly([])
            try state.container.create(on: disk)
            try backup.restore(to: state.container.path, on: disk, rules)
            let container = state.container
            state = State(disk, rules)
            state.container = container
        }
        keychain.restore(backup.secrets, toNewDevice: toNewDevice)
        unlock()
    }
}
