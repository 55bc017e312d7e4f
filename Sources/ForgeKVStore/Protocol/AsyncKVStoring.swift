/// A key-value store that other machines may share: the asynchronous sibling of ``KVStoring``.
///
/// A store implements five calls, and `entries` if it can read at one revision; typed values, conditional writes and
/// batches are built on them (``AsyncKVStoring/read(_:)``,
/// ``AsyncKVStoring/compareAndSet(_:revision:value:timeToLive:)``). ``LocalAsyncKVStore`` makes any local store one, so
/// that tests of code for a fleet of servers run in memory. Stores differ in what they can promise and declare it
/// (``AsyncKVCapabilities``): a call that a store does not support throws `.refused`.
///
/// It does not refine ``KVStoring``, nor the reverse: code with an `any KVStoring` never waits for a network.
///
/// All calls are thread-safe. Cancelling the task ends a call early: with `.cancelled` if nothing was changed, with
/// `.unknownOutcome` if a write had been sent.
public protocol AsyncKVStoring: Sendable {
    /// The store's abilities and limits. The first call may send a request to the server.
    ///
    /// - Throws: ``KVStoreError``.
    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities

    /// The encoded value of a name and its revision; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``.
    func entry(named name: String) async throws(KVStoreError) -> KVEntry?

    /// Some of the names with a prefix, in the order of their bytes.
    ///
    /// Pages are read one by one: a name that exists during all of the calls is in exactly one page, a name that is
    /// added or removed meanwhile may be missing.
    ///
    /// - Parameters:
    ///   - prefix: The prefix, compared byte by byte.
    ///   - after: The last name of the page before; nil for the first page.
    ///   - limit: The maximum number of names; less than 1 counts as 1. The store may return fewer.
    /// - Returns: The names, at least one unless there are no more.
    /// - Throws: ``KVStoreError``.
    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage

    /// Some of the values whose names have a prefix, in the order of the bytes of their names, as they were at one
    /// revision.
    ///
    /// A store whose pages have a revision shows all writes that were acknowledged before the call for the first page.
    /// The default reads the names of a page and then their values one by one: the page has the revision of the names,
    /// and a value may be newer. Pages without a revision show different instants.
    ///
    /// - Parameters:
    ///   - prefix: The prefix, compared byte by byte.
    ///   - after: The last name of the page before; nil for the first page.
    ///   - limit: The maximum number of values; less than 1 counts as 1. The store may return fewer.
    ///   - revision: The revision of the first page; nil for the present one.
    /// - Returns: The values, at least one unless there are no more.
    /// - Throws: ``KVStoreError``, also if the store does not keep the revision any more.
    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage

    /// Applies the changes of a batch atomically if its requirements hold.
    ///
    /// Of several changes of one name the last takes effect. The values of one batch may share a revision, and a
    /// revision is greater than those of all writes that were acknowledged before.
    ///
    /// - Parameters:
    ///   - batch: The changes and requirements.
    ///   - timeToLive: How long the stored values exist; nil, without end. They become absent at the earliest after
    ///     this time, at the latest later by ``AsyncKVCapabilities/expiry``.
    /// - Returns: A revision of the store that shows the batch: that of its values, if it stores any. Nil if the store
    ///   does not tell.
    /// - Throws: ``KVStoreError``: `.conflict` if a requirement does not hold. Nothing was changed unless the code
    ///   is `.unknownOutcome` or `.durabilityUnknown`.
    @discardableResult
    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64?

    /// The changes of the names with a prefix, by any client of the store.
    ///
    /// Without a revision the first element is ``KVChange/resync``, and every change after it is reported: list
    /// the names on each `.resync`, then follow the changes. Several changes of one name may be reported as the last.
    ///
    /// - Parameters:
    ///   - prefix: The prefix, compared byte by byte.
    ///   - revision: The revision of an ``KVChange`` or an ``AsyncKVPage``: changes after it are reported, and
    ///     `.resync` comes first only if the store cannot replay them.
    /// - Returns: The changes, for one consumer.
    func changes(prefix: String, from revision: UInt64?) -> KVChanges
}

/// Some of the names of a store, in the order of their bytes.
public struct AsyncKVPage: Sendable {
    /// The names.
    public var names: [String]

    /// Whether there may be names after the last one.
    public var hasMore: Bool

    /// The revision of the store that the page shows, for ``AsyncKVStoring/changes(prefix:from:)``; nil if the store
    /// does not replay changes.
    public var revision: UInt64?

    /// Creates a page.
    public init(names: [String], hasMore: Bool, revision: UInt64? = nil) {
        self.names = names
        self.hasMore = hasMore
        self.revision = revision
    }
}

extension AsyncKVPage: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var names: [KeyName]
        var hasMore: Bool
        var revision: UInt64?
    }

    var identity: Identity { Identity(names: names.map(KeyName.init), hasMore: hasMore, revision: revision) }
}

/// Some of the values of a store, in the order of the bytes of their names.
public struct AsyncKVEntryPage: Sendable {
    /// The names and values.
    public var entries: [(name: String, entry: KVEntry)]

    /// Whether there may be values after the last one.
    public var hasMore: Bool

    /// The revision of the store that the page shows; nil if the store has none.
    public var revision: UInt64?

    /// Identifies the store whose revisions these are, such as a cluster of servers; nil if it cannot be identified.
    /// Revisions of stores with different identifiers cannot be compared.
    public var storeID: String?

    /// The keys in the range of the page that are no names of a store: not valid UTF-8, or too long. Other programs have
    /// written them, and no call reads them. A key can be in more than one page.
    public var foreignKeys: [[UInt8]] = []

    /// Creates a page.
    public init(
        entries: [(name: String, entry: KVEntry)], hasMore: Bool, revision: UInt64? = nil, storeID: String? = nil
    ) {
        self.entries = entries
        self.hasMore = hasMore
        self.revision = revision
        self.storeID = storeID
    }
}

extension AsyncKVStoring {
    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        var page = AsyncKVEntryPage(entries: [], hasMore: true)
        var last = after
        // More than one page of names only if all of its values were removed meanwhile.
        while page.hasMore, page.entries.isEmpty {
            let names = try await keys(prefix: prefix, after: last, limit: limit)
            for name in names.names {
                guard let entry = try await entry(named: name) else { continue }
                page.entries.append((name, entry))
            }
            page.revision = page.revision ?? names.revision
            page.hasMore = names.hasMore && !names.names.isEmpty
            last = names.names.last
        }
        return page
    }
}

/// The abilities and limits that a store declares, and that the conformance checks verify.
public struct AsyncKVCapabilities: Hashable, Sendable {
    /// How changes are reported.
    public enum Changes: Hashable, Sendable {
        /// Not at all: ``AsyncKVStoring/changes(prefix:from:)`` throws `.refused`.
        case none

        /// Only while a sequence is connected: after an interruption, and from a revision, it begins with `.resync`.
        case lossy

        /// From any revision that the store still keeps, without a gap.
        case replayable
    }

    /// Which writes a read sees.
    public enum ReadConsistency: Hashable, Sendable {
        /// All that were acknowledged before the read began, by any client.
        case linearizable

        /// Those up to an earlier instant.
        case stale
    }

    /// The worst failure that an acknowledged write survives.
    public enum Durability: Hashable, Sendable, Comparable {
        /// None: writes are lost when the process ends.
        case memory

        /// The end of every process that uses the store, including a kill.
        case processEnd

        /// A power cut.
        case powerCut
    }

    /// The maximum number of names that a batch changes; nil without a limit. A larger batch is `.tooLarge` before
    /// anything is sent.
    public var maximumBatchSize: Int?

    /// By how much a value may outlive its time to live; nil if the store has no times to live: they are `.refused`.
    public var expiry: Duration?

    /// How changes are reported.
    public var changes: Changes

    /// Which writes a read sees.
    public var readConsistency: ReadConsistency

    /// The worst failure that an acknowledged write survives.
    public var durability: Durability

    /// Creates a declaration.
    public init(
        maximumBatchSize: Int?, expiry: Duration?, changes: Changes, readConsistency: ReadConsistency,
        durability: Durability
    ) {
        self.maximumBatchSize = maximumBatchSize
        self.expiry = expiry
        self.changes = changes
        self.readConsistency = readConsistency
        self.durability = durability
    }
}

/// Typed values, built on ``entry(named:)`` and ``commit(_:timeToLive:)``.
extension AsyncKVStoring {
    /// The value of a key; nil if it is absent, has another type, or cannot be read.
    ///
    /// To tell these apart, call ``AsyncKVStoring/read(_:)``.
    public func get<T>(_ key: KVKey<T>) async -> T? {
        do throws(KVStoreError) {
            return try await read(key)
        } catch {
            return nil
        }
    }

    /// The value of a key; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` if the value is not of this type, `.unavailable(.server)` or `.timeout`
    ///   if the store cannot be read.
    public func read<T>(_ key: KVKey<T>) async throws(KVStoreError) -> T? { try await versioned(key)?.value }

    /// The value of a key and its revision; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``, as by `read`.
    public func versioned<T>(_ key: KVKey<T>) async throws(KVStoreError) -> (value: T, revision: UInt64)? {
        guard let entry = try await entry(named: key.name) else { return nil }
        return (try entry.value(of: key), entry.revision)
    }

    /// Whether the key has a value, of any type.
    ///
    /// - Throws: ``KVStoreError`` if the store cannot be read.
    public func contains<T>(_ key: KVKey<T>) async throws(KVStoreError) -> Bool {
        try await entry(named: key.name) != nil
    }

    /// Stores a value, replacing any existing one with its time to live.
    ///
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.unknownOutcome` or
    ///   `.durabilityUnknown`.
    public func set<T>(_ key: KVKey<T>, value: T, timeToLive: Duration? = nil) async throws(KVStoreError) {
        let batch = try KVBatch(setting: key, to: value)
        do throws(KVStoreError) {
            try await commit(batch, timeToLive: timeToLive)
        } catch {
            throw error.of(.set, key.name)
        }
    }

    /// Removes a key and its value, of whatever type; has no effect if it is absent.
    ///
    /// - Throws: ``KVStoreError``. The value is kept unless the code is `.unknownOutcome` or `.durabilityUnknown`.
    public func remove<T>(_ key: KVKey<T>) async throws(KVStoreError) {
        var batch = KVBatch()
        batch.remove(key)
        do throws(KVStoreError) {
            try await commit(batch, timeToLive: nil)
        } catch {
            throw error.of(.remove, key.name)
        }
    }

    /// Stores a value if the key is absent.
    ///
    /// - Returns: Whether the value was stored.
    /// - Throws: ``KVStoreError``, as by ``compareAndSet(_:revision:value:timeToLive:)``.
    @discardableResult
    public func createIfAbsent<T>(
        _ key: KVKey<T>, value: T, timeToLive: Duration? = nil
    ) async throws(KVStoreError) -> Bool {
        try await compareAndSet(key, revision: nil, value: value, timeToLive: timeToLive)
    }

    /// Stores a value if the current one has a given revision.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - revision: The revision from `versioned`; nil requires the key to be absent.
    ///   - value: The new value.
    ///   - timeToLive: How long the value exists; nil, without end, even if the old one had an end.
    /// - Returns: Whether the revision matched and the value was stored.
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.unknownOutcome` or
    ///   `.durabilityUnknown`.
    @discardableResult
    public func compareAndSet<T>(
        _ key: KVKey<T>, revision: UInt64?, value: T, timeToLive: Duration? = nil
    ) async throws(KVStoreError) -> Bool {
        var batch = try KVBatch(setting: key, to: value)
        batch.require(key, revision: revision)
        do throws(KVStoreError) {
            try await commit(batch, timeToLive: timeToLive)
            return true
        } catch {
            if error.code == .conflict { return false }
            throw error.of(.set, key.name)
        }
    }

    /// Updates a value atomically: no other write occurs between reading and writing.
    ///
    /// The closure runs again after a concurrent write, at most 10,000 times, so it must have no other effect, and must
    /// not write the key itself.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - initial: The value passed to the closure if the key is absent.
    ///   - timeToLive: How long the new value exists; nil, without end, even if the old one had an end.
    ///   - change: Changes the value.
    /// - Returns: The stored value.
    /// - Throws: ``KVStoreError``, and the error of the closure; the old value is kept, unless the code is
    ///   `.unknownOutcome` or `.durabilityUnknown`.
    @discardableResult
    public func update<T>(
        _ key: KVKey<T>, default initial: @autoclosure () -> T, timeToLive: Duration? = nil,
        _ change: (inout T) throws -> Void
    ) async throws -> T {
        var attempts = UpdateAttempts(of: key.name)
        while true {
            let old = try await versioned(key)
            var value = old?.value ?? initial()
            try change(&value)
            if try await compareAndSet(key, revision: old?.revision, value: value, timeToLive: timeToLive) {
                return value
            }
            try attempts.didFail()
        }
    }

    /// Makes several changes atomically, for concurrent readers and across a crash.
    ///
    /// - Parameters:
    ///   - timeToLive: How long the stored values exist; nil, without end.
    ///   - changes: Adds the changes to a batch.
    /// - Throws: ``KVStoreError``, and the error of the closure; nothing was changed, unless the code is
    ///   `.unknownOutcome` or `.durabilityUnknown`.
    public func batch(timeToLive: Duration? = nil, _ changes: (inout KVBatch) throws -> Void) async throws {
        var batch = KVBatch()
        try changes(&batch)
        try await commit(batch, timeToLive: timeToLive)
    }

    /// All names with a prefix, in the order of their bytes, read in pages.
    ///
    /// - Throws: ``KVStoreError``.
    /// - Complexity: One request for every 1,000 names.
    public func keys(prefix: String = "") async throws(KVStoreError) -> [String] {
        var names: [String] = []
        while true {
            let page = try await keys(prefix: prefix, after: names.last, limit: 1000)
            names += page.names
            guard page.hasMore, !page.names.isEmpty else { return names }
        }
    }

    /// The changes of all names from now on; see ``changes(prefix:from:)``.
    public func changes() -> KVChanges { changes(prefix: "", from: nil) }
}

extension KVEntry {
    /// The decoded value.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` if it is not of the key's type.
    public func value<T>(of key: KVKey<T>) throws(KVStoreError) -> T { try key.decode(bytes) }
}

extension KVBatch {
    /// The batch of one value.
    fileprivate init<T>(setting key: KVKey<T>, to value: T) throws(KVStoreError) {
        self.init()
        do {
            try set(key, value: value)
        } catch {
            throw KVStoreError(of: error, .set, key: key.name).of(.set, key.name)
        }
    }
}
