import ForgeStorage
import Synchronization
import SystemPackage

/// Makes the many files of one command durable: by one flush at the end of each file system that holds some of them,
/// where the operating system can wait for that.
final class BulkFlush: Sendable {
    #if os(Linux)
    /// The durability of each file.
    static let durability = Durability.none
    #else
    /// The durability of each file: no call waits until a whole file system is on the device.
    static let durability = Durability.full
    #endif

    private let fileSystem = SystemFileSystem()
    /// An open directory of each file system, by device.
    private let directories = Mutex<[UInt64: Descriptor]>([:])

    deinit {
        for directory in directories.withLock({ $0.values }) { fileSystem.discard(directory) }
    }

    /// Includes the file system of an existing directory into which files are written.
    func include(_ directory: POSIXPath) throws(FileSystemError) {
        guard Self.durability == .none else { return }
        let device = try fileSystem.status(directory).device
        try directories.withLock { (directories) throws(FileSystemError) in
            guard directories[device] == nil else { return }
            directories[device] = try fileSystem.open(directory, .readOnly, options: [.directory])
        }
    }

    /// Waits until every file is on its device.
    ///
    /// - Throws: `FileSystemError` if anything could not be written.
    func finish() throws(FileSystemError) {
        #if os(Linux)
        for directory in directories.withLock({ Array($0.values) }) {
            try fileSystem.synchronizeFileSystem(of: directory)
        }
        #endif
    }
}
