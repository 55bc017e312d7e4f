import ForgeFileSystem
import Synchronization

/// A key-value store in memory, for tests: it behaves like ``FileKVStore``, without persistence.
///
/// It is the same engine without a log. Values are encoded when set and decoded when read, by the same code as on disk,
/// so a value that cannot be encoded fails here too, and values are rounded in the same way.
///
/// Not simulated: all that comes from the disk and from other processes. No call fails because the store is in use, closed,
/// locked, read-only or damaged, or the device full or broken; ``KVTransactionalStoring/synchronize()`` does nothing; and
/// no value of another type is reported (``setAside`` has those that were overwritten). For these, open a ``FileKVStore``
/// on an `InMemoryFileSystem`, on a `FaultingFileSystem` of ForgeStorageTesting, or on a `SimulatedDevice` of
/// ForgeCrashTesting.
public final class InMemoryKVStore: KVTransactionalStoring, WritableEngineStore {
    let engine: KVEngine

    /// The engine's table, cached here: valid for the lifetime of the engine, and readable without a lock.
    private let table: TableView

    /// Creates an empty store.
    ///
    /// - Parameter maximumValueSizeInBytes: The maximum size of an encoded value, at most 4 GiB; a larger one is refused
    ///   with `.valueTooLarge`.
    public init(maximumValueSizeInBytes: Int = FileKVStore.Options().maximumValueSizeInBytes) {
        engine = KVEngine(inMemory: FileKVStore.Options(maximumValueSizeInBytes: maximumValueSizeInBytes))
        table = engine.table.view
    }

    @_specialize(where T == Int)
    @_specialize(where T == String)
    @_specialize(where T == Bool)
    @_specialize(where T == Double)
    public func get<T>(_ key: KVKey<T>) -> T? {
        do throws(TableView.Interruption) {
            return try table.value(of: key)
        } catch {
            return get(key, after: error)
        }
    }

    @inline(never)
    private func get<T>(_ key: KVKey<T>, after interruption: TableView.Interruption) -> T? {
        do throws(UndecodableValue) {
            return try engine.value(of: key, after: interruption)
        } catch {
            return nil
        }
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws { _ = try engine.set(value, for: key) }

    public func commit(_ batch: KVBatch) throws { _ = try engine.commit(batch) }

    /// No effect: there is no device.
    public func synchronize() throws {}

    /// The values that could not be decoded as the type that was to replace them, in the order of being found.
    public var setAside: [(name: String, entry: KVEntry)] { engine.writer.withLock { $0.setAside } }
}

/// For a store that keeps its content here.
extension InMemoryKVStore {
    /// The table, for a store that reads through this one.
    var view: TableView { table }

    func cell(of name: KeyName) -> ValueCell? { engine.cell(of: name) }

    /// The number of values.
    var count: Int { engine.writer.withLock { $0.table.count } }

    /// Where ``change(_:)`` reports what it changes.
    var changes: ChangeHub { engine.changes }

    /// Changes the table as the next write.
    func change(_ body: (inout TableWriter) -> Void) throws(KVStoreError) {
        try engine.write(.batch) { (writer) throws(KVStoreError) in body(&writer.table) }
    }
}
