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

    /// The largest number of values in a page of the next list.
    let pageLimit = Atomic(MirrorFeed.largestPage)

    init(_ source: any AsyncKVStoring, _ configuration: MirroredKVStore.Configuration) throws {
        self.source = source
        self.configuration = configuration
        let memory = InMemoryKVStore(maximumValueSizeInBytes: .max)
        self.memory = memory
        let copy = try configuration.copy.map { try MirrorCopy($0) }
        let (content, position) = try copy?.content() ?? ([], MirrorState.Position())
        memory.load(content)
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
        resumeWaiters(AsyncKVStoreError(.unavailable, .changes, detail: "closed"))
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
                state.fail(error as? AsyncKVStoreError ?? AsyncKVStoreError(.unavailable, .changes))
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
            resumeWaiters()
        }
        let supervisor = Task { await supervise() }
        defer { supervisor.cancel() }
        var changes = source.changes(prefix: "", from: from).makeAsyncIterator()
        var batch = MirrorBatch()
        while let update = try await changes.nextUpdate() {
            state.withLock { $0.didHear() }
            batch.append(update)
            guard batch.isComplete else { continue }
            try await receive(batch.take())
        }
        guard !Task.isCancelled else { return }
        throw AsyncKVStoreError(.unavailable, .changes, detail: "the changes have ended")
    }

    /// Reads one entry, for the revision and the identity of the remote store.
    private func firstEntry() async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        try await source.entries(prefix: "", after: nil, limit: 1, at: nil)
    }

    /// Asks for the revision of the remote store.
    func ask(_ question: MirrorState.Question) async throws(AsyncKVStoreError) {
        defer { state.withLock { $0.isAsking = false } }
        let page = try await firstEntry()
        state.withLock { $0.learn(page, question) }
        resumeWaiters()
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
            do throws(AsyncKVStoreError) {
                try await ask(question)
            } catch {
                guard !Task.isCancelled else { return }
                state.withLock { $0.end(error, since: question) }
            }
        }
    }

    // MARK: Content

    private func receive(_ update: AsyncKVUpdate) async throws {
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
        change(names, position) { memory.apply(changes, reporting: names) }
        state.withLock { $0.didReceive(changes.count, upTo: position) }
        resumeWaiters()
    }

    private func list() async throws {
        if state.withLock({ $0.willList() }) {
            try await Task.sleep(for: configuration.listJitter * Double.random(in: 0...1))
        }
        let asked = ContinuousClock.now
        let (entries, position) = try await readList()
        try Task.checkCancellation()
        if memory.isEmpty, !entries.isEmpty {
            change(nil, position) { memory.load(entries) }
        } else {
            let difference = memory.difference(to: entries)
            change(difference.changes.map(\.name), position) {
                memory.apply(difference.changes, reporting: difference.names)
            }
        }
        state.withLock { $0.didList(position, asked: asked) }
        resumeWaiters()
    }

    /// Calls `body`, which changes the values of `names` in memory, or with nil of any name, and schedules the same
    /// changes of the copy.
    private func change(_ names: [KeyName]?, _ position: MirrorState.Position, _ body: () -> Void) {
        guard let copy else { return body() }
        copy.record(names, position, body)
    }
}
