import Logging

/// A store of typed values by name.
///
/// ``FileKVStore`` and ``UserDefaultsKVStore`` keep values on disk, ``InMemoryKVStore`` in memory; ``ReactiveKVStore``
/// adds streams to any of them. ``KVRawStoring`` and ``KVTransactionalStoring`` have more calls, for stores that can
/// keep their promises. A custom store needs five calls; `read`, `report` and `subscribe` have defaults. The article
/// "Testing your own store" of ForgeStorageTesting shows one, and the checks of these promises.
///
/// Names are compared by their bytes. A name longer than ``KVKey/maximumNameLength`` is absent: ``KVStoring/get(_:)``
/// returns nil, ``KVStoring/contains(_:)`` false, and ``KVStoring/subscribe(to:)`` changes that begin with its absence
/// and have no others. All other calls that take a name refuse it with `.invalidKey`.
///
/// The code of a value, which is its `encode(to:)`, its `init(from:)` and the migrations of its key, may read the
/// store: a store does not run it while it holds a lock that a read needs, nor one for which a read waits behind a writer.
/// The stores of this package let it write too; a custom store may encode a value under a lock of its writers.
///
/// A store that is opened again, after its last reference was released, has what its calls have left: also after removals
/// and ``KVStoring/removeAll()``, refused calls, writes by several threads, and earlier openings. There is no call that
/// closes a store; its `deinit` ends it.
///
/// All calls are thread-safe. Once `set` returns, every later `get` in any thread returns the value. Values are copied
/// by encoding: a value that is read equals the one that was set, as far as its encoding preserves it, and is never the
/// same object. A store may refuse encoded values above a size with `.valueTooLarge`; unless it is configured otherwise, the
/// size is at least that of 4 MiB of bytes together with 1 KiB for their encoding.
public protocol KVStoring: Sendable {
    /// The value of a key; nil if it is absent, has another type, or cannot be read.
    ///
    /// To tell these apart, call ``KVStoring/read(_:)``.
    func get<T>(_ key: KVKey<T>) -> T?

    /// Stores a value, replacing any existing one: a concurrent reader finds the old value or the new one, never none.
    ///
    /// A value that equals the old one is stored all the same: its encoding may be another. Nil of an optional type is a
    /// value: the key exists and its value is nil. The old value may be of any type, and of a later version than the
    /// key's. ``FileKVStore`` and ``InMemoryKVStore`` keep a copy of one that cannot be read as the type of the new one; a
    /// custom store may replace it without.
    ///
    /// To see whether the old value can be read, a store may call `init(from:)` of `T`, with no lock held and again after
    /// a concurrent write. It must not write the key itself: after 10,000 times the call throws `.conflict`.
    ///
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.durabilityUnknown` or `.unknownOutcome`.
    func set<T>(_ key: KVKey<T>, value: T) throws

    /// Removes a key and its value; has no effect if the key is absent.
    func remove<T>(_ key: KVKey<T>) throws

    /// Whether the key has a value, of any type.
    func contains<T>(_ key: KVKey<T>) -> Bool

    /// Removes every key, or none if it throws.
    ///
    /// A ``KVTransactionalStoring/snapshot()`` contains all values from before the call or none of them. A concurrent
    /// reader of one key after another may find some of the values of a store without snapshots, and not others.
    func removeAll() throws

    /// The value of a key; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` if the value is not of this type, `.newerSchema(version:)` if it is
    ///   of a later version than the key's, `.unavailable` if the store cannot be read; the value is kept. The default
    ///   forwards to ``KVStoring/get(_:)`` and so cannot tell these from an absent key.
    func read<T>(_ key: KVKey<T>) throws -> T?

    /// Reports a problem of a call that cannot throw, such as an assignment to a ``Setting``, to the store's handler,
    /// on the calling thread. The default logs it; a layer forwards it to its base store.
    func report(_ issue: KVStoreIssue)

    /// Subscribes to the changes of the store by this process and, in a shared store, by others.
    ///
    /// ``FileKVStore`` and ``InMemoryKVStore`` report every change in the order of the writes, ``UserDefaultsKVStore``
    /// those made by its own objects and those that Foundation announces, ``MirroredKVStore`` those of the remote store;
    /// layers report the changes of their base store. A change is reported after it has become visible to reads, with
    /// the revision of its entry, and the changes of a batch together. A ``KVTransactionalStoring`` reports nothing for
    /// the removal of an absent name, unless it is part of a batch, and for a batch that is refused. The default reports
    /// none; a store that reports changes reports those of every call. A custom store does so with a
    /// ``ForgeFileSystem/ChangeHub``.
    ///
    /// - Parameter scope: The names; a prefix may be longer than a name, and then has none. The changes of a key begin
    ///   with its present entry, which is nil if it is absent, and leave out writes that do not change the bytes; of
    ///   several changes of a key in one batch, they have the last. Those of a prefix begin with the first change.
    /// - Returns: The changes from now on, for one consumer; nil if the store does not report changes. Each call
    ///   creates a subscription of its own, which gets every change.
    func subscribe(to scope: KVScope) -> KVChanges?
}

extension KVStoring {
    public func read<T>(_ key: KVKey<T>) throws -> T? { get(key) }

    public func report(_ issue: KVStoreIssue) { Logger(label: "ForgeKVStore").error("\(issue)") }

    public func subscribe(to scope: KVScope) -> KVChanges? { nil }
}

/// A key-value store that can list its keys, and read and store encoded values of any type.
///
/// For tools, wrapping stores, import and export.
public protocol KVRawStoring: KVStoring {
    /// The names of all keys, in no particular order.
    ///
    /// - Throws: ``KVStoreError``.
    func keys() throws -> [String]

    /// The encoded value of a name, of any type; nil if it is absent.
    ///
    /// `ForgeCoding` decodes the bytes.
    ///
    /// - Throws: ``KVStoreError`` with the operation `.read`.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores an encoded value, as returned by ``KVRawStoring/rawValue(named:)``.
    ///
    /// The bytes are not validated; invalid bytes fail when they are read.
    ///
    /// - Throws: ``KVStoreError`` with the operation `.set`. The old value is kept unless the code is
    ///   `.durabilityUnknown` or `.unknownOutcome`.
    func setRawValue(_ bytes: [UInt8], named name: String) throws

    /// Removes a name and its value, of any type; has no effect if it is absent.
    ///
    /// - Throws: ``KVStoreError`` with the operation `.remove`.
    func removeValue(named name: String) throws
}

extension KVRawStoring {
    /// The names of all keys with a prefix, compared byte by byte, in no particular order.
    public func keys(prefix: String) throws -> [String] {
        try keys().filter { $0.utf8.starts(with: prefix.utf8) }
    }
}

/// A key-value store with revisions, atomic batches, snapshots and a call that makes writes durable.
public protocol KVTransactionalStoring: KVRawStoring {
    /// The encoded value of a name and its revision; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError`` with the operation `.read`.
    func entry(named name: String) throws -> KVEntry?

    /// All names and values at one instant.
    ///
    /// - Throws: ``KVStoreError``.
    func snapshot() throws -> KVSnapshot

    /// Applies the changes of a batch, in their order, atomically if its requirements hold.
    ///
    /// A concurrent reader of one key after another that has found one change of the batch finds all of them.
    ///
    /// - Throws: ``KVStoreError`` with the operation `.batch`: `.invalidKey` if the name of a change or of a
    ///   requirement is too long, also if a requirement does not hold; `.conflict`, with the name as the key, if one
    ///   does not. Nothing was changed unless the code is `.durabilityUnknown`.
    func commit(_ batch: KVBatch) throws

    /// Waits until every earlier write is durable against a power cut.
    ///
    /// - Throws: ``KVStoreError``.
    func synchronize() throws
}

/// Calls of other stores, declared unavailable so that the compiler suggests the right ones.
extension KVStoring {
    @available(*, unavailable, message: "a key-value store takes the key first: set(key, value: value)")
    public func set<T>(_ value: T, for key: KVKey<T>) throws { fatalError("unavailable") }

    @available(*, unavailable, message: "a key-value store is written with set(key, value: value)")
    public func save<T>(_ value: T, for key: KVKey<T>) throws { fatalError("unavailable") }
}
