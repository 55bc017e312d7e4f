public import ForgeKVStore
import Synchronization

/// A key-value store, on this machine or on servers, that records its calls: operations and names, never values.
///
/// It records calls of the requirements of the protocols, so the record shows what the methods built on them cost: an
/// `AsyncKVStoring.update` is an `entry` and a `commit` for each attempt. A call is recorded
/// before it is forwarded, so failed calls are included, and concurrent calls are in the order of arrival. A call of
/// `AsyncKVStoring.changes` is recorded once, not each change that it reports.
public final class RecordingKVStore<Base: Sendable>: KVLayer {
    public let base: Base
    private let recorded = Mutex<[KVStoreCall]>([])

    /// Records the calls of `base` made through this object.
    public init(_ base: Base) {
        self.base = base
    }

    /// The calls since the record was last cleared.
    public var calls: [KVStoreCall] { recorded.withLock { $0 } }

    /// Clears the record.
    public func clear() { recorded.withLock { $0 = [] } }

    private func record(_ operation: KVStoreCall.Operation, _ names: [String] = []) {
        record(KVStoreCall(operation, names))
    }

    private func record(_ call: KVStoreCall) { recorded.withLock { $0.append(call) } }
}

extension RecordingKVStore: KVStoring where Base: KVStoring {
    public func get<T>(_ key: KVKey<T>) -> T? {
        record(.get, [key.name])
        return base.get(key)
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        record(.read, [key.name])
        return try base.read(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        record(.contains, [key.name])
        return base.contains(key)
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        record(.set, [key.name])
        try base.set(key, value: value)
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        record(.remove, [key.name])
        try base.remove(key)
    }

    public func removeAll() throws {
        record(.removeAll)
        try base.removeAll()
    }
}

extension RecordingKVStore: KVRawStoring where Base: KVRawStoring {
    public func keys() throws -> [String] {
        record(.keys)
        return try base.keys()
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        record(.rawValue, [name])
        return try base.rawValue(named: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        record(.setRawValue, [name])
        try base.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws {
        record(.removeValue, [name])
        try base.removeValue(named: name)
    }
}

extension RecordingKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? {
        record(.entry, [name])
        return try base.entry(named: name)
    }

    public func snapshot() throws -> KVSnapshot {
        record(.snapshot)
        return try base.snapshot()
    }

    public func commit(_ batch: KVBatch) throws {
        record(KVStoreCall(batch))
        try base.commit(batch)
    }

    public func synchronize() throws {
        record(.synchronize)
        try base.synchronize()
    }
}

extension RecordingKVStore: AsyncKVStoring where Base: AsyncKVStoring {
    public func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        record(.capabilities)
        return try await base.capabilities()
    }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        record(.entry, [name])
        return try await base.entry(named: name)
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        record(.keys, [prefix])
        return try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        record(.entries, [prefix])
        return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        record(KVStoreCall(batch))
        return try await base.commit(batch, timeToLive: timeToLive)
    }

    public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        record(.changes, [prefix])
        return base.changes(prefix: prefix, from: revision)
    }
}

/// A recorded call of a key-value store: its operation and names, never values.
public struct KVStoreCall: Hashable, Sendable, CustomStringConvertible {
    /// The operations of a store: one case for each requirement of `KVStoring`, `KVRawStoring`,
    /// `KVTransactionalStoring` and `AsyncKVStoring`.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case get, set, remove, contains, removeAll, read
        case keys, rawValue, setRawValue, removeValue
        case entry, snapshot, commit, synchronize
        case capabilities, entries, changes
    }

    /// The operation.
    public var operation: Operation

    /// The names: none, one, the prefix that is listed or followed, or those that a batch changes and requires, in
    /// order.
    public var names: [String]

    /// Creates a call.
    public init(_ operation: Operation, _ names: [String] = []) {
        self.operation = operation
        self.names = names
    }

    public static func == (first: KVStoreCall, second: KVStoreCall) -> Bool {
        first.operation == second.operation && first.names.map(KeyName.init) == second.names.map(KeyName.init)
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(operation)
        hasher.combine(names.map(KeyName.init))
    }

    /// The call that commits a batch.
    public init(_ batch: KVBatch) {
        self.init(.commit, batch.changes.map(\.name) + batch.requirements.map(\.name))
    }

    /// `set "theme"`.
    public var description: String {
        ([operation.rawValue] + names.map { KeyName($0).description }).joined(separator: " ")
    }
}
