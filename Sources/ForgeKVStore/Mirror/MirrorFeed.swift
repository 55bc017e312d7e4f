import ForgeFileSystem
import Synchronization

/// Lists a remote store, follows its changes, and keeps a store in memory equal to it.
///
/// One task at a time reads a connection (a *round*) and alone changes the content.
final class MirrorFeed: Sendable {
    let source: any AsyncKVStoring
    let configuration: MirroredKVStore.Configuration

    /// The content. Values of any size are accepted: the remote store has the limit.
    let memory: InMemoryKVStore
    let state: Mutex<MirrorState>
    let copy: MirrorCopyWriter?
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Wakes the calls of `wait`.
    private let progress = ChangeHub()

    /// The largest number of values in a page of the next list.
    let pageLimit = Atomic(MirrorFeed.largestPage)

    init(_ source: any AsyncKVStoring, _ configuration: MirroredKVStore.Configuration) throws {
        self.source = source
        self.configuration = configuration
        let memory = InMemoryKVStore(maximumValueSizeInBytes: .max)
        self.memory = memory
        let copy = try configuration.copy.map { try MirrorCopy($0) }
        let (content, position) = try copy?.content() ?? ([], MirrorState.Position())
        try memory.load(content)
        self.copy = copy.map { MirrorCopyWriter($0, of: memory, at: position) }
        state = Mutex(MirrorState(position))
    }

    func start() { task.withLock { $0 = Task { await run() } } }

    /// Ends the connection.
    func stop() {
        let round = state.withLock { state in
            state.isClosed = true
            return state.round
        }
        round?.cancel()
        task.withLock { $0 }?.cancel()
        noteProgress()
    }

    func close() async throws {
        stop()
        await task.withLock { $0 }?.value
        try await copy?.close()
    }

    // MARK: Connections

    private func run() async {
        var limit = Self.firstBackoff
        while !Task.isCancelled {
            let start = ContinuousClock.now
            let round = Task { try await follow() }
            let isClosed = state.withLock { state in
                state.round = round
                return state.isClosed
            }
            if isClosed { round.cancel() }
            let result = await withTaskCancellationHandler {
                await round.result
            } onCancel: {
                round.cancel()
            }
            // A cancelled round is replaced at once.
            guard case .failure(let error) = result, !round.isCancelled else { continue }
            let hasProgressed = state.withLock { state in
                state.fail(KVStoreError(of: error, .changes))
                return state.hasProgressed
            }
            // A connection that passes the check but ends at once is a failure too: the back-off continues to grow.
            if hasProgressed || ContinuousClock.now - start >= configuration.longestBackoff {
                limit = Self.firstBackoff
            }
            do { try await Task.sleep(for: limit * Double.random(in: 0...1)) } catch { return }
            limit = min(limit * 2, configuration.longestBackoff)
        }
    }

    private static let firstBackoff = Duration.milliseconds(50)

    /// Follows the changes of one connection until it fails or the task is cancelled.
    private func follow() async throws {
        var from = state.withLock { $0.begin() }
        if from != nil {
            let asked = ContinuousClock.now
            let page = try await firstEntry()
            if !state.withLock({ $0.canContinue(with: page, asked: asked) }) { from = nil }
            noteProgress()
        }
        let supervisor = Task { await supervise() }
        defer { supervisor.cancel() }
        var changes = source.changes(prefix: "", from: from).makeAsyncIterator()
        var batch = MirrorBatch()
        while let update = try await changes.nextSet() {
            state.withLock { $0.didHear() }
            batch.append(update)
            guard batch.isComplete else { continue }
            try await receive(batch.take())
        }
        guard !Task.isCancelled else { return }
        throw KVStoreError(.unavailable(.server), .changes, detail: "the changes have ended")
    }

    /// Reads one entry, for the revision and the identity of the remote store.
    private func firstEntry() async throws(KVStoreError) -> AsyncKVEntryPage {
        try await source.entries(prefix: "", after: nil, limit: 1, at: nil)
    }

    /// Asks for the revision of the remote store.
    func ask(_ question: MirrorState.Question) async throws(KVStoreError) {
        defer { state.withLock { $0.isAsking = false } }
        let page = try await firstEntry()
        state.withLock { $0.learn(page, question) }
        noteProgress()
    }

    /// Ends the round if its silence means that changes were missed.
    private func supervise() async {
        while !Task.isCancelled {
            let limit = configuration.revisionCheckInterval * Double.random(in: 0.9...1)
            let patience = configuration.patience
            let end = state.withLock { $0.examination(after: limit, patience: patience) }
            do { try await Task.sleep(until: end, clock: .continuous) } catch { return }
            let question = state.withLock { state -> MirrorState.Question? in
                guard !Task.isCancelled, state.examination(after: limit, patience: patience) <= .now else { return nil }
                return state.examine(patience: patience)
            }
            guard let question else { continue }
            do throws(KVStoreError) {
                try await ask(question)
            } catch {
                guard !Task.isCancelled else { return }
                state.withLock { $0.end(error, since: question) }
            }
        }
    }

    // MARK: Content

    private func receive(_ update: KVChangeSet) async throws {
        var changes: [MirroredChange] = []
        // The last revision of a name in this update, which is not in memory yet.
        var changed: [KeyName: UInt64?] = [:]
        for change in update.changes {
            switch change {
            case .resync:
                (changes, changed) = ([], [:])
                try await list()
            case .changed(let text, let entry, let revision):
                guard text.utf8.count <= KeyName.maximumLength else { continue }
                let name = KeyName(text)
                let current = changed[name] ?? memory.revision(of: name)
                let accepted = state.withLock { $0.accepted(name, entry, revision, over: current) }
                guard let accepted else { continue }
                changes.append(accepted)
                changed[name] = .some(entry?.revision)
            }
        }
        let position = state.withLock { $0.position(upTo: update.revision) }
        let names = changes.map(\.name)
        try change(names, position) { () throws(KVStoreError) in
            try memory.apply(changes, reporting: names)
        }
        state.withLock { $0.didReceive(changes.count, upTo: position) }
        noteProgress()
    }

    private func list() async throws {
        if state.withLock({ $0.willList() }) {
            try await Task.sleep(for: configuration.listJitter * Double.random(in: 0...1))
        }
        let asked = ContinuousClock.now
        let (entries, position) = try await readList()
        try Task.checkCancellation()
        if memory.isEmpty, !entries.isEmpty {
            try change(nil, position) { () throws(KVStoreError) in try memory.load(entries) }
        } else {
            let difference = try memory.difference(to: entries)
            try change(difference.changes.map(\.name), position) { () throws(KVStoreError) in
                try memory.apply(difference.changes, reporting: difference.names)
            }
        }
        state.withLock { $0.didList(position, asked: asked) }
        noteProgress()
    }

    /// Calls `body`, which changes the values of `names` in memory, or with nil of any name, and schedules the same
    /// changes of the copy.
    private func change(
        _ names: [KeyName]?, _ position: MirrorState.Position, _ body: () throws(KVStoreError) -> Void
    ) throws(KVStoreError) {
        guard let copy else { return try body() }
        try copy.record(names, position, body)
    }
}

extension MirrorFeed {
    /// The size of the values after which a page of a list is to end. Servers build an answer in memory.
    static let pageSizeInBytes = 4 << 20

    private static let smallestPage = 16
    static let largestPage = 1 << 20

    /// All values at one revision.
    ///
    /// The pages grow: a server may count all keys for each of them.
    func readList() async throws(KVStoreError) -> (MirroredList, MirrorState.Position) {
        var limit = min(max(configuration.pageSize, 1), pageLimit.load(ordering: .relaxed))
        var page = try await readPage(limit, after: nil, at: nil)
        // Pages without a revision show different instants.
        if page.revision == nil, page.hasMore { page = try await readWhole() ?? page }
        var entries = page.entries
        let position = MirrorState.Position(storeID: page.storeID, revision: page.revision)
        while page.hasMore, let last = page.entries.last {
            let size = page.entries.reduce(0) { $0 + $1.name.utf8.count + $1.entry.bytes.count }
            let fitting = Self.pageSizeInBytes / (size / page.entries.count + 1)
            limit = min(limit * 2, max(fitting, Self.smallestPage), pageLimit.load(ordering: .relaxed))
            page = try await readPage(limit, after: last.name, at: position.revision)
            guard page.storeID == position.storeID else {
                throw KVStoreError(.unavailable(.server), .keys, detail: "another store answers")
            }
            entries += page.entries
        }
        guard !page.hasMore else { throw KVStoreError(.unavailable(.server), .keys, detail: "an empty page") }
        pageLimit.store(min(pageLimit.load(ordering: .relaxed) * 2, Self.largestPage), ordering: .relaxed)
        // A longer name is not valid in any store of this process.
        return (entries.filter { $0.name.utf8.count <= KeyName.maximumLength }, position)
    }

    /// All values in one page; nil if the store cannot answer with that.
    private func readWhole() async throws(KVStoreError) -> AsyncKVEntryPage? {
        do throws(KVStoreError) {
            return try await source.entries(prefix: "", after: nil, limit: Int(Int32.max), at: nil)
        } catch {
            guard error.code == .tooLarge || error.code == .timeout else { throw error }
            return nil
        }
    }

    /// A page. If it is too large or late, the pages of the next lists are smaller.
    private func readPage(
        _ limit: Int, after last: String?, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        do throws(KVStoreError) {
            return try await source.entries(prefix: "", after: last, limit: limit, at: revision)
        } catch {
            if error.code == .tooLarge || error.code == .timeout {
                pageLimit.store(max(limit / 4, min(limit, Self.smallestPage)), ordering: .relaxed)
            }
            throw error
        }
    }
}

/// The goal of a wait, which may be replaced meanwhile.
final class MirrorGoal: Sendable {
    let value: Mutex<MirrorState.Goal>

    init(_ goal: MirrorState.Goal) { value = Mutex(goal) }
}

extension MirrorFeed {
    /// Waits until a goal is reached.
    ///
    /// - Parameters:
    ///   - goal: The goal.
    ///   - end: The end of the wait.
    ///   - adjust: Runs during the wait, and may replace the goal.
    /// - Throws: ``KVStoreError``: `.timeout`, `.cancelled`, or `.unavailable(.closed)` if the mirror is closed.
    func wait(
        for goal: MirrorState.Goal, until end: ContinuousClock.Instant,
        adjusting adjust: (@Sendable (MirrorGoal) async throws -> Void)? = nil
    ) async throws(KVStoreError) {
        if state.withLock({ $0.isClosed }) { throw KVStoreError(.unavailable(.closed), .changes) }
        let goal = MirrorGoal(goal)
        let progress = progress.subscribe(to: .prefix([]))
        let timer = Task { [self] in
            let patience = configuration.patience
            let pause = max(patience / 4, .milliseconds(1))
            while ContinuousClock.now < end {
                do { try await Task.sleep(until: min(.now + pause, end), clock: .continuous) } catch { return }
                // A stream that delivers changes is on its way to the goal; a silent one is compared with the remote
                // store. If that cannot be read, the stream continues when it can.
                let question = state.withLock { $0.isSilent(patience) ? $0.question(patience: patience) : nil }
                guard let question else { continue }
                Task { do { try await ask(question) } catch {} }
            }
            noteProgress()
        }
        let adjustment = adjust.map { adjust in Task { try await adjust(goal) } }
        defer {
            timer.cancel()
            adjustment?.cancel()
        }
        while !isReached(goal.value.withLock { $0 }) {
            let (isClosed, failure) = state.withLock { ($0.isClosed, $0.failure) }
            if isClosed { throw KVStoreError(.unavailable(.closed), .changes) }
            if Task.isCancelled { throw KVStoreError(.cancelled, .changes) }
            if ContinuousClock.now >= end { throw KVStoreError(.timeout, .changes, underlying: failure) }
            _ = await progress.next()
        }
    }

    /// Lets the calls of `wait` look whether their goal is reached.
    func noteProgress() {
        progress.appendAll()
        progress.wake()
    }

    /// Whether the mirror shows a goal.
    func isReached(_ goal: MirrorState.Goal) -> Bool {
        switch goal {
        case .caughtUp: state.withLock { $0.isCaughtUp }
        case .revision(let revision): state.withLock { $0.position.revision ?? 0 >= revision }
        case .entries(let entries):
            entries.allSatisfy { name, revision in
                let current = memory.revision(of: name)
                guard let revision else { return current == nil }
                return current ?? 0 >= revision
            }
        }
    }
}
