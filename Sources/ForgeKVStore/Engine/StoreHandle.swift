import ForgeFileSystem
import Synchronization
import SystemPackage

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
            switch options.sharing {
            case .exclusive:
                let own = try StoreLock(.exclusive, at: directory, on: fileSystem)
                guard try SharedPage.user(at: directory, on: fileSystem, options.processes) == nil else {
                    throw FileSystemError(.lock, .resourceTemporarilyUnavailable, path: .lockName)
                }
                try fileSystem.lockStoreDirectory(directory, .exclusive)
                lock = Mutex(own)
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
