import ForgeFileSystem
import Synchronization

/// Lists a remote store, follows its changes, and keeps a store in memory equal to it.
///
/// One task at a time reads a connection (a *round*) and alone changes the content.
final class MirrorFeed: Sendable {
    let source: any AsyncKVStoring
    let configuration: MirroredKVStore.Configuration

    /// The content. Values of any size are accepted: the remote store has the limit.
    let memory = InMemoryKVStore(maximumValueSizeInBytes: .max)
    let state: Mutex<MirrorState>
    private let copy: MirrorCopy?
    private let task = Mutex<Task<Void, Never>?>(nil)
    let pageSize: Atomic<Int>

    init(_ source: any AsyncKVStoring, _ configuration: MirroredKVStore.Configuration) throws {
        self.source = source
        self.configuration = configuration
        copy = try configuration.copy.map { try MirrorCopy($0) }
        let (changes, position) = try copy?.content() ?? ([], MirrorState.Position())
        memory.apply(changes, reporting: [])
        state = Mutex(MirrorState(position))
        pageSize = Atomic(max(configuration.pageSize, 1))
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
        resumeWaiters(AsyncKVStoreError(.unavailable, .changes, detail: "closed"))
    }

    func close() async throws {
        stop()
        await task.withLock { $0 }?.value
        if let copy { try await BlockingWork.run { try copy.close() } }
    }

    // MARK: Connections

    private func run() async {
        var limit = Self.firstBackoff
        while !Task.isCancelled {
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
            let wasCaughtUp = state.withLock { state in
                defer { state.fail(error as? AsyncKVStoreError ?? AsyncKVStoreError(.unavailable, .changes)) }
                return state.isCaughtUp
            }
            if wasCaughtUp { limit = Self.firstBackoff }
            do { try await Task.sleep(for: limit * Double.random(in: 0...1)) } catch { return }
            limit = min(limit * 2, configuration.longestBackoff)
        }
    }

    private static let firstBackoff = Duration.milliseconds(50)

    /// Follows the changes of one connection until it fails or the task is cancelled.
    private func follow() async throws {
        var from = state.withLock { $0.begin() }
        if from != nil {
            let (page, asked) = try await check()
            if !state.withLock({ $0.canContinue(with: page, asked: asked) }) { from = nil }
            resumeWaiters()
        }
        let isContinuing = from != nil
        let supervisor = Task { await supervise(isContinuing: isContinuing) }
        defer { supervisor.cancel() }
        var changes = source.changes(prefix: "", from: from).makeAsyncIterator()
        while let update = try await changes.nextUpdate() { try await receive(update) }
        guard !Task.isCancelled else { return }
        throw AsyncKVStoreError(.unavailable, .changes, detail: "the changes have ended")
    }

    /// Asks for the revision and the identity of the remote store.
    private func check() async throws(AsyncKVStoreError) -> (AsyncKVEntryPage, ContinuousClock.Instant) {
        let asked = ContinuousClock.now
        return (try await source.entries(prefix: "", after: nil, limit: 1, at: nil), asked)
    }

    /// Ends the round if it does not catch up, or if its silence means that changes were missed.
    private func supervise(isContinuing: Bool) async {
        do {
            while isContinuing, !state.withLock({ $0.isCaughtUp }) {
                try await Task.sleep(for: configuration.patience)
                state.withLock { state in
                    if !state.isCaughtUp, ContinuousClock.now - state.heardAt >= configuration.patience {
                        state.requestList()
                    }
                }
            }
            while true {
                let limit = configuration.silenceLimit * Double.random(in: 0.9...1)
                try await Task.sleep(until: state.withLock { $0.heardAt } + limit, clock: .continuous)
                guard state.withLock({ $0.isSilent(for: limit) }) else { continue }
                let (page, asked) = try await check()
                guard !Task.isCancelled else { return }
                state.withLock { state in
                    if !state.isProven(by: page, asked: asked) { state.missedChanges() }
                }
            }
        } catch let error as AsyncKVStoreError {
            guard !Task.isCancelled else { return }
            state.withLock { state in
                state.fail(error)
                state.round?.cancel()
            }
        } catch {}
    }

    // MARK: Content

    private func receive(_ update: AsyncKVUpdate) async throws {
        let instant = ContinuousClock.now
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
        memory.apply(changes, reporting: changes.map(\.name))
        let (position, isBehind) = state.withLock { state in
            state.didReceive(upTo: update.revision, at: instant)
            return (state.position, state.copyFailure != nil)
        }
        resumeWaiters()
        guard let copy, !changes.isEmpty || update.revision != nil else { return }
        await write { [memory, changes] in
            try isBehind ? copy.replace(by: memory.snapshot(), position) : copy.write(changes, position)
        }
    }

    private func list() async throws {
        if state.withLock({ $0.mayDelayList() }) {
            try await Task.sleep(for: configuration.listJitter * Double.random(in: 0...1))
        }
        state.withLock { $0.willList() }
        let asked = ContinuousClock.now
        let (entries, position) = try await readAll()
        try Task.checkCancellation()
        let difference = memory.difference(to: entries)
        memory.apply(difference.changes, reporting: difference.names)
        state.withLock { $0.didList(position, asked: asked) }
        resumeWaiters()
        guard let copy else { return }
        await write { [memory] in try copy.replace(by: memory.snapshot(), position) }
    }

    private static let smallestPage = 16

    /// All values at one revision.
    private func readAll() async throws -> (entries: [(name: String, entry: KVEntry)], MirrorState.Position) {
        let limit = pageSize.load(ordering: .relaxed)
        // A page whose values are too large for one answer fails: the next list has smaller ones.
        pageSize.store(min(limit, max(limit / 4, Self.smallestPage)), ordering: .relaxed)
        var page = try await source.entries(prefix: "", after: nil, limit: limit, at: nil)
        var entries = page.entries
        let position = MirrorState.Position(storeID: page.storeID, revision: page.revision)
        while page.hasMore, let last = page.entries.last {
            page = try await source.entries(prefix: "", after: last.name, limit: limit, at: position.revision)
            guard page.storeID == position.storeID else {
                throw AsyncKVStoreError(.unavailable, .keys, detail: "another store answers")
            }
            entries += page.entries
        }
        guard !page.hasMore else { throw AsyncKVStoreError(.unavailable, .keys, detail: "an empty page") }
        pageSize.store(min(limit * 2, max(configuration.pageSize, 1)), ordering: .relaxed)
        // A longer name is not valid in any store of this process.
        return (entries.filter { $0.name.utf8.count <= KeyName.maximumLength }, position)
    }

    /// Writes the copy on another thread; a failure is kept until a later write succeeds.
    private func write(_ body: @escaping @Sendable () throws -> Void) async {
        do {
            try await BlockingWork.run(body)
            state.withLock { $0.copyFailure = nil }
        } catch {
            state.withLock { $0.copyFailure = error }
        }
    }
}
