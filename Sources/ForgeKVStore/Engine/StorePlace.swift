import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// The directory of a store, held open and locked against every other process.
final class StorePlace: Sendable {
    let fileSystem: any POSIXFileSystem
    let path: POSIXPath
    let directory: Descriptor
    private let lock: Mutex<StoreLock?>
    private let lifetime: EngineLifetime

    /// The path as errors show it.
    let name: String

    var quarantine: Quarantine { Quarantine(fileSystem: fileSystem, directory: directory, path: path) }

    /// Takes over an open directory; it is closed even if this throws.
    init(
        _ directory: Descriptor, path: POSIXPath, on fileSystem: any POSIXFileSystem, lifetime: EngineLifetime
    ) throws(KVStoreError) {
        let name = String(path)
        do throws(FileSystemError) {
            lock = Mutex(try StoreLock(.exclusive, at: directory, on: fileSystem))
        } catch {
            let error = Self.failure(error, of: directory, name, on: fileSystem)
            // The lock was not had; why is what the caller needs to hear.
            do { try fileSystem.close(directory) } catch _ {}
            throw error
        }
        self.lifetime = lifetime
        self.fileSystem = fileSystem
        self.path = path
        self.directory = directory
        self.name = name
        do throws(FileSystemError) {
            try writeProcessID()
            for entry in try fileSystem.entries(of: directory) where entry.name.isLeftover {
                try fileSystem.removeEntry(entry.name, at: directory)
            }
        } catch {
            throw KVStoreError(error, .open, store: name)
        }
    }

    deinit {
        lock.withLock { $0 = nil }
        // Nothing can be done about a failure here, and nothing is lost.
        do { try fileSystem.close(directory) } catch _ {}
        lifetime.end()
    }

    private static func failure(
        _ error: FileSystemError, of directory: Descriptor, _ name: String, on fileSystem: any POSIXFileSystem
    ) -> KVStoreError {
        guard error.operation == .lock, error.errno == .resourceTemporarilyUnavailable else {
            return KVStoreError(error, .open, store: name)
        }
        var processID: Int32?
        do throws(FileSystemError) {
            let text = try fileSystem.readFile(.lockName, at: directory, maximumSizeInBytes: 64)
            processID = Int32(String(decoding: text.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
        } catch {
            processID = nil  // That the store is in use is known without.
        }
        return KVStoreError(.unavailable(.inUse(processID: processID)), .open, store: name, underlying: error)
    }

    /// How long the lock's file is: the longest number and the end of its line.
    private static let processIDLength = 12

    /// Writes who holds the lock into its file, for those who come too late.
    ///
    /// The line is followed by spaces, so that no process does anything else than another but for the digits.
    private func writeProcessID() throws(FileSystemError) {
        var text = Array("\(ProcessInfo.processInfo.processIdentifier)\n".utf8)
        text += [UInt8](repeating: UInt8(ascii: " "), count: max(0, Self.processIDLength - text.count))
        let file = try fileSystem.open(.lockName, at: directory, .writeOnly, options: [.noFollow])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.truncate(.descriptor(file), to: 0)
            try fileSystem.writeBytes(text, to: file, at: 0)
        }
    }
}
