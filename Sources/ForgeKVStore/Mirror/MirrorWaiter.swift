import Synchronization

/// A call of `wait`.
struct MirrorWaiter: Sendable {
    var goal: MirrorState.Goal
    var continuation: CheckedContinuation<AsyncKVStoreError?, Never>
}

extension MirrorFeed {
    /// Waits until a goal is reached.
    ///
    /// - Parameters:
    ///   - goal: The goal.
    ///   - end: The end of the wait.
    ///   - adjust: Runs during the wait, and may replace the goal of the waiter with the given number.
    /// - Throws: ``AsyncKVStoreError``: `.timeout`, `.cancelled`, or `.unavailable` if the mirror is closed.
    func wait(
        for goal: MirrorState.Goal, until end: ContinuousClock.Instant,
        adjusting adjust: (@Sendable (UInt64) async throws -> Void)? = nil
    ) async throws(AsyncKVStoreError) {
        let id = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
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
            finish(id, AsyncKVStoreError(.timeout, .changes, underlying: state.withLock { $0.failure }))
        }
        let adjustment = adjust.map { adjust in Task { try await adjust(id) } }
        defer {
            timer.cancel()
            adjustment?.cancel()
        }
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                add(MirrorWaiter(goal: goal, continuation: continuation), id, until: end)
            }
        } onCancel: {
            finish(id, AsyncKVStoreError(.cancelled, .changes))
        }
        if let failure { throw failure }
    }

    private func add(_ waiter: MirrorWaiter, _ id: UInt64, until end: ContinuousClock.Instant) {
        let (isDone, failure) = state.withLock { state -> (Bool, AsyncKVStoreError?) in
            if isReached(waiter.goal, state) { return (true, nil) }
            if state.isClosed { return (true, AsyncKVStoreError(.unavailable, .changes, detail: "closed")) }
            if Task.isCancelled { return (true, AsyncKVStoreError(.cancelled, .changes)) }
            if ContinuousClock.now >= end { return (true, AsyncKVStoreError(.timeout, .changes)) }
            state.waiters[id] = waiter
            return (false, nil)
        }
        if isDone { waiter.continuation.resume(returning: failure) }
    }

    /// The names of a waiter's goal whose entries the mirror does not show.
    func missingNames(of id: UInt64) -> Set<KeyName> {
        state.withLock { state in
            guard case .entries(let entries) = state.waiters[id]?.goal else { return [] }
            return Set(entries.filter { !isReached(.entries([$0.key: $0.value]), state) }.keys)
        }
    }

    /// Replaces the goal of a waiter, unless its wait has ended.
    func replaceGoal(of id: UInt64, by goal: MirrorState.Goal) {
        state.withLock { $0.waiters[id]?.goal = goal }
        resumeWaiters()
    }

    private func finish(_ id: UInt64, _ failure: AsyncKVStoreError) {
        state.withLock { $0.waiters.removeValue(forKey: id) }?.continuation.resume(returning: failure)
    }

    /// Ends the waits whose goal is reached, or, with an error, all of them.
    func resumeWaiters(_ failure: AsyncKVStoreError? = nil) {
        let done = state.withLock { state in
            let done = state.waiters.filter { failure != nil || isReached($0.value.goal, state) }
            for id in done.keys { state.waiters.removeValue(forKey: id) }
            return done.values.map(\.continuation)
        }
        for continuation in done { continuation.resume(returning: failure) }
    }

    private func isReached(_ goal: MirrorState.Goal, _ state: MirrorState) -> Bool {
        switch goal {
        case .caughtUp: state.isCaughtUp
        case .revision(let revision): state.position.revision ?? 0 >= revision
        case .entries(let entries):
            entries.allSatisfy { name, revision in
                let current = memory.revision(of: name)
                guard let revision else { return current == nil }
                return current ?? 0 >= revision
            }
        }
    }
}
