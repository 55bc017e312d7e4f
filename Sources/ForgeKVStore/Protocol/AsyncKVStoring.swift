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
public struct AsyncKVPage: Hashable, Sendable {
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
    public enum Durability: Int, Hashable, Sendable, Comparable {
        /// None: writes are lost when the process ends.
        case memory

        /// The end of every process that uses the store, including a kill.
        case processEnd

        /// A power cut.
        case powerCut

        public static func < (left: Durability, right: Durability) -> Bool { left.rawValue < right.rawValue }
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
