import ForgeFileSystem
import Synchronization
import SystemPackage

/// The stores that are open in this process: opening one that is open already gives the same engine.
///
/// This is global state, because two engines on one log would need the same file lock twice: a lock of a file belongs to an open file, so two
/// engines on one log could not both hold it. Its mutex is held for looking things up only; a store is opened and
/// closed outside of it, while other calls for the same store wait for that store alone.
enum EngineRegistry {
    private static let engines = Mutex(Engines())

    /// A directory, and the file system that the numbers are of.
    private struct Identity: Hashable {
        var fileSystem: ObjectIdentifier
        var device: UInt64
        var inode: UInt64
    }

    /// A store that is being opened, is open, or is being closed.
    private struct Registered {
        /// Set when the store is open; nil again when the last object for it is gone.
        weak var use: EngineUse?

        /// Happens when opening has ended, with or without success.
        let opened = OneTimeEvent()

        /// Happens when the store is closed.
        let closed: OneTimeEvent

        /// Whether a child was forked since: it cannot use the engine.
        let fork = ForkDetector()
    }

    private struct Engines {
        var byIdentity: [Identity: Registered] = [:]

        /// The count at which closed stores are removed: twice the number of those that were open at the last removal,
        /// so that opening one of many stores does not look at all others.
        private var removalCount = 16

        mutating func add(_ registered: Registered, _ identity: Identity) {
            if byIdentity.count >= removalCount {
                // The event is asked and not the use: a use that is looked at is retained meanwhile, and if it ends
                // then, the store is closed in this thread, under the mutex.
                byIdentity = byIdentity.filter { !$0.value.closed.hasHappened }
                removalCount = max(16, 2 * byIdentity.count)
            }
            byIdentity[identity] = registered
        }
    }

    /// Opens the store in a directory, which is created durably if it is missing.
    static func open(
        _ path: POSIXPath, options: FileKVStore.Options, on fileSystem: any POSIXFileSystem
    ) throws(KVStoreError) -> EngineUse {
        guard options.access == .readWrite else {
            let handle = try StoreHandle(reading: path, on: fileSystem, options: options)
            return EngineUse(of: try KVEngine(handle, options: options))
        }
        return try open(
            try openDirectory(path, options: options, on: fileSystem), path, options: options, on: fileSystem)
    }

    /// Opens the store in an open directory for writing. Takes over the directory; it is closed even if this throws.
    static func open(
        _ directory: Descriptor, _ path: POSIXPath, options: FileKVStore.Options, on fileSystem: any POSIXFileSystem
    ) throws(KVStoreError) -> EngineUse {
        guard let identity = try identity(of: directory, path, on: fileSystem) else {
            return try openEngine(directory, path, options, fileSystem, closed: OneTimeEvent())
        }
        while true {
            // Released outside the mutex: the last reference to a closed engine releases objects of the app with it.
            var seen: EngineUse?
            defer { withExtendedLifetime(seen) {} }
            switch engines.withLock({ claim(identity, in: &$0, &seen) }) {
            case .claimed(let registered):
                // Waiting threads look again, and open the store themselves if this fails.
                defer { registered.opened.signal() }
                do throws(KVStoreError) {
                    let use = try openEngine(directory, path, options, fileSystem, closed: registered.closed)
                    engines.withLock { $0.byIdentity[identity]?.use = use }
                    return use
                } catch {
                    engines.withLock { $0.byIdentity[identity] = nil }
                    throw error
                }
            case .open(let use):
                fileSystem.discard(directory)
                let other = use.engine.options
                guard other.sharing == options.sharing, !other.isOnlyUse, !options.isOnlyUse else {
                    throw KVStoreError(
                        .unavailable(.inUse(processID: options.processes.own.id)), .open, store: String(path))
                }
                return use
            case .waiting(let event): event.wait()
            }
        }
    }

    private enum Claim {
        /// The caller opens the store.
        case claimed(Registered)
        case open(EngineUse)
        /// Another thread is opening or closing it.
        case waiting(OneTimeEvent)
    }

    /// `seen` is set to the use of a store that is open or closed already.
    private static func claim(_ identity: Identity, in engines: inout Engines, _ seen: inout EngineUse?) -> Claim {
        if let registered = engines.byIdentity[identity], !registered.fork.isForkedChild {
            seen = registered.use
            if let seen, !seen.engine.isClosed { return .open(seen) }
            if !registered.opened.hasHappened { return .waiting(registered.opened) }
            if !registered.closed.hasHappened { return .waiting(registered.closed) }
        }
        let registered = Registered(closed: OneTimeEvent())
        engines.add(registered, identity)
        return .claimed(registered)
    }

    private static func openEngine(
        _ directory: Descriptor, _ path: POSIXPath, _ options: FileKVStore.Options,
        _ fileSystem: any POSIXFileSystem, closed: OneTimeEvent
    ) throws(KVStoreError) -> EngineUse {
        let handle = try StoreHandle(directory, path: path, on: fileSystem, options: options, closed: closed)
        return EngineUse(of: try KVEngine(handle, options: options))
    }

    /// Opens the directory of a store, which is created durably if it is missing.
    private static func openDirectory(
        _ path: POSIXPath, options: FileKVStore.Options, on fileSystem: any POSIXFileSystem
    ) throws(KVStoreError) -> Descriptor {
        do throws(FileSystemError) {
            try fileSystem.makeStoreDirectories(path)
            let directory = try fileSystem.open(path, .readOnly, options: [.directory], permissions: [])
            guard options.isExcludedFromBackup else { return directory }
            do throws(FileSystemError) {
                try fileSystem.excludeFromBackup(directory)
                return directory
            } catch {
                fileSystem.discard(directory)
                throw error
            }
        } catch {
            throw KVStoreError(error, .open, store: String(path))
        }
    }

    /// The identity of an open directory; nil if the file system object has none. If this throws, the directory is
    /// closed.
    private static func identity(
        of directory: Descriptor, _ path: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(KVStoreError) -> Identity? {
        guard let number = number(of: fileSystem) else { return nil }
        do throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(directory))
            return Identity(fileSystem: number, device: status.device, inode: status.inode)
        } catch {
            fileSystem.discard(directory)
            throw KVStoreError(error, .open, store: String(path))
        }
    }

    /// The identity of a file system; nil for a value type, of which two equal values may be two file systems.
    private static func number(of fileSystem: any POSIXFileSystem) -> ObjectIdentifier? {
        if fileSystem is SystemFileSystem { return ObjectIdentifier(SystemFileSystem.self) }
        guard type(of: fileSystem) is AnyObject.Type else { return nil }
        return ObjectIdentifier(fileSystem as AnyObject)
    }
}

/// Shared by all objects of the app over one engine: when the last of them is released, the store is closed.
///
/// The engine itself is never referred to weakly, which would make every use of it slower.
final class EngineUse: Sendable {
    let engine: KVEngine

    init(of engine: KVEngine) {
        self.engine = engine
    }

    deinit {
        engine.closeOrLog()
    }
}

/// The directory of a store, held open, and locked against every other process or shared with others.
final class StoreHandle: Sendable {
    let fileSystem: any POSIXFileSystem
    let path: POSIXPath
    let directory: Descriptor
    private let lock: Mutex<StoreLock?>
    private let processes: ProcessTable
    private let closed: OneTimeEvent
    private let fork = ForkDetector()
    private let isHeld = Atomic(true)

    /// State for sharing; nil for an exclusive store.
    let sharing: EngineSharing?

    /// The path as errors show it.
    let name: String

    var removalReserve: RemovalReserve { RemovalReserve(fileSystem: fileSystem, directory: directory) }

    var quarantine: Quarantine { Quarantine(fileSystem: fileSystem, directory: directory, path: path) }

    /// Takes over an open directory; it is closed even if this throws.
    ///
    /// For a shared store, this takes its lock; the caller releases it once the store is open.
    init(
        _ directory: Descriptor, path: POSIXPath, on fileSystem: any POSIXFileSystem, options: FileKVStore.Options,
        closed: OneTimeEvent
    ) throws(KVStoreError) {
        let name = String(path)
        processes = options.processes
        do throws(FileSystemError) {
            try fileSystem.requireFree(directory, for: .keyValue)
            switch options.sharing {
            case .exclusive:
                lock = Mutex(try fileSystem.lockKVStore(directory, options.processes))
                sharing = nil
            case .shared:
                lock = Mutex(nil)
                sharing = try EngineSharing(at: directory, on: fileSystem, options)
            }
        } catch {
            let error = Self.failure(error, of: directory, name, on: fileSystem, options.processes)
            // Report why opening failed, not a failure of this close.
            do { try fileSystem.close(directory) } catch _ {}
            throw error
        }
        self.closed = closed
        self.fileSystem = fileSystem
        self.path = path
        self.directory = directory
        self.name = name
        do throws(FileSystemError) {
            if sharing == nil { try writeProcessID() }
            LogTemporaryFile.removeLeftovers(at: directory, on: fileSystem, processes)
            try fileSystem.markIfSpace(
                directory, as: .keyValue, temporary: StoreMarker.temporaryName(of: .keyValue))
        } catch {
            sharing?.lock.release()
            throw KVStoreError(error, .open, store: name)
        }
    }

    /// Opens an existing directory for reading, without a lock; nothing in it is changed.
    init(
        reading path: POSIXPath, on fileSystem: any POSIXFileSystem, options: FileKVStore.Options
    ) throws(KVStoreError) {
        name = String(path)
        do throws(FileSystemError) {
            directory = try fileSystem.open(path, .readOnly, options: [.directory], permissions: [])
        } catch {
            throw error.errno == .noSuchFileOrDirectory
                ? KVStoreError(.noStore, .open, store: String(path), underlying: error)
                : KVStoreError(error, .open, store: String(path))
        }
        self.fileSystem = fileSystem
        self.path = path
        processes = options.processes
        lock = Mutex(nil)
        sharing = nil
        closed = OneTimeEvent()
    }

    /// Unlocks the store for other processes, and lets threads that wait for its end open it again.
    ///
    /// Descriptors stay open, for reads that are under way.
    ///
    /// - Parameter whileAlone: Called when no call of this process holds the lock of a shared store, before it leaves
    ///   the shared page.
    func release(_ whileAlone: () -> Void = {}) {
        guard isHeld.exchange(false, ordering: .acquiringAndReleasing) else { return }
        // Unlock the directory before `#lock`: others acquire `#lock` first and then the directory. Closing would
        // unlock it only with the last copy of the descriptor, and a process that is being started has one.
        if lock.withLock({ $0 != nil }) {
            do { try fileSystem.lockStoreDirectory(directory, .unlocked) } catch _ {}
        }
        lock.withLock { $0 = nil }
        if let sharing { sharing.leave(whileAlone) } else { whileAlone() }
        closed.signal()
    }

    deinit {
        if fork.isForkedChild {
            lock.withLock { $0 = nil }
            closed.signal()
        } else {
            release()
        }
        sharing?.close()
        // Nothing can be done about a failure here, and nothing is lost.
        do { try fileSystem.close(directory) } catch _ {}
    }

    private static func failure(
        _ error: FileSystemError, of directory: Descriptor, _ name: String, on fileSystem: any POSIXFileSystem,
        _ processes: ProcessTable
    ) -> KVStoreError {
        guard error.errno != .resourceBusy else {
            return KVStoreError(
                .refused, .open, store: name, detail: "the directory belongs to another store", underlying: error)
        }
        guard error.operation == .lock, error.errno == .resourceTemporarilyUnavailable else {
            return KVStoreError(error, .open, store: name)
        }
        let processID = holder(of: directory, on: fileSystem, processes)
        return KVStoreError(.unavailable(.inUse(processID: processID)), .open, store: name, underlying: error)
    }

    /// The process ID of a process that has the store open.
    private static func holder(
        of directory: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) -> Int32? {
        do throws(FileSystemError) {
            let text = try fileSystem.readFile(.lockName, at: directory, maximumSizeInBytes: 64)
            let number = Int32(String(decoding: text.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
            if let number { return number }
            return try SharedPage.user(at: directory, on: fileSystem, processes)
        } catch {
            return nil  // That the store is in use is known without.
        }
    }

    /// The file that the name `log` leads to. Without its times: see ``BriefFileStatus``.
    func statusOfLog() throws(FileSystemError) -> BriefFileStatus {
        try fileSystem.briefStatus(of: .path(.logName, at: directory, followsSymbolicLinks: false))
    }

    /// The process ID of the only other process that shares the store; nil if it is not known which one holds the lock.
    var otherProcess: Int32? {
        do throws(FileSystemError) {
            let others = try sharing?.page.others() ?? []
            return others.count == 1 ? others[0].id : nil
        } catch {
            return nil  // That the store is in use is known without.
        }
    }

    /// The length of `#lock`: room for the longest process ID and a line feed.
    private static let processIDLength = 12

    /// Writes the ID of this process into `#lock`, for the error of a process that finds the store in use.
    ///
    /// Spaces follow the line, so that the text has the same length in every process.
    private func writeProcessID() throws(FileSystemError) {
        var text = Array("\(processes.own.id)\n".utf8)
        text += [UInt8](repeating: UInt8(ascii: " "), count: max(0, Self.processIDLength - text.count))
        try lock.withLock { (lock) throws(FileSystemError) in try lock?.write(text) }
    }
}
