import ForgeFileSystem
import Synchronization

extension KVEngine {
    /// What a write leaves for when the lock is given back.
    private struct Aftermath: ~Copyable, Sendable {
        var garbage: Retirement.Garbage?
        var isRewritingDue = false
    }

    /// Stores a value; returns an issue for the caller to report.
    @_specialize(where Value == Int)
    @_specialize(where Value == String)
    @_specialize(where Value == Bool)
    @_specialize(where Value == Double)
    func set<Value: Codable & Sendable>(_ value: Value, for key: KVKey<Value>) throws(KVStoreError) -> KVStoreIssue? {
        try ValueTable.withEncoded(value, key, maximumSize: options.valueLimit, store: place.name) {
            (bytes) throws(KVStoreError) in
            var examined = Examined()
            while true {
                var entry: KeyEntry?
                var suspect: ValueCell?
                do throws(KVStoreError) {
                    let issue = try write(.set, .set, key.identity, bytes) { (table) throws(KVStoreError) in
                        entry = table.entry(of: key.identity)
                        suspect = Overwriting.suspect(in: entry, key)
                        if let suspect, !examined.contains(suspect) { throw Self.unreadable(key.identity) }
                        suspect = nil
                    } effect: { (revision, table) in
                        table.store(ValueTable.cell(value, bytes, key, revision: revision), key.identity, in: entry)
                    }
                    return examined.issue ?? issue
                } catch {
                    guard let suspect else { throw error }
                    let isReadable = Overwriting.isReadable(suspect, as: key)
                    try examine(suspect, key.identity, isReadable: isReadable, &examined)
                }
            }
        }
    }

    /// The values that were looked at for a write that is to replace them.
    private struct Examined {
        private var cells: [ValueCell] = []
        var issue: KVStoreIssue?

        func contains(_ cell: ValueCell) -> Bool { cells.contains { $0 === cell } }

        mutating func insert(_ cell: ValueCell) { cells.append(cell) }
    }

    /// Ends a write that has to be tried again after a look at what it would replace. Nobody else sees it.
    private static func unreadable(_ name: KeyName) -> KVStoreError {
        KVStoreError(.undecodable, .setAside, key: name.string)
    }

    /// Sets a value aside unless it can be read.
    @inline(never)
    private func examine(
        _ cell: ValueCell, _ name: KeyName, isReadable: Bool, _ examined: inout Examined
    ) throws(KVStoreError) {
        if !isReadable {
            func setAside() throws(KVStoreError) {
                do throws(FileSystemError) {
                    examined.issue = .damage(
                        try place.quarantine.setAside(cell.bytes, of: name, revision: cell.revision))
                } catch {
                    throw KVStoreError(error, .setAside, key: name.string, store: place.name)
                }
            }
            // A process that opens the store meanwhile would sweep the file before it has its name.
            if let sharing = place.sharing { try withLock(sharing, .setAside, name, setAside) } else { try setAside() }
        }
        examined.insert(cell)
    }

    /// Stores a value that is encoded already.
    func set(_ bytes: [UInt8], named name: KeyName) throws(KVStoreError) -> KVStoreIssue? {
        try withBytes(of: bytes) { (buffer) throws(KVStoreError) in
            try write(.set, .set, name, buffer) { (revision, table) in
                table.store(EncodedCell(bytes, revision: revision), name)
            }
        }
    }

    func remove(_ name: KeyName) throws(KVStoreError) -> KVStoreIssue? {
        try catchUp(.remove, name)
        let isThere = try writer.withLock { (writer) throws(KVStoreError) in
            try check(writer, .remove, name)
            return table.view.contains(name)
        }
        guard isThere else { return nil }
        return try write(.remove, .remove, name, UnsafeRawBufferPointer(start: nil, count: 0)) { (_, table) in
            table.remove(name)
        }
    }

    func removeAll() throws(KVStoreError) -> KVStoreIssue? {
        try write(.removeAll, .removeAll, nil, UnsafeRawBufferPointer(start: nil, count: 0)) { (_, table) in
            table.removeAll()
        }
    }

    /// Makes changes together, if what they require holds.
    func commit(_ batch: KVBatch) throws(KVStoreError) -> KVStoreIssue? {
        let changes = try PreparedBatch(batch, valueLimit: options.valueLimit, store: place.name)
        guard !changes.isEmpty else {
            try catchUp(.batch)
            try writer.withLock { (writer) throws(KVStoreError) in try changes.check(writer.table, store: place.name) }
            return nil
        }
        return try withBytes(of: changes.content) { (content) throws(KVStoreError) in
            var examined = Examined()
            while true {
                var suspect: PreparedBatch.Suspect?
                do throws(KVStoreError) {
                    let issue = try write(.batch, .batch, nil, content, count: changes.count) {
                        (table) throws(KVStoreError) in
                        try changes.check(table, store: place.name)
                        suspect = changes.suspect(in: table) { !examined.contains($0) }
                        if let suspect { throw Self.unreadable(suspect.name) }
                    } effect: { (revision, table) in
                        changes.apply(to: &table, last: revision)
                    }
                    return examined.issue ?? issue
                } catch {
                    guard let suspect else { throw error }
                    try examine(suspect.cell, suspect.name, isReadable: suspect.isReadable, &examined)
                }
            }
        }
    }

    /// The names of all keys.
    var names: [String] { writer.withLock { $0.table.names } }

    /// All names and values at one moment.
    var snapshot: KVSnapshot { KVEntry.all(writer.withLock { $0.table.contents }) }

    /// Appends a record and does to the table what it says.
    @inline(__always)
    private func write(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ name: KeyName?, _ value: UnsafeRawBufferPointer,
        count: UInt64 = 1, condition: (borrowing TableWriter) throws(KVStoreError) -> Void = { _ in },
        effect: (_ revision: UInt64, inout TableWriter) -> Void
    ) throws(KVStoreError) -> KVStoreIssue? {
        let aftermath = try writing(operation, name) { (writer) throws(KVStoreError) -> Aftermath in
            try check(writer, operation, name)
            try condition(writer.table)
            let revision: UInt64
            do throws(FileSystemError) {
                revision = try writer.log.append(code, name, value, count: count)
            } catch {
                throw KVStoreError(error, operation, key: name?.string, store: place.name)
            }
            effect(revision, &writer.table)
            return Aftermath(garbage: writer.table.collect(), isRewritingDue: isRewritingDue(writer))
        }
        return aftermath.isRewritingDue ? rewriteWhenDue() : nil
    }

    /// Throws unless the log can be written to.
    @inline(__always)
    func check(
        _ writer: borrowing Writer, _ operation: KVStoreError.Operation, _ name: KeyName?
    ) throws(KVStoreError) {
        guard writer.log.isPoisoned || writer.obstacle != nil else { return }
        guard let obstacle = writer.obstacle else {
            throw KVStoreError(.unavailable(.poisoned), operation, key: name?.string, store: place.name)
        }
        throw KVStoreError(
            .unavailable(.inputOutput), operation, key: name?.string, store: place.name, underlying: obstacle)
    }

    private func withBytes<Result>(
        of bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        let outcome = bytes.withUnsafeBytes { buffer -> Swift.Result<Result, KVStoreError> in
            do throws(KVStoreError) {
                return .success(try body(buffer))
            } catch {
                return .failure(error)
            }
        }
        return try outcome.get()
    }
}
