import Synchronization

extension MirroredKVStore {
    /// The remote store, whose writes return when the mirror shows them.
    ///
    /// Reads go to the remote store. A write that the mirror does not show in time throws `.notYetVisible`: it is
    /// applied.
    public var remote: Remote { Remote(feed: feed) }

    /// The remote store of a mirror (``MirroredKVStore/remote-swift.property``).
    public struct Remote: AsyncKVStoring {
        fileprivate let feed: MirrorFeed

        public func capabilities() async throws(AsyncKVStoreError) -> AsyncKVCapabilities {
            try await feed.source.capabilities()
        }

        public func entry(named name: String) async throws(AsyncKVStoreError) -> KVEntry? {
            try await feed.source.entry(named: name)
        }

        public func keys(prefix: String, after: String?, limit: Int) async throws(AsyncKVStoreError) -> AsyncKVPage {
            try await feed.source.keys(prefix: prefix, after: after, limit: limit)
        }

        public func entries(
            prefix: String, after: String?, limit: Int, at revision: UInt64?
        ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
            try await feed.source.entries(prefix: prefix, after: after, limit: limit, at: revision)
        }

        @discardableResult
        public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(AsyncKVStoreError) -> UInt64? {
            try await feed.commit(batch, timeToLive: timeToLive)
        }

        public func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
            feed.source.changes(prefix: prefix, from: revision)
        }
    }
}

extension MirrorFeed {
    /// Commits a batch and waits until the mirror shows it.
    ///
    /// - Throws: ``AsyncKVStoreError``; `.notYetVisible` if the batch is applied and the mirror does not show it.
    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(AsyncKVStoreError) -> UInt64? {
        guard !state.withLock({ $0.isClosed }) else {
            throw AsyncKVStoreError(.unavailable, .batch, detail: "the mirror is closed")
        }
        let revision = try await source.commit(batch, timeToLive: timeToLive)
        do throws(AsyncKVStoreError) {
            let end = ContinuousClock.now + configuration.visibilityLimit
            if let revision {
                try await wait(for: .revision(revision), until: end)
            } else {
                try await wait(forNames: Set(batch.changes.map { KeyName($0.name) }), until: end)
            }
        } catch {
            throw AsyncKVStoreError(
                .notYetVisible, .batch, key: batch.changes.first?.name, endpoint: error.endpoint, underlying: error)
        }
        return revision
    }

    /// Waits until the mirror shows the last write of each name, or a later one.
    ///
    /// For a store that does not return the revision of a batch. The stream of changes may skip states, so a later
    /// write can hide this one: the revisions of the names are read again after each pause.
    private func wait(
        forNames names: Set<KeyName>, until end: ContinuousClock.Instant
    ) async throws(AsyncKVStoreError) {
        let goal = MirrorState.Goal.entries(try await currentRevisions(of: names))
        try await wait(for: goal, until: end) { [self] id in
            var pause = Duration.milliseconds(50)
            while true {
                try await Task.sleep(for: pause)
                let start = ContinuousClock.now
                do throws(AsyncKVStoreError) {
                    replaceGoal(of: id, by: .entries(try await currentRevisions(of: missingNames(of: id))))
                } catch {
                    // The goal so far may still be reached.
                }
                pause = max(min(pause * 2, .seconds(1)), .now - start)
            }
        }
    }

    private func currentRevisions(of names: Set<KeyName>) async throws(AsyncKVStoreError) -> [KeyName: UInt64?] {
        var revisions: [KeyName: UInt64?] = [:]
        for name in names { revisions[name] = .some(try await source.entry(named: name.string)?.revision) }
        return revisions
    }
}
