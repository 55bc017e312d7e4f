import ForgeFileSystem
import Logging
import Synchronization

/// The one object that reads and writes a store's log, shared by all who have the store open in this process.
///
/// Two locks: writers hold theirs through the write or flush, readers only take the table's, so that nobody who reads
/// waits for the device. The writers' lock is always taken first.
final class KVEngine: Sendable {
    let place: StorePlace
    let table: ValueTable

    /// What was found when the log was opened.
    let openingIssues: [KVStoreIssue]

    private let options: FileKVStore.Options
    private let writer: Mutex<Writer>

    struct Writer {
        var log: AppendLog

        /// Why nothing can be written, if the log was found in a state that could not be repaired.
        var obstacle: KVStoreError?

        /// The out-of-date bytes at which compaction is tried again after it has failed.
        var compactionThreshold: Int64 = 0
    }

    init(_ place: StorePlace, options: FileKVStore.Options) throws(KVStoreError) {
        let table = ValueTable()
        var opening = LogOpening(place, table: table, options: options)
        writer = Mutex(try opening.run())
        openingIssues = opening.issues
        self.place = place
        self.table = table
        self.options = options
    }

    deinit {
        writer.withLock { writer in
            do throws(FileSystemError) {
                if writer.obstacle == nil { try writer.log.close() }
            } catch {
                options.logger.error("closing \(place.path): \(error)")
            }
            do { try place.fileSystem.close(writer.log.descriptor) } catch _ {}
        }
    }
}

// MARK: Writing

extension KVEngine {
    /// Stores an encoded value; returns an issue for the caller to report.
    func set(_ bytes: [UInt8], _ name: KeyName, box: ValueBox?) throws(KVStoreError) -> KVStoreIssue? {
        try write(.set(name, bytes), .set, name) { table.store(bytes, name, box: box) }
    }

    func remove(_ name: KeyName) throws(KVStoreError) -> KVStoreIssue? {
        try writer.withLock { (writer) throws(KVStoreError) in
            guard table.contains(name) else {
                try checkWritable(writer, .remove, name)
                return nil
            }
            return try write(.remove(name), .remove, name, &writer) { table.remove(name) }
        }
    }

    func removeAll() throws(KVStoreError) -> KVStoreIssue? {
        try write(.removeAll, .removeAll, nil) { table.removeAll() }
    }

    /// Pushes everything that was written to the device. Who comes while another flushes has it done by the other.
    func synchronize() throws(KVStoreError) {
        try writer.withLock { (writer) throws(KVStoreError) in
            try checkWritable(writer, .synchronize, nil)
            do throws(FileSystemError) {
                try writer.log.flush()
            } catch {
                throw KVStoreError(.durabilityUnknown, .synchronize, store: place.name, underlying: error)
            }
        }
    }

    /// Rewrites the log without what is out of date.
    func compact() throws(KVStoreError) {
        try writer.withLock { (writer) throws(KVStoreError) in
            try checkWritable(writer, .compact, nil)
            try rewrite(&writer)
        }
    }

    private func write(
        _ change: LogRecord.Change, _ operation: KVStoreError.Operation, _ name: KeyName?, _ effect: () -> Void
    ) throws(KVStoreError) -> KVStoreIssue? {
        try writer.withLock { (writer) throws(KVStoreError) in
            try write(change, operation, name, &writer, effect)
        }
    }

    private func write(
        _ change: LogRecord.Change, _ operation: KVStoreError.Operation, _ name: KeyName?, _ writer: inout Writer,
        _ effect: () -> Void
    ) throws(KVStoreError) -> KVStoreIssue? {
        try checkWritable(writer, operation, name)
        do throws(FileSystemError) {
            try writer.log.append(change)
        } catch {
            throw KVStoreError(error, operation, key: name?.string, store: place.name)
        }
        effect()
        return compactIfWorthwhile(&writer)
    }

    private func checkWritable(
        _ writer: borrowing Writer, _ operation: KVStoreError.Operation, _ name: KeyName?
    ) throws(KVStoreError) {
        guard !writer.log.isPoisoned else {
            throw KVStoreError(.unavailable(.poisoned), operation, key: name?.string, store: place.name)
        }
        guard let obstacle = writer.obstacle else { return }
        throw KVStoreError(
            .unavailable(.inputOutput), operation, key: name?.string, store: place.name, underlying: obstacle)
    }

    private func compactIfWorthwhile(_ writer: inout Writer) -> KVStoreIssue? {
        let live = table.liveBytes
        let dead = writer.log.end - Int64(LogHeader.size) - live
        guard dead > live + Int64(options.compactionFloorInBytes), dead > writer.compactionThreshold else { return nil }
        do throws(KVStoreError) {
            try rewrite(&writer)
            return nil
        } catch {
            // The write that set this off is done and stays acknowledged.
            writer.compactionThreshold = dead * 2
            return .compactionFailed(error)
        }
    }

    private func rewrite(_ writer: inout Writer) throws(KVStoreError) {
        let header = LogHeader(
            fileID: LogFileID(random: place.fileSystem.randomBits), generation: writer.log.header.generation &+ 1)
        do throws(FileSystemError) {
            let log = try AppendLog.rewriting(
                table.contents, header: header, at: place.directory, on: place.fileSystem)
            // Only now: until the directory was synchronised, a power cut could have brought the old log back.
            do { try place.fileSystem.close(writer.log.descriptor) } catch _ {}
            writer.log = log
            writer.compactionThreshold = 0
        } catch {
            if error.isEffectVisible { writer.log.poison() }
            throw KVStoreError(error, .compact, store: place.name)
        }
    }
}
