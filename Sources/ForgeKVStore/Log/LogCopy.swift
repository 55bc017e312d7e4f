package import ForgeFileSystem
import SystemPackage

/// Writes the log of a new store, for a copy of one: without a table, so that the copy needs no memory for what is
/// written already.
package struct LogCopy: ~Copyable {
    private var log: AppendLog
    private let directory: Descriptor
    private let fileSystem: any POSIXFileSystem
    private let name: String

    /// Creates the log in an existing directory.
    ///
    /// - Throws: ``KVStoreError``.
    package init(
        in directory: POSIXPath, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(KVStoreError) {
        name = String(directory)
        self.fileSystem = fileSystem
        do throws(FileSystemError) {
            let descriptor = try fileSystem.open(directory, .readOnly, options: [.directory])
            do throws(FileSystemError) {
                let header = LogHeader(fileID: LogFileID(random: fileSystem.randomBits), generation: 1)
                var new = try LogReplacement(header, at: descriptor, on: fileSystem)
                log = try new.moveIntoPlace(LogSpace.Options(isMapped: false))
            } catch {
                fileSystem.discard(descriptor)
                throw error
            }
            self.directory = descriptor
        } catch {
            throw KVStoreError(error, .open, store: name)
        }
    }

    deinit { fileSystem.discard(directory) }

    /// Adds the changes of a batch as one record.
    ///
    /// - Throws: ``KVStoreError``; the log is as it was.
    package mutating func append(_ batch: KVBatch) throws(KVStoreError) {
        let prepared = try PreparedBatch(batch, valueLimit: .max, store: name)
        do throws(FileSystemError) {
            if let change = prepared.onlyChange {
                try unsafe change.name.withBytes { (name) throws(FileSystemError) in
                    try unsafe (change.bytes ?? []).withBytes { (bytes) throws(FileSystemError) in
                        _ = try unsafe log.append(change.bytes == nil ? .remove : .set, name, bytes)
                    }
                }
            } else if prepared.count > 0 {
                try unsafe prepared.content.withBytes { (content) throws(FileSystemError) in
                    _ = try unsafe log.append(.batch, .empty, content, count: prepared.count)
                }
            }
        } catch {
            throw KVStoreError(error, .batch, store: name)
        }
    }

    /// Ends the log as a closed store leaves it, durably.
    ///
    /// - Throws: ``KVStoreError``.
    package mutating func finish() throws(KVStoreError) {
        do throws(FileSystemError) {
            let flush = log.startFlush(directory: directory)
            try flush.run()
            log.didFlush(flush)
            if !log.endsFlushed { _ = try log.append(.flushed) }
            try log.trim()
            try fileSystem.synchronize(log.file.descriptor, .full)
        } catch {
            throw KVStoreError(error, .synchronize, store: name)
        }
    }
}
