package import ForgeKVStore
import Synchronization

/// A store whose calls a recorder notes, for one client.
package struct RecordedStore: Sendable {
    private let store: any AsyncKVStoring
    private let recorder: HistoryRecorder

    package init(_ store: any AsyncKVStoring, _ recorder: HistoryRecorder) {
        self.store = store
        self.recorder = recorder
    }

    /// Reads a name. Returns nil if the call failed.
    @discardableResult
    package func read(_ name: String) async -> HistoryObservation? {
        let began = recorder.now()
        do throws(KVStoreError) {
            let found = try await store.versioned(KVKey<Int>(name))
            let observation = found.map { HistoryObservation.value($0.value, revision: $0.revision) } ?? .absent
            recorder.add(HistoryOperation(.read, from: began, to: recorder.now(), observed: [name: observation]))
            return observation
        } catch {
            recorder.addFailure()
            return nil
        }
    }

    /// Lists the names with a prefix, of which only `names` exist, in one page. Returns whether the call succeeded.
    @discardableResult
    package func list(prefix: String, names: [String]) async -> Bool {
        let began = recorder.now()
        do throws(KVStoreError) {
            let page = try await store.keys(prefix: prefix, after: nil, limit: names.count + 1)
            let ended = recorder.now()
            var observed = Dictionary(names.map { ($0, HistoryObservation.absent) }) { first, _ in first }
            for name in page.names { observed[name] = .present }
            // Several pages show several moments.
            guard !page.hasMore else { return true }
            recorder.add(HistoryOperation(.list, from: began, to: ended, observed: observed))
            return true
        } catch {
            recorder.addFailure()
            return false
        }
    }

    @discardableResult
    package func set(_ name: String) async -> HistoryOperation.Outcome? {
        let value = recorder.nextValue()
        return await write(.set, written: [name: value]) {
            try await store.set(KVKey<Int>(name), value: value)
            return true
        }
    }

    @discardableResult
    package func remove(_ name: String) async -> HistoryOperation.Outcome? {
        await write(.remove, written: [name: nil]) {
            try await store.remove(KVKey<Int>(name))
            return true
        }
    }

    @discardableResult
    package func createIfAbsent(_ name: String) async -> HistoryOperation.Outcome? {
        let value = recorder.nextValue()
        return await write(.createIfAbsent, required: [name: .absent], written: [name: value]) {
            try await store.createIfAbsent(KVKey<Int>(name), value: value)
        }
    }

    /// Replaces what an earlier read has shown, if it is still there.
    @discardableResult
    package func compareAndSet(_ name: String, _ seen: HistoryObservation) async -> HistoryOperation.Outcome? {
        let value = recorder.nextValue()
        return await write(.compareAndSet, required: [name: seen], written: [name: value]) {
            try await store.compareAndSet(KVKey<Int>(name), revision: seen.revision, value: value)
        }
    }

    /// Replaces the value, which the closure of the store's call sees, by a new one.
    @discardableResult
    package func update(_ name: String) async -> HistoryOperation.Outcome? {
        let value = recorder.nextValue()
        var operation = HistoryOperation(.update, from: recorder.now(), to: 0, written: [name: value])
        let absent = 0
        do {
            try await store.update(KVKey<Int>(name), default: absent) { stored in
                operation.required = [name: stored == absent ? .absent : .value(stored, revision: nil)]
                stored = value
            }
            return end(operation, .done)
        } catch {
            return fail(operation, error)
        }
    }

    /// Writes several names at once, if the requirements hold.
    @discardableResult
    package func batch(
        setting set: [String], removing removed: [String], requiring required: [String: HistoryObservation]
    ) async -> HistoryOperation.Outcome? {
        var written: [String: Int?] = [:]
        for name in removed { written.updateValue(nil, forKey: name) }
        for name in set { written[name] = recorder.nextValue() }
        return await write(.batch, required: required, written: written) {
            do {
                try await store.batch { batch in
                    for (name, value) in written {
                        let key = KVKey<Int>(name)
                        if let value { try batch.set(key, value: value) } else { batch.remove(key) }
                    }
                    for (name, seen) in required { batch.require(name, revision: seen.revision) }
                }
                return true
            } catch let error as KVStoreError where error.code == .conflict {
                return false
            }
        }
    }

    private func write(
        _ kind: HistoryOperation.Kind, required: [String: HistoryObservation] = [:], written: [String: Int?],
        _ body: () async throws -> Bool
    ) async -> HistoryOperation.Outcome? {
        let operation = HistoryOperation(kind, from: recorder.now(), to: 0, required: required, written: written)
        do {
            return end(operation, try await body() ? .done : .conflict)
        } catch {
            return fail(operation, error)
        }
    }

    private func end(
        _ operation: HistoryOperation, _ outcome: HistoryOperation.Outcome
    ) -> HistoryOperation.Outcome {
        var operation = operation
        operation.ended = recorder.now()
        operation.outcome = outcome
        recorder.add(operation)
        return outcome
    }

    /// Only an unknown outcome may take effect; what `error` says about the others, the history proves.
    private func fail(_ operation: HistoryOperation, _ error: any Error) -> HistoryOperation.Outcome? {
        let code = (error as? KVStoreError)?.code
        if code == .unknownOutcome { return end(operation, .unknown) }
        if code == .durabilityUnknown { return end(operation, .done) }
        recorder.addFailure()
        return nil
    }
}

extension HistoryObservation {
    /// The revision that a requirement names; nil for an absent name.
    var revision: UInt64? {
        guard case .value(_, let revision) = self else { return nil }
        return revision
    }
}

/// A store with a planted defect that a history must show.
package final class DefectiveStore: AsyncKVStoring {
    package enum Defect: Sendable {
        /// Some reads return what an earlier read of the name has returned.
        case oldReads

        /// Some reads ask another store. Not all: an update that only sees an old revision does not end.
        case readsFrom(any AsyncKVStoring)

        /// Some writes are made again, a little later.
        case repeatedWrites

        /// Some writes are acknowledged and not made.
        case lostWrites
    }

    private let base: any AsyncKVStoring
    private let defect: Defect

    /// The last two entries read of each name.
    private let entries = Mutex<[String: (old: KVEntry?, present: KVEntry?)]>([:])

    package init(_ base: any AsyncKVStoring, _ defect: Defect) {
        self.base = base
        self.defect = defect
    }

    package func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        try await base.capabilities()
    }

    package func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        switch defect {
        case .readsFrom(let store): return try await (Bool.random() ? store : base).entry(named: name)
        case .oldReads:
            let entry = try await base.entry(named: name)
            return entries.withLock { entries in
                var seen = entries[name] ?? (nil, nil)
                if seen.present != entry { seen = (seen.present, entry) }
                entries[name] = seen
                return Int.random(in: 0..<4) == 0 ? seen.old : entry
            }
        case .repeatedWrites, .lostWrites: return try await base.entry(named: name)
        }
    }

    package func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    package func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        if case .lostWrites = defect, Int.random(in: 0..<10) == 0 { return nil }
        let revision = try await base.commit(batch, timeToLive: timeToLive)
        guard case .repeatedWrites = defect, batch.requirements.isEmpty, Int.random(in: 0..<4) == 0 else {
            return revision
        }
        Task { [base] in
            try await Task.sleep(for: .milliseconds(5))
            try await base.commit(batch, timeToLive: timeToLive)
        }
        return revision
    }

    package func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}
