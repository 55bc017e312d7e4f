import ForgeCoding
import ForgeFileSystem
import Logging
import Synchronization

// MARK: Setting a value

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
        guard key.identity.isValid else { throw KVStoreError(.invalidKey, .set, store: handle.name) }
        guard !InlineTypes.isLong(value) else { return try setEncoded(value, for: key) }
        var checked: CheckedRevisions?
        while true {
            let retryReason = try commitStep(.set) { (writer) throws(KVStoreError) in
                let entry = writer.table.entry(of: key.identity)
                if let entry, entry.kind != InlineTypes.kind(of: Value.self),
                    let unverified = OverwritePolicy.unverified(in: entry, .encoded(key)), !checked.contains(unverified)
                {
                    return .unverified(unverified)
                }
                let bytes = InlineTypes.encode(value, by: &writer.encoder)
                guard bytes.count <= options.valueLimit else {
                    throw KVStoreError(.valueTooLarge, .set, store: handle.name)
                }
                let revision = try append(.set, .set, key.identity, bytes, &writer)
                writer.table.store(
                    EntryContent(value, revision: revision, encodedSize: bytes.count), key.identity, in: entry)
                if changes.hasSubscribers { changes.append(key.identity, bytes, revision) }
                return nil
            }
            guard let retryReason else { return checked?.issues ?? [] }
            try resolve(retryReason, for: key, &checked)
        }
    }

    private func setEncoded<Value: Codable & Sendable>(
        _ value: Value, for key: KVKey<Value>
    ) throws(KVStoreError) -> [KVStoreIssue] {
        let encoded = try ValueTable.encoded(
            value, key.identity, version: key.schema?.version ?? 1, maximumSize: options.valueLimit, store: handle.name)
        let type = CellType.encoded(key)
        var checked: CheckedRevisions?
        while true {
            let retryReason = try commitStep(.set) { (writer) throws(KVStoreError) in
                let entry = writer.table.entry(of: key.identity)
                if let unverified = OverwritePolicy.unverified(in: entry, type), !checked.contains(unverified) {
                    return .unverified(unverified)
                }
                let revision = try append(.set, .set, key.identity, encoded.bytes, &writer)
                let cell = EncodedCell.copying(encoded.bytes, revision: revision, type: type)
                writer.table.store(EntryContent(cell), key.identity, in: entry)
                if changes.hasSubscribers { changes.append(key.identity, encoded.bytes, revision) }
                return nil
            }
            guard let retryReason else {
                withExtendedLifetime(encoded) {}
                return checked?.issues ?? []
            }
            try resolve(retryReason, for: key, &checked)
        }
    }

    /// Stores a value that is encoded already.
    func set(_ bytes: [UInt8], named name: KeyName) throws(KVStoreError) {
        do throws(KVStoreError) {
            guard bytes.count <= options.valueLimit else {
                throw KVStoreError(.valueTooLarge, .set, store: handle.name)
            }
            _ = try commitStep(.set) { (writer) throws(KVStoreError) in
                let revision = try bytes.withBytes { (bytes) throws(KVStoreError) in
                    try append(.set, .set, name, bytes, &writer)
                }
                writer.table.store(EncodedCell(bytes, revision: revision), name)
                if changes.hasSubscribers { changes.append(ChangeHub.Change(name, bytes, revision)) }
                return nil
            }
        } catch {
            throw error.about(name)
        }
    }
}

// MARK: Other changes

extension KVEngine {
    func remove(_ name: KeyName) throws(KVStoreError) {
        do throws(KVStoreError) {
            _ = try commitStep(.remove) { (writer) throws(KVStoreError) in
                guard writer.table.revision(of: name) != nil else { return nil }
                try appendRemove(name, &writer)
                writer.table.remove(name)
                if changes.hasSubscribers { changes.append(ChangeHub.Change(name, nil, writer.log.sequence)) }
                return nil
            }
        } catch {
            throw error.about(name)
        }
    }

    /// Appends the record of a removal, on a full device with the block that a shared store keeps for that.
    private func appendRemove(_ name: KeyName, _ writer: inout Writer) throws(KVStoreError) {
        do throws(KVStoreError) {
            _ = try append(.remove, .remove, name, .empty, &writer)
        } catch {
            guard handle.sharing != nil, error.isOutOfSpace,
                !writer.log.isPoisoned, handle.removalReserve.release()
            else { throw error }
            _ = try append(.remove, .remove, name, .empty, &writer)
        }
    }

    func removeAll() throws(KVStoreError) {
        _ = try commitStep(.removeAll) { (writer) throws(KVStoreError) in
            try appendRemoveAll(&writer)
            writer.table.removeAll()
            changes.appendAll { _ in nil }
            return nil
        }
    }

    /// Makes the log hold nothing, by a record or, on a full device, by removing all records.
    private func appendRemoveAll(_ writer: inout Writer) throws(KVStoreError) {
        do throws(FileSystemError) {
            _ = try writer.log.append(.removeAll, .empty, .empty)
            return
        } catch {
            guard error.isOutOfSpace, !writer.log.isPoisoned else {
                throw KVStoreError(error, .removeAll, store: handle.name)
            }
        }
        do throws(FileSystemError) {
            try writer.log.removeRecords()
        } catch {
            throw KVStoreError(error, .removeAll, store: handle.name)
        }
    }

    /// Makes changes together, if what they require holds; returns issues for the caller to report.
    ///
    /// The values that are not known to be readable as what replaces them are looked at outside the locks, all before
    /// the second attempt: more attempts follow only if other writers have replaced some of them meanwhile.
    func commit(_ batch: KVBatch) throws(KVStoreError) -> [KVStoreIssue] {
        let changes = try PreparedBatch(batch, valueLimit: options.valueLimit, store: handle.name)
        var checked: CheckedRevisions?
        while true {
            var unverified: [PreparedBatch.UnverifiedValue] = []
            _ = try commitStep(.batch) { (writer) throws(KVStoreError) in
                try changes.check(writer.table, store: handle.name)
                unverified = changes.unverified(in: writer.table, except: checked?.revisions ?? [])
                guard unverified.isEmpty, !changes.isEmpty else { return nil }
                let revision = try append(.batch, .batch, changes.content, count: changes.count, &writer)
                changes.apply(to: &writer.table, last: revision)
                if self.changes.hasSubscribers { self.changes.append(changes.reported(last: revision)) }
                return nil
            }
            guard !unverified.isEmpty else { return checked?.issues ?? [] }
            for value in unverified {
                try setAsideUnlessReadable(value.cell, value.name, isReadable: value.isReadable, &checked)
            }
        }
    }
}

// MARK: Reasons to retry a write

extension KVEngine {
    /// Why a write has changed nothing and has to be tried again.
    enum RetryReason {
        /// The stored value may not be readable as the key's type.
        case unverified(ValueCell)
    }

    @inline(never)
    private func resolve<Value>(
        _ retryReason: RetryReason, for key: KVKey<Value>, _ checked: inout CheckedRevisions?
    ) throws(KVStoreError) {
        switch retryReason {
        case .unverified(let cell):
            try setAsideUnlessReadable(
                cell, key.identity, isReadable: OverwritePolicy.isReadable(cell, as: key), &checked)
        }
    }

    /// The values that were looked at for a write that is to replace them.
    fileprivate struct CheckedRevisions {
        var revisions: Set<UInt64> = []
        var issues: [KVStoreIssue] = []
    }

    /// Sets a value aside unless it can be read.
    @inline(never)
    private func setAsideUnlessReadable(
        _ cell: ValueCell, _ name: KeyName, isReadable: Bool, _ checked: inout CheckedRevisions?
    ) throws(KVStoreError) {
        var found = checked ?? CheckedRevisions()
        if !isReadable {
            func setAside() throws(KVStoreError) {
                do throws(FileSystemError) {
                    found.issues.append(
                        .damage(try handle.quarantine.setAside(cell.bytes, of: name, revision: cell.revision)))
                    let removedCount = try handle.quarantine.removeOldValues()
                    if removedCount > 0 { options.logger.notice("\(removedCount) old values left the quarantine") }
                } catch {
                    throw KVStoreError(error, .setAside, key: name.string, store: handle.name)
                }
            }
            // A process that opens the store meanwhile would sweep the file before it has its name.
            if let sharing = handle.sharing { try withLock(sharing, .setAside, setAside) } else { try setAside() }
        }
        found.revisions.insert(cell.revision)
        checked = found
    }
}

extension KVEngine.CheckedRevisions? {
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

/// The commit step of every change: acquire the locks, check that the log is writable, call the body, which appends a
/// record and changes the table, release the locks, and run what is due.
///
/// It has two implementations, chosen when the store is opened: exclusive, under `writer`, and shared
/// (`commitShared(_:_:)`), which also acquires the lock of the store and loads the records of other processes first.
extension KVEngine {
    /// Calls `body` under the locks. If it returns a retry reason, it has changed nothing.
    @inline(__always)
    func commitStep(
        _ operation: KVStoreError.Operation, _ body: (inout Writer) throws(KVStoreError) -> RetryReason?
    ) throws(KVStoreError) -> RetryReason? {
        try checkFork(operation)
        var tasks: PostWriteTasks = []
        let retryReason =
            if let sharing = handle.sharing {
                try commitShared(sharing, operation) { (writer) throws(KVStoreError) in
                    try change(&writer, operation, &tasks, body)
                }
            } else {
                try writer.withLock { (writer) throws(KVStoreError) in
                    try change(&writer, operation, &tasks, body)
                }
            }
        if changes.hasSubscribers { changes.wake() }
        if !tasks.isEmpty { run(tasks) }
        return retryReason
    }

    @inline(__always)
    private func change(
        _ writer: inout Writer, _ operation: KVStoreError.Operation, _ tasks: inout PostWriteTasks,
        _ body: (inout Writer) throws(KVStoreError) -> RetryReason?
    ) throws(KVStoreError) -> RetryReason? {
        try check(writer, operation)
        let retryReason = try body(&writer)
        tasks = writer.tasks(compactionFloor: options.compactionFloorInBytes)
        return retryReason
    }

    @inline(never)
    private func run(_ tasks: PostWriteTasks) {
        if tasks.contains(.garbage) {
            // With a value may go code of its type: outside the lock.
            _ = writer.withLock { $0.table.collectGarbage() }
        }
        if tasks.contains(.space) { prepareSpace() }
        if tasks.contains(.compaction) { compactWhenDue() }
    }

    @inline(__always)
    func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ name: KeyName, _ value: UnsafeRawBufferPointer,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try name.withBytes { (bytes) throws(FileSystemError) in
                try writer.log.append(code, bytes, value)
            }
        } catch {
            throw KVStoreError(error, operation, store: handle.name)
        }
    }

    /// Appends a record that is about no key.
    func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ content: [UInt8], count: UInt64 = 1,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try content.withBytes { (content) throws(FileSystemError) in
                try writer.log.append(code, .empty, content, count: count)
            }
        } catch {
            throw KVStoreError(error, operation, store: handle.name)
        }
    }

    /// Throws in a child that was forked while the store was open.
    @inline(__always)
    func checkFork(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard fork.isForkedChild else { return }
        throw KVStoreError(.unavailable(.forked), operation, store: handle.name)
    }

    /// Throws if the store was closed, and in a child that was forked while it was open.
    @inline(__always)
    func checkUse(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        try checkFork(operation)
        guard isClosed else { return }
        throw KVStoreError(.unavailable(.closed), operation, store: handle.name)
    }

    /// Throws unless the log can be written to.
    @inline(__always)
    func check(_ writer: borrowing Writer, _ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard writer.log.isPoisoned || writer.obstacle != nil || isClosed else { return }
        try checkUse(operation)
        guard let obstacle = writer.obstacle else {
            throw KVStoreError(.unavailable(.poisoned), operation, store: handle.name)
        }
        guard obstacle.code != .readOnly else { throw KVStoreError(.readOnly, operation, store: handle.name) }
        throw KVStoreError(.unavailable(.inputOutput), operation, store: handle.name, underlying: obstacle)
    }
}
