import ForgeCoding
import ForgeFileSystem
import Logging
import Synchronization

// MARK: Setting a value

extension KVEngine {
    /// Stores a value; returns an issue for the caller to report.
    @inline(__always)
    func set<Value: Codable & Sendable>(_ value: Value, for key: KVKey<Value>) throws(KVStoreError) -> KVStoreIssue? {
        do throws(KVStoreError) {
            return InlineTypes.contain(Value.self) && key.schema == nil
                ? try setPlain(value, for: key) : try setEncoded(value, for: key)
        } catch {
            throw error.about(key.identity)
        }
    }

    /// Stores a value of a type whose encoding runs no code of the app, so that it can be done while nobody else writes.
    @_specialize(where Value == Int)
    @_specialize(where Value == String)
    @_specialize(where Value == Bool)
    @_specialize(where Value == Double)
    private func setPlain<Value: Codable & Sendable>(
        _ value: Value, for key: KVKey<Value>
    ) throws(KVStoreError) -> KVStoreIssue? {
        guard key.identity.isValid else { throw KVStoreError(.invalidKey, .set, store: place.name) }
        var examined: Examined?
        while true {
            let hindrance = try write(.set) { (writer) throws(KVStoreError) in
                let entry = writer.table.entry(of: key.identity)
                if let entry, entry.kind != InlineTypes.kind(of: Value.self),
                    let suspect = Overwriting.suspect(in: entry, .encoded(key)), !examined.contains(suspect)
                {
                    return .suspect(suspect)
                }
                let bytes = InlineTypes.encode(value, by: &writer.encoder)
                guard bytes.count <= options.valueLimit else {
                    throw KVStoreError(.valueTooLarge, .set, store: place.name)
                }
                let revision = try append(.set, .set, key.identity, bytes, &writer)
                writer.table.store(
                    EntryContent(value, revision: revision, encodedSize: bytes.count), key.identity, in: entry)
                return nil
            }
            guard let hindrance else { return examined?.issue }
            try remove(hindrance, to: key, &examined)
        }
    }

    private func setEncoded<Value: Codable & Sendable>(
        _ value: Value, for key: KVKey<Value>
    ) throws(KVStoreError) -> KVStoreIssue? {
        let encoded = try ValueTable.encoded(
            value, key.identity, version: key.schema?.version ?? 1, maximumSize: options.valueLimit, store: place.name)
        let type = CellType.encoded(key)
        var examined: Examined?
        while true {
            let hindrance = try write(.set) { (writer) throws(KVStoreError) in
                let entry = writer.table.entry(of: key.identity)
                if let suspect = Overwriting.suspect(in: entry, type), !examined.contains(suspect) {
                    return .suspect(suspect)
                }
                let revision = try append(.set, .set, key.identity, encoded.bytes, &writer)
                let cell = EncodedCell.copying(encoded.bytes, revision: revision, type: type)
                writer.table.store(EntryContent(cell), key.identity, in: entry)
                return nil
            }
            guard let hindrance else {
                withExtendedLifetime(encoded) {}
                return examined?.issue
            }
            try remove(hindrance, to: key, &examined)
        }
    }

    /// Stores a value that is encoded already.
    func set(_ bytes: [UInt8], named name: KeyName) throws(KVStoreError) {
        do throws(KVStoreError) {
            _ = try write(.set) { (writer) throws(KVStoreError) in
                let revision = try bytes.withBytes { (bytes) throws(KVStoreError) in
                    try append(.set, .set, name, bytes, &writer)
                }
                writer.table.store(EncodedCell(bytes, revision: revision), name)
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
            _ = try write(.remove) { (writer) throws(KVStoreError) in
                guard writer.table.revision(of: name) != nil else { return nil }
                _ = try append(.remove, .remove, name, .empty, &writer)
                writer.table.remove(name)
                return nil
            }
        } catch {
            throw error.about(name)
        }
    }

    func removeAll() throws(KVStoreError) {
        _ = try write(.removeAll) { (writer) throws(KVStoreError) in
            try appendRemoveAll(&writer)
            writer.table.removeAll()
            return nil
        }
    }

    /// Makes the log hold nothing, by a record or, on a full device, by removing all records.
    private func appendRemoveAll(_ writer: inout Writer) throws(KVStoreError) {
        do throws(FileSystemError) {
            _ = try writer.log.append(.removeAll, .empty, .empty)
            return
        } catch {
            guard error.isFull, !writer.log.isPoisoned else { throw KVStoreError(error, .removeAll, store: place.name) }
        }
        do throws(FileSystemError) {
            try writer.log.removeRecords()
        } catch {
            throw KVStoreError(error, .removeAll, store: place.name)
        }
    }

    /// Makes changes together, if what they require holds; returns an issue for the caller to report.
    func commit(_ batch: KVBatch) throws(KVStoreError) -> KVStoreIssue? {
        let changes = try PreparedBatch(batch, valueLimit: options.valueLimit, store: place.name)
        guard !changes.isEmpty else {
            try catchUp(.batch)
            try writer.withLock { (writer) throws(KVStoreError) in try changes.check(writer.table, store: place.name) }
            return nil
        }
        var examined: Examined?
        while true {
            var next: PreparedBatch.Suspect?
            _ = try write(.batch) { (writer) throws(KVStoreError) in
                try changes.check(writer.table, store: place.name)
                next = changes.suspect(in: writer.table) { !examined.contains($0) }
                guard next == nil else { return nil }
                let revision = try append(.batch, .batch, changes.content, count: changes.count, &writer)
                changes.apply(to: &writer.table, last: revision)
                return nil
            }
            guard let suspect = next else { return examined?.issue }
            try examine(suspect.cell, suspect.name, isReadable: suspect.isReadable, &examined)
        }
    }
}

// MARK: What stands in the way of a write

extension KVEngine {
    /// Why a write has changed nothing and has to be tried again.
    enum Hindrance {
        /// What stands in the place may be nothing that the key's type can be read from.
        case suspect(ValueCell)
    }

    @inline(never)
    private func remove<Value>(
        _ hindrance: Hindrance, to key: KVKey<Value>, _ examined: inout Examined?
    ) throws(KVStoreError) {
        switch hindrance {
        case .suspect(let cell):
            try examine(cell, key.identity, isReadable: Overwriting.isReadable(cell, as: key), &examined)
        }
    }

    /// The values that were looked at for a write that is to replace them.
    fileprivate struct Examined {
        var revisions: [UInt64] = []
        var issue: KVStoreIssue?
    }

    /// Sets a value aside unless it can be read.
    @inline(never)
    private func examine(
        _ cell: ValueCell, _ name: KeyName, isReadable: Bool, _ examined: inout Examined?
    ) throws(KVStoreError) {
        var found = examined ?? Examined()
        if !isReadable {
            func setAside() throws(KVStoreError) {
                do throws(FileSystemError) {
                    found.issue = .damage(
                        try place.quarantine.setAside(cell.bytes, of: name, revision: cell.revision))
                    let removedCount = try place.quarantine.removeOldValues()
                    if removedCount > 0 { options.logger.notice("\(removedCount) old values left the quarantine") }
                } catch {
                    throw KVStoreError(error, .setAside, key: name.string, store: place.name)
                }
            }
            // A process that opens the store meanwhile would sweep the file before it has its name.
            if let sharing = place.sharing { try withLock(sharing, .setAside, setAside) } else { try setAside() }
        }
        found.revisions.append(cell.revision)
        examined = found
    }
}

extension KVEngine.Examined? {
    @inline(__always)
    fileprivate func contains(_ cell: ValueCell) -> Bool { self?.revisions.contains(cell.revision) ?? false }
}

// MARK: Writing

extension KVEngine {
    /// What a write leaves to be done when the lock is given back.
    struct Chores: OptionSet, Sendable {
        let rawValue: UInt8

        static let rewriting = Chores(rawValue: 1)
        static let garbage = Chores(rawValue: 2)
        static let space = Chores(rawValue: 4)
    }

    /// Runs `body` while nobody else writes; it has changed nothing if it says what stands in the way.
    @inline(__always)
    private func write(
        _ operation: KVStoreError.Operation, _ body: (inout Writer) throws(KVStoreError) -> Hindrance?
    ) throws(KVStoreError) -> Hindrance? {
        try checkFork(operation)
        var chores: Chores = []
        let hindrance = try writing(operation) { (writer) throws(KVStoreError) -> Hindrance? in
            try check(writer, operation)
            let hindrance = try body(&writer)
            chores = self.chores(of: writer)
            return hindrance
        }
        if !chores.isEmpty { run(chores) }
        return hindrance
    }

    @inline(__always)
    private func chores(of writer: borrowing Writer) -> Chores {
        var chores: Chores = []
        if isRewritingDue(writer) { chores.insert(.rewriting) }
        if writer.table.hasGarbage { chores.insert(.garbage) }
        if writer.log.wantsSpace { chores.insert(.space) }
        return chores
    }

    @inline(never)
    private func run(_ chores: Chores) {
        if chores.contains(.garbage) {
            // With a value may go code of its type: outside the lock.
            _ = writer.withLock { $0.table.collect() }
        }
        if chores.contains(.space) { prepareSpace() }
        if chores.contains(.rewriting) { rewriteWhenDue() }
    }

    @inline(__always)
    private func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ name: KeyName, _ value: UnsafeRawBufferPointer,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try name.withBytes { (bytes) throws(FileSystemError) in
                try writer.log.append(code, bytes, value)
            }
        } catch {
            throw KVStoreError(error, operation, store: place.name)
        }
    }

    /// Appends a record that is about no key.
    private func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ content: [UInt8], count: UInt64 = 1,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try content.withBytes { (content) throws(FileSystemError) in
                try writer.log.append(code, .empty, content, count: count)
            }
        } catch {
            throw KVStoreError(error, operation, store: place.name)
        }
    }

    /// Throws in a child that was forked while the store was open.
    @inline(__always)
    func checkFork(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard fork.isForkedChild else { return }
        throw KVStoreError(.unavailable(.forked), operation, store: place.name)
    }

    /// Throws unless the log can be written to.
    @inline(__always)
    func check(_ writer: borrowing Writer, _ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard writer.log.isPoisoned || writer.obstacle != nil else { return }
        guard let obstacle = writer.obstacle else {
            throw KVStoreError(.unavailable(.poisoned), operation, store: place.name)
        }
        guard obstacle.code != .readOnly else { throw KVStoreError(.readOnly, operation, store: place.name) }
        throw KVStoreError(.unavailable(.inputOutput), operation, store: place.name, underlying: obstacle)
    }
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
