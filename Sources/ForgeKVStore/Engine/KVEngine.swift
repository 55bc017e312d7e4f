import Dispatch
import ForgeCoding
import ForgeFileSystem
import Logging
import Synchronization

/// The one object that reads and writes a store's log, shared by all who have the store open in this process.
///
/// Who reads what the table holds takes no lock at all. Three locks, always taken in this order: who rewrites the log holds
/// `rewriting` throughout, who flushes it has his turn in `flushing`, and who changes it holds `writer`, which is never held
/// while the device is waited for.
final class KVEngine: Sendable {
    let place: StorePlace
    let table: ValueTable
    let options: FileKVStore.Options

    /// What was found when the log was opened.
    let openingIssues: [KVStoreIssue]

    let writer: Mutex<Writer>
    let flushing = FlushQueue()
    let rewriting = Mutex(())

    /// What is done in other threads.
    let background = DispatchGroup()

    struct Writer: ~Copyable, Sendable {
        var log: AppendLog
        var table: TableWriter
        var encoder = PlainEncoder()

        /// Why nothing can be written, if the log was found in a state that could not be repaired.
        var obstacle: KVStoreError?

        /// The out-of-date bytes at which rewriting is tried again after it has failed; out of reach while somebody is at it.
        var rewritingThreshold: Int64 = 0

        /// The index that leads to what the table does not hold yet.
        var index: LogIndex?

        /// Where what no index knows begins, and the log's end at which an index is worth its writing.
        var indexedEnd: Int64 = 0
        var indexesAt: Int64

        var isWritable: Bool { obstacle == nil && !log.isPoisoned }
    }

    init(_ place: StorePlace, options: FileKVStore.Options) throws(KVStoreError) {
        defer { place.sharing?.lock.giveBack() }
        var options = options
        if place.sharing != nil {
            // What others may cut short must not be stored into.
            options.isMapped = false
            // What others append is read into the table, which then holds everything.
            options.usesIndex = false
        }
        let table = ValueTable()
        var opening = LogOpening(place, table: table, options: options)
        var opened = try opening.run()
        try Self.share(&opened, at: place)
        openingIssues = opening.issues
        writer = Mutex(
            Writer(
                log: opened.log, table: opening.table, obstacle: opened.obstacle, index: opened.index,
                indexedEnd: opened.indexedEnd, indexesAt: Self.indexesAt(opened.indexedEnd, options)))
        self.place = place
        self.table = table
        self.options = options
    }
}

// MARK: In the background

extension KVEngine {
    private static let isBackground = DispatchSpecificKey<Bool>()

    private static let queue = {
        let queue = DispatchQueue(label: "ForgeKVStore", qos: .utility, attributes: .concurrent)
        queue.setSpecific(key: isBackground, value: true)
        return queue
    }()

    /// Does something in another thread.
    ///
    /// It does not keep the engine alive, nor may it be gone: ``close()`` waits for it. A weak reference would make every
    /// use of the engine slower from then on.
    func inBackground(_ work: @escaping @Sendable (KVEngine) -> Void) {
        Self.queue.async(group: background) { [unowned(unsafe) self] in work(self) }
    }
}

// MARK: The end

extension KVEngine {
    /// Makes everything durable that was written, when nobody uses the store any more.
    func close() {
        // Who is told of an issue there may let the store go, and what is done there cannot wait for itself.
        guard DispatchQueue.getSpecific(key: Self.isBackground) == nil else {
            return DispatchQueue.global(qos: .utility).async { self.close() }
        }
        // Whoever is rewriting the log comes to an end first.
        background.wait()
        do throws(KVStoreError) {
            guard writer.withLock({ $0.isWritable }) else { return }
            if let sharing = place.sharing {
                try close(sharing)
            } else {
                try whileNobodyRewrites { (issues) throws(KVStoreError) in try closeLog(&issues) }
            }
        } catch {
            options.logger.error("closing \(place.path): \(error)")
        }
    }

    private func closeLog(_ issues: inout [KVStoreIssue]) throws(KVStoreError) {
        if writer.withLock({ isMostlyDead($0) }) {
            do throws(KVStoreError) {
                try rewrite(&issues)
            } catch {
                // It stays as long as it is; what was written there is made durable all the same.
                issues.append(.compactionFailed(error))
            }
        }
        let end = writer.withLock { $0.log.end }
        if writer.withLock({ $0.log.sequence > $0.log.flushedSequence }) { try flush() }
        // Rewriting may have found damage that could not be set aside: the log is left as it is then.
        guard writer.withLock({ $0.isWritable }) else { return }
        try vouchForAll()
        writeIndex(upTo: end)
        try changeLog { (log) throws(FileSystemError) in try log.trim() }
    }

    /// Says in the log that all of it has reached the device, which it has: damage to the last records could be taken for a
    /// torn tail otherwise.
    func vouchForAll() throws(KVStoreError) {
        try changeLog { (log) throws(FileSystemError) in
            if !log.endsFlushed { _ = try log.append(.flushed, .empty, .empty) }
        }
    }

    /// Does something with the log that is not about a key.
    private func changeLog(_ change: (inout AppendLog) throws(FileSystemError) -> Void) throws(KVStoreError) {
        try writer.withLock { (writer) throws(KVStoreError) in
            do throws(FileSystemError) {
                try change(&writer.log)
            } catch {
                throw KVStoreError(error, .synchronize, store: place.name)
            }
        }
    }
}

// MARK: Flushing

extension KVEngine {
    /// Pushes everything that was written to the device.
    func synchronize() throws(KVStoreError) {
        try catchUp(.synchronize)
        try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .synchronize, nil) }
        try flush()
    }

    /// Pushes everything that was written before the call to the device. Who comes while another flushes waits and then
    /// mostly finds it done: all who wait are served by one flush.
    func flush() throws(KVStoreError) {
        let wanted = writer.withLock { $0.log.sequence }
        guard flushing.begin(wanted, isDone: { writer.withLock { !$0.log.needsFlush(wanted) } }) else { return }
        defer { flushing.end(flushed: writer.withLock { $0.log.isPoisoned ? .max : $0.log.flushedSequence }) }
        let flush = try writer.withLock { (writer) throws(KVStoreError) -> AppendLog.Flush? in
            guard writer.log.needsFlush(wanted) else { return nil }
            guard !writer.log.isPoisoned else {
                throw KVStoreError(.durabilityUnknown, .synchronize, store: place.name)
            }
            return writer.log.startFlush(directory: place.directory)
        }
        guard let flush else { return }
        do throws(FileSystemError) {
            try flush.run()
        } catch {
            writer.withLock { $0.log.poison() }
            throw KVStoreError(.durabilityUnknown, .synchronize, store: place.name, underlying: error)
        }
        writer.withLock { $0.log.didFlush(flush) }
    }
}
