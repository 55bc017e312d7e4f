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

    /// The state of the present connection.
    enum Phase: Hashable, Sendable {
        /// It asks whether it can continue from the position, or has ended.
        case connecting

        /// It waits for the beginning of the stream, which requires a list.
        case awaitingList

        /// It delays a list, or reads one.
        case listing

        /// It receives the changes after the position.
        case following
    }

    /// A read of the remote store's revision.
    struct Question: Sendable {
        var asked: ContinuousClock.Instant

        /// The revision of the mirror at that time.
        var reached: UInt64?
    }

    /// A revision that the remote store had: when the mirror reaches it, the mirror was current at the time of the
    /// question. The arrival of a message alone proves nothing, because the message may be late.
    private struct Target {
        var revision: UInt64
        var asked: ContinuousClock.Instant
        var answered: ContinuousClock.Instant
    }

    private(set) var position: Position
    private(set) var phase = Phase.connecting

    /// The revision of the last list: changes up to it are in the content already.
    private var listed: UInt64?

    /// The last answer that the mirror has not reached.
    private var target: Target?
    private(set) var isCaughtUp = false

    /// Whether the next connection begins with a list.
    private(set) var needsList = true

    /// Whether the remote store has neither answered a question nor delivered anything since the mirror was created.
    private var hasHeardNothing = true

    /// How often in a row the stream did not deliver changes that the remote store had.
    private var missedCount = 0

    /// Whether this connection has delivered something.
    private(set) var hasProgressed = false

    /// Whether anything has arrived on this connection, perhaps only a notice.
    private var hasBegun = false
    private(set) var provenAt: ContinuousClock.Instant?
    private(set) var heardAt = ContinuousClock.now
    private var askedAt = ContinuousClock.now

    /// Whether a question is not answered yet.
    var isAsking = false
    private(set) var failure: KVStoreError?
    var isClosed = false

    /// The task that reads the present connection.
    var round: Task<Void, any Error>?

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
        target = nil
        (hasProgressed, hasBegun) = (false, false)
        let revision = needsList ? nil : position.revision
        phase = revision == nil ? .awaitingList : .connecting
        return revision
    }

    /// Compares the remote store with the position from which its changes will be followed. Returns false if it is
    /// another store or has an older revision, so that a list is necessary.
    mutating func canContinue(with page: AsyncKVEntryPage, asked: ContinuousClock.Instant) -> Bool {
        guard page.storeID == position.storeID, let present = page.revision, let reached = position.revision,
            present >= reached
        else {
            phase = .awaitingList
            return false
        }
        (phase, askedAt) = (.following, asked)
        aim(at: present, asked)
        return true
    }

    /// The connection has failed.
    mutating func fail(_ error: KVStoreError) {
        failure = error
        isCaughtUp = false
        target = nil
        phase = .connecting
    }

    /// Ends the present connection; the next one begins at once.
    private mutating func end() {
        phase = .connecting
        round?.cancel()
    }

    /// Ends a connection that should be used no more because of an error, unless it has delivered something since the
    /// question was asked.
    mutating func end(_ error: KVStoreError, since question: Question) {
        guard phase == .following, heardAt < question.asked else { return }
        fail(error)
        end()
    }

    private mutating func requestList() {
        needsList = true
        end()
    }
}

// MARK: Silence

extension MirrorState {
    /// The time in which a stream delivers what the remote store has. One that has not begun may still be connecting to
    /// servers that do not answer, or logging in.
    private func allowance(_ patience: Duration) -> Duration { hasBegun ? patience : patience * 10 }

    /// Whether a stream is silent for so long that a call of `wait` asks why.
    func isSilent(_ patience: Duration) -> Bool {
        // For a store without revisions the question leads to a list.
        let limit = position.revision == nil ? patience : patience / 4
        return ContinuousClock.now - max(heardAt, askedAt) >= limit
    }

    /// The time at which the connection is to be examined, if nothing arrives.
    ///
    /// - Parameters:
    ///   - limit: The time between two questions, and for the beginning of a stream.
    ///   - patience: The time in which a stream delivers what the remote store has.
    /// - Returns: The time.
    func examination(after limit: Duration, patience: Duration) -> ContinuousClock.Instant {
        switch phase {
        case .connecting, .listing: .now + limit
        case .awaitingList: heardAt + limit
        case .following:
            if isAsking {
                .now + min(patience, limit)
            } else if let target {
                max(heardAt, target.answered) + allowance(patience)
            } else {
                // Only another list tells about a store without revisions.
                (position.revision == nil ? heardAt : askedAt) + limit
            }
        }
    }

    /// Ends a stream that does not begin, or that does not deliver what the remote store has; otherwise returns the
    /// question to ask.
    mutating func examine(patience: Duration) -> Question? {
        guard phase != .awaitingList else {
            end()
            return nil
        }
        return question(patience: patience)
    }

    /// The question whether the stream has delivered everything; nil if it is being asked, or the last answer is still
    /// being waited for. Ends a stream that does not deliver what the remote store has.
    mutating func question(patience: Duration) -> Question? {
        guard phase == .following, !isAsking else { return nil }
        if let target {
            if ContinuousClock.now - max(heardAt, target.answered) >= allowance(patience) { missedChanges() }
            return nil
        }
        isAsking = true
        askedAt = .now
        return Question(asked: askedAt, reached: position.revision)
    }

    /// The remote store has answered a question.
    mutating func learn(_ page: AsyncKVEntryPage, _ question: Question) {
        guard phase == .following else { return }
        guard let present = page.revision else { return requestList() }
        guard page.storeID == position.storeID, present >= question.reached ?? 0 else {
            isCaughtUp = false
            return requestList()
        }
        hasHeardNothing = false
        aim(at: present, question.asked)
    }

    /// The stream did not deliver changes that the remote store has: another connection may; after a second time in a
    /// row, a list does.
    private mutating func missedChanges() {
        isCaughtUp = false
        missedCount += 1
        if missedCount > 1 { needsList = true }
        end()
    }

    private mutating func aim(at revision: UInt64, _ asked: ContinuousClock.Instant) {
        target = Target(revision: revision, asked: asked, answered: .now)
        advance()
    }

    /// Compares the position with the target.
    private mutating func advance() {
        guard let target, let reached = position.revision, reached >= target.revision else { return }
        self.target = nil
        (isCaughtUp, failure, missedCount) = (true, nil, 0)
        provenAt = max(provenAt ?? target.asked, target.asked)
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
            // Ignores changes that the last list contains, and those of a batch that a new connection repeats.
            guard entry.revision > listed ?? 0, entry.revision > current ?? 0 else { return nil }
            return MirroredChange(name: name, entry: entry)
        }
        // Inside a batch, `revision` is that of the previous batch. So a removal at the revision of the list either is
        // part of the list already, or belongs to the next batch.
        guard let current, current <= revision, revision >= listed ?? 0 else { return nil }
        return MirroredChange(name: name, entry: nil)
    }

    /// The stream needs a list; returns whether it is to be delayed.
    ///
    /// The first list of a mirror is not delayed. Later ones are: their cause often affects a whole fleet at once.
    mutating func willList() -> Bool {
        phase = .listing
        return !hasHeardNothing
    }

    /// A list was applied.
    mutating func didList(_ position: Position, asked: ContinuousClock.Instant) {
        self.position = position
        listed = position.revision
        (target, failure, missedCount) = (nil, nil, 0)
        (needsList, hasHeardNothing, isCaughtUp, hasProgressed) = (false, false, true, true)
        (provenAt, askedAt, heardAt) = (asked, asked, .now)
        phase = .following
    }

    /// Changes, a part of them, or a notice arrived.
    mutating func didHear() { (heardAt, hasBegun) = (.now, true) }

    /// The position after changes up to a revision.
    func position(upTo revision: UInt64?) -> Position {
        var position = position
        if let revision { position.revision = max(position.revision ?? 0, revision) }
        return position
    }

    /// Changes were applied, or a notice arrived, up to a position.
    mutating func didReceive(_ changeCount: Int, upTo new: Position) {
        heardAt = .now
        (failure, hasHeardNothing) = (nil, false)
        if changeCount > 0 || new != position { hasProgressed = true }
        if new != position { missedCount = 0 }
        position = new
        advance()
    }
}
