import CForgeKVStore
import ForgeCoding
import ForgeFileSystem
import Logging
import Synchronization

// Memory safety: The bytes of a value are valid until the encoder's next call, or while the encoded value is kept,
// and the log and the table copy them before.

/// How a store changes: every change is made by ``write(_:_:)``.
///
/// A value that is not known to be readable as the type that is to replace it is looked at without a lock, because that
/// runs code of the app. The first attempt finds all such values of the change and makes none; then they are looked at,
/// and set aside if they are unreadable; the second attempt makes the change. More attempts follow only if other
/// writers, or the code that was run, have replaced some of the values meanwhile.
extension KVEngine {
    /// Stores a value; returns issues for the caller to report.
    @inline(__always)
    func set<Value: Codable & Sendable>(_ value: Value, for key: KVKey<Value>) throws(KVStoreError) -> [KVStoreIssue] {
        do throws(KVStoreError) {
            return InlineTypes.contain(Value.self) && key.schema == nil
                ? try setPlain(value, for: key) : try setEncoded(value, for: key)
        } catch {
            throw error.about(key.identity)
        }
    }

    /// Stores a value of a type whose encoding runs no code of the app, so it is encoded under `writer`; a long text is
    /// not, because the writer keeps the memory of its encoder.
    @_specialize(where Value == Int)
    @_specialize(where Value == String)
    @_specialize(where Value == Bool)
    @_specialize(where Value == Double)
    private func setPlain<Value: Codable & Sendable>(
        _ value: Value, for key: KVKey<Value>
    ) throws(KVStoreError) -> [KVStoreIssue] {
        guard key.identity.isValid else { throw KVStoreError(.invalidKey, .set, store: name) }
        guard !InlineTypes.isLong(value) else { return try setEncoded(value, for: key) }
        var checked: CheckedValues?
        while true {
            let unverified = try write(.set) { (writer) throws(KVStoreError) -> ValueCell? in
                let entry = writer.table.entry(of: key.identity)
                if let entry, entry.kind != InlineTypes.kind(of: Value.self),
                    let unverified = OverwritePolicy.unverified(in: entry, .encoded(key)), !checked.contains(unverified)
                {
                    return unverified
                }
                let bytes = unsafe InlineTypes.encode(value, by: &writer.encoder)
                guard bytes.count <= valueLimit else { throw KVStoreError(.valueTooLarge, .set, store: name) }
                let revision = try unsafe append(.set, .set, key.identity, bytes, &writer)
                writer.table.store(
                    EntryContent(value, revision: revision, encodedSize: bytes.count), key.identity, in: entry)
                if changes.hasSubscribers { unsafe report(key, bytes, revision) }
                return nil
            }
            guard let unverified else { return checked?.issues ?? [] }
            try resolve(unverified, as: key, &checked)
        }
    }

    private func setEncoded<Value: Codable & Sendable>(
        _ value: Value, for key: KVKey<Value>
    ) throws(KVStoreError) -> [KVStoreIssue] {
        let encoded = try ValueTable.encoded(
            value, key.identity, version: key.schema?.version ?? 1, maximumSize: valueLimit, store: name)
        defer { withExtendedLifetime(encoded) {} }
        let type = CellType.encoded(key)
        var checked: CheckedValues?
        while true {
            let unverified = try write(.set) { (writer) throws(KVStoreError) -> ValueCell? in
                let entry = writer.table.entry(of: key.identity)
                if let unverified = OverwritePolicy.unverified(in: entry, type), !checked.contains(unverified) {
                    return unverified
                }
                let revision = try unsafe append(.set, .set, key.identity, encoded.bytes, &writer)
                let cell = unsafe EncodedCell.copying(encoded.bytes, revision: revision, type: type)
                writer.table.store(EntryContent(cell), key.identity, in: entry)
                if changes.hasSubscribers { unsafe report(key, encoded.bytes, revision) }
                return nil
            }
            guard let unverified else { return checked?.issues ?? [] }
            try resolve(unverified, as: key, &checked)
        }
    }

    /// Not inlined, so that the name is copied only if there is a subscriber.
    @inline(never)
    private func report<Value>(_ key: KVKey<Value>, _ bytes: UnsafeRawBufferPointer, _ revision: UInt64) {
        unsafe changes.append(key.identity, Array(bytes), revision)
    }
}

// MARK: Other changes

extension KVEngine {
    /// Stores a value that is encoded already.
    func set(_ bytes: [UInt8], named name: KeyName) throws(KVStoreError) { try change(name, to: bytes, .set) }

    func remove(_ name: KeyName) throws(KVStoreError) { try change(name, to: nil, .remove) }

    private func change(
        _ name: KeyName, to bytes: [UInt8]?, _ operation: KVStoreError.Operation
    ) throws(KVStoreError) {
        do throws(KVStoreError) {
            let change = try PreparedBatch(
                name, bytes, operation, valueLimit: valueLimit, store: self.name)
            _ = try commit(change, operation)
        } catch {
            throw error.about(name)
        }
    }

    /// Makes changes together, if what they require holds; returns issues for the caller to report.
    func commit(_ batch: KVBatch) throws(KVStoreError) -> [KVStoreIssue] {
        try commit(PreparedBatch(batch, valueLimit: valueLimit, store: name), .batch)
    }

    private func commit(
        _ batch: PreparedBatch, _ operation: KVStoreError.Operation
    ) throws(KVStoreError) -> [KVStoreIssue] {
        var checked: CheckedValues?
        while true {
            let unverified = try write(operation) { (writer) throws(KVStoreError) -> [PreparedBatch.UnverifiedValue] in
                try batch.check(writer.table, store: name)
                let unverified = batch.unverified(in: writer.table, except: checked?.revisions ?? [])
                guard unverified.isEmpty, batch.changesSomething(in: writer.table) else { return unverified }
                let revision = try append(batch, operation, &writer)
                batch.apply(to: &writer.table, last: revision)
                if changes.hasSubscribers { changes.append(batch.reported(last: revision)) }
                return []
            }
            guard let first = unverified.first else { break }
            try countAttempt(at: first.name, operation, &checked)
            for value in unverified { try resolve(value.cell, value.name, isReadable: value.isReadable, &checked) }
        }
        return checked?.issues ?? []
    }

    func removeAll() throws(KVStoreError) {
        try write(.removeAll) { (writer) throws(KVStoreError) in
            try appendRemoveAll(&writer)
            writer.table.removeAll()
            changes.appendAll()
        }
    }
}

// MARK: The step

extension KVEngine {
    /// The one step by which a store changes: acquires the locks, checks that the store can be written to, calls
    /// `body`, releases the locks, and runs what is due.
    ///
    /// A shared store also acquires the lock of the store before, loads the records of other processes, and publishes
    /// what was written.
    ///
    /// `body` appends a record and then changes the table, or does neither.
    @inline(__always)
    func write<Result: Sendable>(
        _ operation: KVStoreError.Operation, _ body: (inout Writer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try checkFork(operation)
        var tasks: PostWriteTasks = []
        let result =
            if let sharing {
                try writeShared(sharing, operation) { (writer) throws(KVStoreError) in
                    try change(&writer, operation, &tasks, body)
                }
            } else {
                try writer.withLock { (writer) throws(KVStoreError) in
                    try change(&writer, operation, &tasks, body)
                }
            }
        if changes.hasSubscribers { changes.wake() }
        if !tasks.isEmpty { run(tasks) }
        return result
    }

    @inline(__always)
    private func change<Result>(
        _ writer: inout Writer, _ operation: KVStoreError.Operation, _ tasks: inout PostWriteTasks,
        _ body: (inout Writer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try check(writer, operation)
        let result = try body(&writer)
        tasks = writer.tasks(compactionFloor: options.compactionFloorInBytes)
        return result
    }

    @inline(never)
    private func run(_ tasks: PostWriteTasks) {
        if tasks.contains(.garbage) {
            // Releasing a value may run code of its type, so this happens outside the lock.
            _ = writer.withLock { $0.table.collectGarbage() }
        }
        if tasks.contains(.space) { prepareSpace() }
        if tasks.contains(.compaction) { compactWhenDue() }
    }

    /// Throws in a child that was forked while the store was open on disk.
    @inline(__always)
    func checkFork(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        if fork.isForkedChild, directory != nil { throw KVStoreError(.unavailable(.forked), operation, store: name) }
    }

    var isClosed: Bool { life.load(ordering: .acquiring) != .open }

    /// Throws if the store was closed, and in a child that was forked while it was open.
    @inline(__always)
    func checkUse(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        try checkFork(operation)
        guard isClosed else { return }
        throw KVStoreError(.unavailable(.closed), operation, store: name)
    }

    /// Throws unless the store can be written to.
    @inline(__always)
    func check(_ writer: borrowing Writer, _ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard writer.log.isPoisoned || writer.obstacle != nil || isClosed else { return }
        try checkUse(operation)
        guard let obstacle = writer.obstacle else {
            throw KVStoreError(.unavailable(.poisoned), operation, store: name)
        }
        guard obstacle.code != .readOnly else { throw KVStoreError(.readOnly, operation, store: name) }
        throw KVStoreError(.unavailable(.inputOutput), operation, store: name, underlying: obstacle)
    }
}

// MARK: Records

extension KVEngine {
    @inline(__always)
    private func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ name: KeyName, _ value: UnsafeRawBufferPointer,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try unsafe name.withBytes { (bytes) throws(FileSystemError) in
                try unsafe writer.log.append(code, bytes, value)
            }
        } catch {
            throw KVStoreError(error, operation, store: self.name)
        }
    }

    /// Appends the record of a batch; returns the number of the last change. A single change is recorded as such, so
    /// that a full device permits it if it is a removal.
    private func append(
        _ batch: PreparedBatch, _ operation: KVStoreError.Operation, _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        guard let change = batch.onlyChange else {
            do throws(FileSystemError) {
                return try unsafe batch.content.withBytes { (content) throws(FileSystemError) in
                    try unsafe writer.log.append(.batch, .empty, content, count: batch.count)
                }
            } catch {
                throw KVStoreError(error, operation, store: name)
            }
        }
        guard let bytes = change.bytes else { return try appendRemove(change.name, operation, &writer) }
        return try unsafe bytes.withBytes { (bytes) throws(KVStoreError) in
            try unsafe append(.set, operation, change.name, bytes, &writer)
        }
    }

    /// Appends the record of a removal, on a full device with the block that the store keeps for that.
    private func appendRemove(
        _ name: KeyName, _ operation: KVStoreError.Operation, _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(KVStoreError) {
            return try unsafe append(.remove, operation, name, .empty, &writer)
        } catch {
            guard error.isOutOfSpace, !writer.log.isPoisoned, handle.removalReserve.release() else {
                throw error
            }
            return try unsafe append(.remove, operation, name, .empty, &writer)
        }
    }

    /// Makes the log hold nothing, by a record or, on a full device, by removing all records.
    private func appendRemoveAll(_ writer: inout Writer) throws(KVStoreError) {
        do throws(FileSystemError) {
            do throws(FileSystemError) {
                _ = try writer.log.append(.removeAll)
            } catch  where error.isOutOfSpace && !writer.log.isPoisoned {
                try writer.log.removeRecords()
            }
        } catch {
            throw KVStoreError(error, .removeAll, store: name)
        }
    }
}

// MARK: Values that are to be replaced

extension KVEngine {
    /// The values that were looked at for a write that is to replace them.
    fileprivate struct CheckedValues {
        var attempts: UpdateAttempts
        var revisions: Set<UInt64> = []
        var issues: [KVStoreIssue] = []
    }

    /// Counts an attempt that has found values to look at, of which one has this name.
    @inline(never)
    private func countAttempt(
        at name: KeyName, _ operation: KVStoreError.Operation, _ checked: inout CheckedValues?
    ) throws(KVStoreError) {
        var values =
            checked ?? CheckedValues(attempts: UpdateAttempts(of: name.string, operation, running: .decoding))
        try values.attempts.didFail(in: self.name)
        checked = values
    }

    @inline(never)
    private func resolve<Value>(
        _ cell: ValueCell, as key: KVKey<Value>, _ checked: inout CheckedValues?
    ) throws(KVStoreError) {
        try countAttempt(at: key.identity, .set, &checked)
        try resolve(cell, key.identity, isReadable: OverwritePolicy.isReadable(cell, as: key), &checked)
    }

    /// Notes that a value was looked at, and sets it aside unless it is readable.
    @inline(never)
    private func resolve(
        _ cell: ValueCell, _ name: KeyName, isReadable: Bool, _ checked: inout CheckedValues?
    ) throws(KVStoreError) {
        if !isReadable, let issue = try setAside(cell, of: name) { checked?.issues.append(issue) }
        checked?.revisions.insert(cell.revision)
    }

    /// Keeps a value that is to be replaced although it is unreadable: in a file, or in memory in a list.
    private func setAside(_ cell: ValueCell, of name: KeyName) throws(KVStoreError) -> KVStoreIssue? {
        guard let directory else {
            writer.withLock { writer in
                // A write beside this one may have set it aside too.
                guard !writer.setAside.contains(where: { $0.entry.revision == cell.revision }) else { return }
                writer.setAside.append((name.string, KVEntry(cell)))
            }
            return nil
        }
        func copyToFile() throws(KVStoreError) -> (KVDamageReport, removedCount: Int) {
            do throws(FileSystemError) {
                let report = try directory.quarantine.setAside(cell.bytes, of: name, revision: cell.revision)
                return (report, try directory.quarantine.removeOldValues())
            } catch {
                throw KVStoreError(error, .setAside, key: name.string, store: self.name)
            }
        }
        let (report, removedCount) =
            if let sharing {
                // A process that opens the store meanwhile would sweep the file before it has its name.
                try withLock(sharing, .setAside, copyToFile)
            } else {
                // Another thread would write to the same temporary file.
                try quarantining.withLock { (_) throws(KVStoreError) in try copyToFile() }
            }
        if removedCount > 0 { options.logger.notice("\(removedCount) old values left the quarantine") }
        return .damage(report)
    }
}

extension KVEngine.CheckedValues? {
    @inline(__always)
    fileprivate func contains(_ cell: ValueCell) -> Bool { self?.revisions.contains(cell.revision) ?? false }
}

extension KVStoreError {
    /// The same failure, of a call that concerns a key.
    @inline(never)
    func about(_ name: KeyName) -> KVStoreError {
        var error = self
        error.key = name.string
        return error
    }
}

// MARK: The writer

extension KVEngine {
    /// The state that the lock `writer` protects.
    struct Writer: ~Copyable, Sendable {
        /// Without a file in memory.
        var log: AppendLog
        var table: TableWriter
        var encoder = PlainEncoder()

        /// Why nothing can be written, if the log was found in a state that could not be repaired.
        var obstacle: KVStoreError?

        /// The superseded bytes at which compaction is tried again after a failure; `.max` while one runs.
        var compactionThreshold: Int64 = 0

        /// The unreadable values of a store in memory that were to be replaced.
        var setAside: [(name: String, entry: KVEntry)] = []

        var isWritable: Bool { obstacle == nil && !log.isPoisoned }
    }

    /// The tasks that a write runs after it has released the locks.
    struct PostWriteTasks: OptionSet, Sendable {
        let rawValue: UInt8

        static let compaction = PostWriteTasks(rawValue: 1)
        static let garbage = PostWriteTasks(rawValue: 2)
        static let space = PostWriteTasks(rawValue: 4)
    }
}

extension KVEngine.Writer {
    /// The bytes of superseded records.
    @inline(__always)
    var supersededBytes: Int64 { log.recordBytes - table.liveBytes }

    /// Whether more than half of the log is superseded, which is worth a compaction when the store is closed.
    var isMostlySuperseded: Bool { supersededBytes > table.liveBytes && supersededBytes > 4096 }

    /// Whether so much of the log is superseded that compaction is worth its cost.
    @inline(__always)
    func isCompactionDue(floor: Int) -> Bool {
        let superseded = supersededBytes
        return superseded - table.liveBytes > Int64(floor) && superseded > compactionThreshold
    }

    /// Postpones the next attempt after a failed compaction.
    mutating func postponeCompaction() { compactionThreshold = 2 * supersededBytes }

    @inline(__always)
    func tasks(compactionFloor: Int) -> KVEngine.PostWriteTasks {
        var tasks: KVEngine.PostWriteTasks = []
        if isCompactionDue(floor: compactionFloor) { tasks.insert(.compaction) }
        if table.hasGarbage { tasks.insert(.garbage) }
        if log.wantsSpace { tasks.insert(.space) }
        return tasks
    }
}

/// Detects that the process has forked since the detector was created (`pthread_atfork(3)`).
///
/// A forked child has copies of the parent's descriptors and mappings: what it wrote would overwrite what the parent
/// writes, and its unlocking would release the parent's lock. A child made by a bare `clone(2)` is not detected.
struct ForkDetector: Sendable {
    private let count = forge_start_counting_forks()

    /// Whether this process is a forked child of the process that created the detector.
    @inline(__always)
    var isForkedChild: Bool { forge_forks() != count }
}
