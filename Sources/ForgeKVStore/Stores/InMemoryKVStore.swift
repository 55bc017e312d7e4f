import ForgeCoding
import ForgeFileSystem
import Synchronization

/// A key-value store in memory, for tests: it behaves like ``FileKVStore``, without persistence.
///
/// Values are encoded when set and decoded when read, by the same code as on disk, so a value that cannot be encoded
/// fails here too, and values are rounded in the same way.
public final class InMemoryKVStore: KVTransactionalStoring {
    private let table: ValueTable
    private let writer: Mutex<Writer>
    private let maximumValueSize: Int
    let changes = ChangeHub()

    struct Writer: ~Copyable, Sendable {
        var table: TableWriter
        var revision: UInt64 = 0
        var setAside: [(name: String, entry: KVEntry)] = []
    }

    /// Creates an empty store.
    ///
    /// - Parameter maximumValueSizeInBytes: The maximum size of an encoded value; a larger one is refused with
    ///   `.valueTooLarge`.
    public init(maximumValueSizeInBytes: Int = FileKVStore.Options().maximumValueSizeInBytes) {
        let table = ValueTable()
        self.table = table
        writer = Mutex(Writer(table: TableWriter(table)))
        maximumValueSize = maximumValueSizeInBytes
    }

    public func get<T>(_ key: KVKey<T>) -> T? {
        do throws(UndecodableValue) {
            return try value(of: key)
        } catch {
            return nil
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        try key.identity.validate(.read, in: nil)
        do throws(UndecodableValue) {
            return try value(of: key)
        } catch {
            throw KVStoreError(decoding: error.cause, .read, key: key.name)
        }
    }

    private func value<T>(of key: KVKey<T>) throws(UndecodableValue) -> T? {
        while true {
            do throws(TableView.Interruption) {
                return try table.view.value(of: key)
            } catch {
                guard case .encoded(let cell) = error else {
                    waitForWriter()
                    continue
                }
                return try table.decode(cell, of: key) { content in
                    writer.withLock { $0.table.replace(cell, by: content, key.identity) }
                }
            }
        }
    }

    func cell(of name: KeyName) -> ValueCell? {
        while true {
            do throws(TableView.Interruption) {
                return try table.view.cell(of: name)
            } catch {
                waitForWriter()
            }
        }
    }

    private func waitForWriter() { writer.withLock { _ in } }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        let encoded = try ValueTable.encoded(
            value, key.identity, version: key.schemaVersion, maximumSize: maximumValueSize, store: nil)
        var unreadable: ValueCell?
        var readable: ValueCell?
        while let unverified = store(value, encoded.bytes, key, unreadable: unreadable, readable: readable) {
            if OverwritePolicy.isReadable(unverified, as: key) {
                readable = unverified
            } else {
                unreadable = unverified
            }
        }
        withExtendedLifetime(encoded) {}
    }

    /// Stores a value, unless the value that it would replace must be checked first.
    private func store<T>(
        _ value: T, _ bytes: UnsafeRawBufferPointer, _ key: KVKey<T>, unreadable: ValueCell?, readable: ValueCell?
    ) -> ValueCell? {
        var unverified: ValueCell?
        change { writer in
            let entry = writer.table.entry(of: key.identity)
            if let found = OverwritePolicy.unverified(in: entry, .encoded(key)), found.revision != readable?.revision {
                guard found.revision == unreadable?.revision else {
                    unverified = found
                    return
                }
                writer.setAside.append((key.name, KVEntry(found)))
            }
            writer.revision += 1
            writer.table.store(
                ValueTable.content(value, bytes, key, revision: writer.revision), key.identity, in: entry)
            if changes.hasSubscribers { changes.append(key.identity, bytes, writer.revision) }
        }
        return unverified
    }

    /// The values that could not be decoded as the type that replaced them, in the order of their replacement.
    public var setAside: [(name: String, entry: KVEntry)] { writer.withLock { $0.setAside } }

    public func remove<T>(_ key: KVKey<T>) throws {
        try key.identity.validate(.remove, in: nil)
        remove(key.identity)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        cell(of: key.identity) != nil
    }

    public func removeAll() throws {
        change { _, table in
            table.removeAll()
            changes.appendAll { _ in nil }
        }
    }

    public func keys() throws -> [String] { collect(withValues: false).names }

    /// The names that have a value.
    var presentNames: [KeyName] { collect(withValues: false).names.map { KeyName($0) } }

    private func collect(withValues: Bool) -> TableScan {
        TableScan.collect(withValues: withValues) { piece in
            writer.withLock { writer in piece(&writer.table) }
        }
    }

    /// The table, for a store that reads through this one.
    var view: TableView { table.view }

    public func rawValue(named name: String) throws -> [UInt8]? {
        let name = KeyName(name)
        try name.validate(.read, in: nil)
        return cell(of: name)?.bytes
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        let name = KeyName(name)
        try name.validate(.set, in: nil)
        guard bytes.count <= maximumValueSize else { throw KVStoreError(.valueTooLarge, .set, key: name.string) }
        change { revision, table in
            table.store(EncodedCell(bytes, revision: revision), name)
            if changes.hasSubscribers { changes.append(ChangeHub.Change(name, bytes, revision)) }
        }
    }

    public func removeValue(named name: String) throws {
        let name = KeyName(name)
        try name.validate(.remove, in: nil)
        remove(name)
    }

    private func remove(_ name: KeyName) {
        change { revision, table in
            table.remove(name)
            if changes.hasSubscribers { changes.append(ChangeHub.Change(name, nil, revision)) }
        }
    }

    public func entry(named name: String) throws -> KVEntry? {
        let name = KeyName(name)
        try name.validate(.read, in: nil)
        return cell(of: name).map { KVEntry($0) }
    }

    public func snapshot() throws -> KVSnapshot {
        collect(withValues: true).snapshot
    }

    public func commit(_ batch: KVBatch) throws {
        let changes = try PreparedBatch(batch, valueLimit: maximumValueSize, store: nil)
        var checked: Set<UInt64> = []
        var unreadable: [PreparedBatch.UnverifiedValue] = []
        while true {
            let unverified = try commit(changes, checked, unreadable)
            guard !unverified.isEmpty else { break }
            for value in unverified {
                checked.insert(value.cell.revision)
                if !value.isReadable { unreadable.append(value) }
            }
        }
        self.changes.wake()
    }

    /// Applies changes, unless values that they would replace must be checked first: returns those.
    private func commit(
        _ changes: PreparedBatch, _ checked: Set<UInt64>, _ unreadable: [PreparedBatch.UnverifiedValue]
    ) throws(KVStoreError) -> [PreparedBatch.UnverifiedValue] {
        var unverified: [PreparedBatch.UnverifiedValue] = []
        _ = try writer.withLock { (writer) throws(KVStoreError) -> DeferredReclamation.Garbage? in
            try changes.check(writer.table, store: nil)
            unverified = changes.unverified(in: writer.table, except: checked)
            guard unverified.isEmpty else { return nil }
            for value in unreadable where writer.table.revision(of: value.name) == value.cell.revision {
                // Otherwise a write that has replaced it meanwhile has set it aside.
                writer.setAside.append((value.name.string, KVEntry(value.cell)))
            }
            writer.revision += changes.count
            changes.apply(to: &writer.table, last: writer.revision)
            if self.changes.hasSubscribers { self.changes.append(changes.reported(last: writer.revision)) }
            return writer.table.collectGarbage()
        }
        return unverified
    }

    /// No effect: there is no device.
    public func synchronize() throws {}

    /// Changes the table as the next write.
    private func change(_ body: (_ revision: UInt64, inout TableWriter) -> Void) {
        change { writer in
            writer.revision += 1
            body(writer.revision, &writer.table)
        }
    }

    /// The number of values.
    var count: Int { writer.withLock { $0.table.count } }

    func change(_ body: (inout Writer) -> Void) {
        // Values that no reader can see any more are released outside the lock.
        _ = writer.withLock { writer -> DeferredReclamation.Garbage? in
            body(&writer)
            return writer.table.collectGarbage()
        }
        changes.wake()
    }
}

extension InMemoryKVStore {
    public func subscribe(to scope: KVScope) -> KVChanges? {
        changes.changes(in: scope) { name in
            waitForWriter()
            return cell(of: KeyName(name)).map { KVEntry($0) }
        }
    }
}
