/// The state of a mirror: its position in the remote store's history, and how current it is.
struct MirrorState: Sendable {
    /// The last delivered revision of a store.
    struct Position: Codable, Hashable, Sendable {
        /// The identity of the store (``AsyncKVEntryPage/storeID``).
        var storeID: String?

        /// The revision up to which the stream of changes, or a list, has delivered everything.
        var revision: UInt64?
    }

    /// The condition that a call of `wait` waits for.
    enum Goal: Hashable, Sendable {
        case caughtUp
        case revision(UInt64)

        /// Each name is absent, or has at least a revision.
        case entries([KeyName: UInt64?])
    }

    private(set) var position: Position

    /// The revision of the last list: changes up to it are in the content already.
    private var listed: UInt64?

    /// The revision at which the mirror has caught up.
    private var target: UInt64?
    private(set) var isCaughtUp = false

    /// Whether the next connection begins with a list.
    private(set) var needsList = true

    /// Whether that list is not to be delayed.
    private(set) var isUrgent = true

    /// Whether this connection will list, or is listing.
    private(set) var isListing = false

    /// The number of reads in a row that showed changes which were not delivered.
    private var missedCount = 0
    var provenAt: ContinuousClock.Instant?
    var heardAt = ContinuousClock.now
    var failure: AsyncKVStoreError?
    var copyFailure: (any Error)?
    var isClosed = false

    /// The task that reads the present connection.
    var round: Task<Void, any Error>?
    var waiters: [UInt64: MirrorWaiter] = [:]
    var lastWaiter: UInt64 = 0

    /// Begins at the position of a copy.
    init(_ position: Position) {
        self.position = position
        needsList = position.revision == nil
    }
}

// MARK: Connections

extension MirrorState {
    /// A connection begins; returns the revision from which it may continue.
    mutating func begin() -> UInt64? {
        heardAt = .now
        let revision = needsList ? nil : position.revision
        isListing = revision == nil
        return revision
    }

    /// Compares the remote store with the position from which its changes will be followed. Returns false if it is
    /// another store or has an older revision, so that a list is necessary.
    mutating func canContinue(with page: AsyncKVEntryPage, asked: ContinuousClock.Instant) -> Bool {
        guard page.storeID == position.storeID, let present = page.revision, let reached = position.revision,
            present >= reached
        else {
            isListing = true
            return false
        }
        target = present
        failure = nil
        advance(at: asked)
        return true
    }

    /// Takes the revision that a read has found. Returns whether it proves that the mirror is current.
    mutating func isProven(by page: AsyncKVEntryPage, asked: ContinuousClock.Instant) -> Bool {
        guard page.storeID == position.storeID, page.revision != nil, page.revision == position.revision else {
            return false
        }
        (provenAt, heardAt) = (asked, .now)
        return true
    }

    /// Whether no message has arrived for a time. The pages of a list count as messages.
    mutating func isSilent(for limit: Duration) -> Bool {
        if isListing { heardAt = .now }
        return ContinuousClock.now - heardAt >= limit
    }

    /// The connection has failed.
    mutating func fail(_ error: AsyncKVStoreError) {
        failure = error
        isCaughtUp = false
        target = nil
    }

    /// Ends the present connection for a list, unless it will list anyway.
    mutating func requestList() {
        guard !isListing, !isClosed else { return }
        (needsList, isUrgent) = (true, true)
        round?.cancel()
    }

    /// A read has shown changes that the connection did not deliver: another connection may; after a second time in a
    /// row, a list does.
    mutating func missedChanges() {
        missedCount += 1
        if missedCount > 1 { needsList = true }
        round?.cancel()
    }

    /// Compares the position with the target.
    private mutating func advance(at instant: ContinuousClock.Instant) {
        guard let target, let reached = position.revision, reached >= target else { return }
        (isCaughtUp, failure) = (true, nil)
        provenAt = max(provenAt ?? instant, instant)
    }
}

// MARK: Content

extension MirrorState {
    /// The new state of a name after a reported change; nil if the content is newer than the change.
    func accepted(
        _ name: KeyName, _ entry: KVEntry?, _ revision: UInt64?, over current: UInt64?
    ) -> MirroredChange? {
        guard let revision else { return MirroredChange(name: name, entry: entry) }
        if let entry {
            // A list, or a value that was read with it, may be newer; a batch that is repeated is not.
            guard entry.revision > listed ?? 0, entry.revision > current ?? 0 else { return nil }
            return MirroredChange(name: name, entry: entry)
        }
        // Inside a batch the revision is the one before. At that of the list the name is absent already, or was removed
        // by the next one.
        guard let current, current <= revision, revision >= listed ?? 0 else { return nil }
        return MirroredChange(name: name, entry: nil)
    }

    /// Prepares for a list that the stream needs. Returns whether it may be delayed.
    mutating func mayDelayList() -> Bool {
        if !isUrgent { isListing = false }
        return !isUrgent
    }

    /// A list begins.
    mutating func willList() { isListing = true }

    /// A list was applied.
    mutating func didList(_ position: Position, asked: ContinuousClock.Instant) {
        self.position = position
        (listed, target) = (position.revision, position.revision)
        (needsList, isUrgent, isListing, isCaughtUp) = (false, false, false, true)
        failure = nil
        missedCount = 0
        provenAt = asked
        heardAt = .now
    }

    /// Changes were applied, or a notice arrived.
    mutating func didReceive(upTo revision: UInt64?, at instant: ContinuousClock.Instant) {
        heardAt = instant
        guard let revision else { return }
        missedCount = 0
        position.revision = max(position.revision ?? 0, revision)
        if isCaughtUp { provenAt = instant }
        advance(at: instant)
    }
}
