import ForgeFileStore
public import ForgeFileSystem
public import ForgeStorageTesting
public import Foundation
import Synchronization
import SystemPackage

/// An in-memory device with one app: files, key-value stores, secrets and sessions that share its lock state, storage
/// and lifetime events.
///
/// ```swift
/// let device = try SimulatedDevice()
/// let drafts = device.fileStore(namespace: "drafts", fileProtection: .complete)
/// try await drafts.save(text, to: "letter")
/// device.lock()
/// await #expect(throws: FileStoreError.self) { try await drafts.load("letter") }  // .unavailable(.locked)
/// ```
///
/// The stores are those of production, on a file system and a Keychain that follow the device's state: an item that is
/// unreadable because of the lock throws `.unavailable(.locked)` and is never reported as absent. The device starts
/// unlocked, with a passcode and a newly installed app.
///
/// An event that ends the app's process (``reboot()``, ``crash(_:)``, ``updateApp()``, ``reinstallApp()``,
/// ``purgeTemporaryFiles()``, ``restoreFromBackup(_:toNewDevice:)``) invalidates all objects obtained before it except
/// secrets: their calls, including waiting ones, throw and have no effect on the disk, and their streams end. Obtain new
/// objects after the event, as a restarted app does. One stream does not end by itself: that of a `FileKVStore` which the
/// test has opened on ``fileSystem``. Such a store makes no call while a stream waits, and so cannot learn of the event:
/// cancel the task of the stream, or use ``keyValueStore(named:fileProtection:)``.
///
/// Behaviour does not depend on the wall clock or on randomness, except for the vault's nonces. All calls are
/// thread-safe.
///
/// Not simulated: `UserDefaults`, which on iOS is unreadable before the first unlock and belongs to a process of its
/// own; prewarmed launches, suspension and the watchdog; memory pressure; several apps; iCloud; and the delay between a
/// lock and the removal of the class keys. See ``DeviceFileSystem``, ``DeviceBackup`` and `FakeKeychain` for what those
/// leave out.
public final class SimulatedDevice: Sendable {
    /// The secrets, also for injected statuses and for inspection by tests.
    public let keychain: FakeKeychain

    let rules = DataProtection()
    private let options: InMemoryFileSystem.Options
    private let state: Mutex<State>

    private struct State {
        var disk: InMemoryFileSystem
        var process: DeviceFileSystem
        /// The durable part of the disk.
        var durable: CrashModel
        var quota = InMemoryFileSystem.Quota()
        var container = AppContainer()
        /// The processes of extensions.
        var extensions: [DeviceFileSystem] = []
        /// The stores of the running process.
        var stores: [String: DeviceKVStore] = [:]

        /// The state of a disk whose content is durable, with one process.
        init(_ disk: InMemoryFileSystem, _ rules: DataProtection) {
            self.disk = disk
            process = DeviceFileSystem(disk, rules)
            durable = CrashModel(disk.image, .dropAllUnsynced)
            disk.startRecordingEffects()
        }

        /// Reduces the disk to its synchronised state, and starts a process on it.
        mutating func cutPower(_ rules: DataProtection) {
            let effects = disk.takeEffects()
            for effect in effects { durable.apply(effect) }
            guard var image = StateSpace(durable, seed: 0).durable?.image else { return }
            // The clock and the random generator are not reset.
            image.randomState = disk.image.randomState
            image.advance(by: durable.effectCount * 4 + 1)
            let remaining = State(InMemoryFileSystem(image), rules)
            (disk, process, durable) = (remaining.disk, remaining.process, remaining.durable)
            // The root directory exists, so this cannot fail.
            do throws(FileSystemError) { try disk.setQuota(quota) } catch _ {}
        }

        /// Ends the app's process and starts another; release the returned stores outside of any lock.
        mutating func restartProcess(_ rules: DataProtection) -> [DeviceKVStore] {
            process.endProcess()
            process = DeviceFileSystem(disk, rules)
            defer { stores = [:] }
            return Array(stores.values)
        }

        mutating func endExtensions() {
            for process in extensions { process.endProcess() }
            extensions = []
        }
    }

    /// A device, unlocked, with a newly installed app.
    ///
    /// - Parameters:
    ///   - seed: The seed for the names of temporary files and the identities of stores.
    ///   - accessGroups: The Keychain access groups that the app is entitled to.
    /// - Throws: The error of the disk when the app's directories are created; none is expected.
    public init(seed: UInt64 = 0, accessGroups: [String] = ["app"]) throws {
        // As on iOS: case-sensitive APFS.
        options = InMemoryFileSystem.Options(
            profile: .darwin, isNormalisationInsensitive: true, maximumOpenFileCount: 256, seed: seed)
        keychain = FakeKeychain(accessGroups: accessGroups)
        let disk = InMemoryFileSystem(options: options)
        try AppContainer().create(on: disk)
        state = Mutex(State(disk, rules))
    }

    // MARK: The state

    /// The lock state.
    public var lockState: LockState { rules.lock }

    /// The disk without protection, to fill it, make it fail, or inspect it.
    public var disk: InMemoryFileSystem { state.withLock { $0.disk } }

    /// The files as the app's running process sees them.
    public var fileSystem: DeviceFileSystem { state.withLock { $0.process } }

    /// The URL of one of the app's directories; it changes with every installation.
    public func url(of directory: StandardDirectory) -> URL { URL(path(of: directory), isDirectory: true) }

    /// The path of one of the app's directories.
    public func path(of directory: StandardDirectory) -> POSIXPath {
        state.withLock { $0.container.path(of: directory) }
    }

    /// The path of the container of the app group, which the app and its extensions share.
    public var groupPath: POSIXPath { AppContainer.group }

    /// Starts a process of an extension of the app, such as a widget, and returns its view of the files.
    ///
    /// The process ends with the device's power, an update, a reinstallation or a restore, but not with the app's
    /// process, and by ``endExtension(_:)``. Not simulated: its own container and its own Keychain access groups.
    public func startExtension() -> DeviceFileSystem {
        state.withLock { state in
            let process = DeviceFileSystem(state.disk, rules)
            state.extensions.append(process)
            return process
        }
    }

    /// Ends the process of an extension without warning, as the system does at any time.
    public func endExtension(_ process: DeviceFileSystem) {
        state.withLock { state in state.extensions.removeAll { $0 === process } }
        process.endProcess()
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
    /// Locks the device, as the side button does; has no effect before the first unlock or without a passcode.
    public func lock() {
        // An app is notified before the lock, and closes the files that become inaccessible.
        let stores = state.withLock { $0.stores.values.filter { $0.protection == .complete } }
        guard rules.lock == .unlocked, keychain.hasPasscode else { return }
        for store in stores { store.release() }
        rules.lock = .locked
        keychain.lock()
    }

    /// Unlocks the device with its passcode.
    public func unlock() {
        rules.lock = .unlocked
        keychain.unlock()
    }

    /// Removes the passcode, in the settings of the unlocked device: the device cannot be locked any more, all classes
    /// of protection permit everything, and secrets that require a passcode are removed.
    public func removePasscode() {
        rules.lock = .unlocked
        keychain.removePasscode()
    }

    /// Sets a passcode, in the settings of the unlocked device.
    public func setPasscode() {
        rules.lock = .unlocked
        keychain.setPasscode()
    }

    /// Restarts the device in an orderly way: everything written is kept, all processes end, and protected content is
    /// inaccessible until the device is unlocked; without a passcode it is unlocked at once.
    public func reboot() {
        endProcess()
        endPower()
    }

    private func endPower() {
        state.withLock { $0.endExtensions() }
        rules.lock = keychain.hasPasscode ? .beforeFirstUnlock : .unlocked
        keychain.reboot()
    }

    private func endProcess() {
        let stores = state.withLock { $0.restartProcess(rules) }
        // Their memory is released with the process.
        for store in stores { store.end() }
    }
}

// MARK: The app

extension SimulatedDevice {
    /// Updates the app: its process and its extensions end, its directories get new paths, and everything is kept.
    ///
    /// An absolute path that the app has stored is then invalid.
    ///
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail.
    public func updateApp() throws(FileSystemError) {
        endProcess()
        try state.withLock { (state) throws(FileSystemError) in
            state.endExtensions()
            try state.container.move(on: state.disk)
        }
    }

    /// Removes the app and installs it again: its files and those of its app group are removed, its directories get new
    /// paths, and its secrets are kept, as on iOS.
    ///
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail; some files may be removed then.
    public func reinstallApp() throws(FileSystemError) {
        endProcess()
        try state.withLock { (state) throws(FileSystemError) in
            state.endExtensions()
            try state.disk.removeTree(state.container.path)
            try state.disk.removeTree(AppContainer.group)
            state.container.number += 1
            try state.container.create(on: state.disk)
        }
    }

    /// Empties the app's caches directory, as the system does when storage is low; the process continues.
    ///
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail; some files may be removed then.
    public func purgeCaches() throws(FileSystemError) {
        try state.withLock { (state) throws(FileSystemError) in
            try AppContainer.empty(state.container.path(of: .caches), on: state.disk)
        }
    }

    /// Empties the app's directory for temporary files, as the system does while the app does not run: its process
    /// ends.
    ///
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail; some files may be removed then.
    public func purgeTemporaryFiles() throws(FileSystemError) {
        endProcess()
        try state.withLock { (state) throws(FileSystemError) in
            try AppContainer.empty(state.container.path.appending("tmp"), on: state.disk)
        }
    }

    /// Ends the app's process without warning.
    ///
    /// A power cut leaves the state with the greatest loss; `forEachCrash` explores all possible states. The lock
    /// state after a power cut is that after ``reboot()``.
    public func crash(_ kind: CrashKind = .processKill) {
        endProcess()
        guard kind == .powerCut else { return }
        endPower()
        state.withLock { $0.cutPower(rules) }
    }
}

// MARK: The disk

extension SimulatedDevice {
    /// Fills the disk with other data until `sizeInBytes` are free, in whole blocks of 4096 bytes.
    ///
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail.
    public func fillDisk(leaving sizeInBytes: Int64) throws(FileSystemError) {
        try state.withLock { (state) throws(FileSystemError) in
            let (limit, overflows) = try state.disk.usage().sizeInBytes.addingReportingOverflow(max(0, sizeInBytes))
            state.quota = .init(sizeInBytes: overflows ? nil : limit)
            try state.disk.setQuota(state.quota)
        }
    }

    /// Removes the data that ``fillDisk(leaving:)`` added.
    ///
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail.
    public func freeDisk() throws(FileSystemError) {
        try state.withLock { (state) throws(FileSystemError) in
            state.quota = .init()
            try state.disk.setQuota(state.quota)
        }
    }
}

// MARK: Backups

extension SimulatedDevice {
    /// Makes a backup: secrets, and files except caches, temporary and excluded ones.
    ///
    /// - Parameter encrypted: Whether the backup is encrypted. The secrets of an unencrypted backup can be read only on
    ///   this device.
    /// - Returns: The backup.
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail.
    public func backUp(encrypted: Bool = true) throws(FileSystemError) -> DeviceBackup {
        let secrets = keychain.backUp(encrypted: encrypted)
        return try state.withLock { (state) throws(FileSystemError) in
            try DeviceBackup(of: state.container.path, on: state.disk, rules, secrets: secrets)
        }
    }

    /// Erases this device, or replaces it by a new one, and restores a backup to it.
    ///
    /// The app's processes end. The device has a passcode and is unlocked afterwards.
    ///
    /// - Parameters:
    ///   - backup: The backup; nil makes one first.
    ///   - toNewDevice: Whether to restore to a new device. Device-bound secrets are restored only to the device that
    ///     made the backup.
    /// - Throws: `FileSystemError` of the disk, if a test has made it fail.
    public func restoreFromBackup(
        _ backup: DeviceBackup? = nil, toNewDevice: Bool
    ) throws(FileSystemError) {
        let backup = if let backup { backup } else { try backUp() }
        endProcess()
        try state.withLock { (state) throws(FileSystemError) in
            state.endExtensions()
            state.container.number += 1
            var options = options
            options.seed &+= UInt64(state.container.number)
            let disk = InMemoryFileSystem(options: options)
            rules.removeAll()
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

/// The lock state of a device, on which access to protected files and secrets depends.
public enum LockState: String, Hashable, Sendable, CaseIterable {
    /// The device has not been unlocked since it started.
    case beforeFirstUnlock

    /// The device has been unlocked since it started, and is locked now.
    case locked

    /// The device is unlocked.
    case unlocked
}

/// The lock state of a device, and the protection class of every file and directory on it.
///
/// The rules are those of Data Protection (Apple Platform Security, "Data Protection classes"), with one
/// simplification: the key of the class `complete` is discarded when the device is locked, not ten seconds later.
final class DataProtection: Sendable {
    /// A use of a file's content.
    enum Use {
        case creating, opening
        /// Reading or writing through an open descriptor.
        case accessing
    }

    private struct State {
        var lock = LockState.unlocked
        /// Classes by the identity of the file, which is never reused and survives a power cut; a missing file has the
        /// default class.
        var classes: [UInt64: FileProtection] = [:]
    }

    /// The default class of an app's files on iOS.
    static let standard = FileProtection.completeUntilFirstUserAuthentication

    private let state = Mutex(State())

    var lock: LockState {
        get { state.withLock { $0.lock } }
        set { state.withLock { $0.lock = newValue } }
    }

    /// The class of a file or directory, by its identity.
    subscript(identity: UInt64) -> FileProtection {
        get { state.withLock { $0.classes[identity] ?? Self.standard } }
        set { state.withLock { $0.classes[identity] = newValue == Self.standard ? nil : newValue } }
    }

    /// Removes all classes, for a new disk, whose files have the same identities.
    func removeAll() {
        state.withLock { $0.classes = [:] }
    }

    /// Whether the lock state permits a use of the content of a file of a class.
    func allows(_ use: Use, _ protection: FileProtection) -> Bool {
        let lock = lock
        guard lock != .unlocked else { return true }
        return switch protection {
        case .none: true
        case .complete: false
        // Sealing needs only the public key of the class, which is always available.
        case .completeUnlessOpen: use != .opening
        case .completeUntilFirstUserAuthentication: lock == .locked
        }
    }
}

/// The directories of an app on a simulated device, below a container that every installation creates.
struct AppContainer: Hashable, Sendable {
    /// The number of the installation, counted from 1.
    var number = 1

    /// The directories that the system creates with the container, parents first.
    private static let directories: [POSIXPath] = [
        "Documents", "Library", "Library/Application Support", "Library/Caches", "tmp",
    ]

    /// The directories that backups omit.
    static let withoutBackup: [POSIXPath] = ["Library/Caches", "tmp"]

    /// The directory of all containers, whose names the system keeps durable.
    private static let parent: POSIXPath = "/var/mobile/Containers/Data/Application"

    /// The container of the app group, which updates of the app do not move.
    static let group: POSIXPath = "/var/mobile/Containers/Shared/AppGroup/1"

    var path: POSIXPath { Self.parent.appending(POSIXPath("\(number)")) }

    func path(of directory: StandardDirectory) -> POSIXPath {
        switch directory {
        case .documents: path.appending("Documents")
        case .applicationSupport: path.appending("Library/Application Support")
        case .caches: path.appending("Library/Caches")
        }
    }

    func create(on disk: InMemoryFileSystem) throws(FileSystemError) {
        // The system makes the directories of an installed app durable.
        for directory in Self.directories { try disk.makeDirectories(path.appending(directory)) }
        try disk.makeDirectories(Self.group)
    }

    /// Gives the container of an updated app a new path.
    mutating func move(on disk: InMemoryFileSystem) throws(FileSystemError) {
        let old = path
        number += 1
        try disk.rename(old, to: path)
        let descriptor = try disk.openDirectory(Self.parent)
        defer { disk.discard(descriptor) }
        try disk.synchronize(descriptor, .full)
    }

    static func empty(_ directory: POSIXPath, on disk: InMemoryFileSystem) throws(FileSystemError) {
        let descriptor = try disk.openDirectory(directory)
        defer { disk.discard(descriptor) }
        for entry in try disk.entries(of: descriptor) { try disk.removeEntry(entry.name, at: descriptor) }
    }
}
