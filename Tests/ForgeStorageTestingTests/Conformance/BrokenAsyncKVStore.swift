import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization

/// An asynchronous store with one defect, to test that the corresponding check fails.
final class BrokenAsyncKVStore: AsyncKVStoring {
    /// A defect, mostly with the description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case readsEmpty = "an absent key reads as nil"
        case forgets = "a value that was set can be read"
        case keepsTheFirst = "setting again replaces the value"
        case removesNothing = "a removed key is absent, and removing it again succeeds"
        case removesBelow = "removing a name keeps names that begin with it, in either case"
        case hidesUndecodable = "a value of another type is undecodable and is kept"
        case trimsNames = "every text is a distinct name"
        case cutsNames = "a name longer than 1,024 bytes is refused and changes nothing"
        case countsToThree = "revisions increase with every acknowledged write"
        case listsBackwards = "names are listed once, in pages, in the order of their bytes"
        case needsTheNameBefore = "a page follows a name that was removed, and a limit below 1 counts as 1"
        case losesAValue = "values are listed once, in pages, in the order of the bytes of their names"
        case tellsAnotherRevision = "the revision that a batch returns, if any, is that of its values"
        case ignoresCancellation = "a cancelled call changes nothing"
        case ignoresRevisions = "a write with a requirement is applied only if it holds"
        case letsEverybodyCreate = "exactly one of 8 concurrent creations succeeds"
        case losesAnUpdate = "no concurrent update is lost"
        case appliesHalf = "a batch is applied whole, or not at all if a requirement does not hold"
        case checksOneRequirement = "every requirement of a batch counts, whichever of them does not hold"
        case rollsRevisionsBack = "no revision from before a removal matches again"
        case reversesBatches = "of several changes of one name in a batch the last takes effect"
        case exceedsItsLimit = "a batch of the declared size is applied, and a larger one is too large"
        case missesChanges =
            "changes begin with a resync and lead to the content of the store, or are refused as declared"
        case reportsAll = "changes with a prefix are those of its names"
        case skipsTheResync = "changes from a revision are replayed in order, or begin with a resync as declared"
        case neverExpires = "a value becomes absent after its time to live, as exactly as declared, or is refused"
        case batchesNeverExpire =
            "every value that a batch sets has its time to live, and the last set of a name decides"
        case requiresEndedValues = "after its time to live a value is absent for the requirements of a batch too"
        case readsOldValues = "a read sees every write that another client has made, if that is declared"
        case losesTheRest = "acknowledged writes and their revisions survive what is declared"
        case hasMoreForEver = "values are listed in pages, of which the last says so"
        case keepsTheTimeToLive = "a conditional write without a time to live ends that of the value before"
        case emptyIsAbsent = "a value of no bytes is present"
        case listsNoZeros = "names with a zero byte are listed"
        case refusesLongestNames = "a name may have 1,024 bytes"
        case looksForChangesOnly = "requirements are checked even without changes"
        case namesAnotherCall = "an error names the call that was made"

        /// The description of the check that must fail.
        var check: String {
            switch self {
            case .hasMoreForEver: Defect.losesAValue.rawValue
            case .keepsTheTimeToLive: Defect.batchesNeverExpire.rawValue
            case .emptyIsAbsent: Defect.forgets.rawValue
            case .listsNoZeros: Defect.trimsNames.rawValue
            case .refusesLongestNames, .namesAnotherCall: Defect.cutsNames.rawValue
            case .looksForChangesOnly: Defect.appliesHalf.rawValue
            default: rawValue
            }
        }
    }

    /// A capability that the store declares, although it does not have it.
    enum Claim: String, CaseIterable, Sendable {
        case batchSize, expiry, changes, replay, consistency, durability
    }

    final class Clock: Sendable {
        private let time = Mutex(Date(timeIntervalSince1970: 0))
        var now: Date { time.withLock { $0 } }
        func advance(_ duration: Duration) { time.withLock { $0 += duration / .seconds(1) } }
    }

    private struct Memory {
        var writes = 0
        var old: [String: KVEntry] = [:]
        /// The revisions that names had when they were removed.
        var rolledBack: [String: UInt64] = [:]
        /// The last times to live of the names.
        var timesToLive: [String: Duration] = [:]
    }

    let defect: Defect?
    private let claim: Claim?
    private let base: LocalAsyncKVStore
    private let memory = Mutex(Memory())

    init(_ defect: Defect? = nil, claim: Claim? = nil, clock: Clock) {
        self.defect = defect
        self.claim = claim
        base = LocalAsyncKVStore(ExpiringKVStore(InMemoryKVStore(), now: { clock.now }))
    }

    /// The subject of a check; the store in memory counts as one that survives the end of its process.
    static func subject(_ defect: Defect? = nil, claim: Claim? = nil) -> AsyncKVStoreUnderTest {
        let clock = Clock()
        let store = BrokenAsyncKVStore(defect, claim: claim, clock: clock)
        let reopened = defect == .losesTheRest ? BrokenAsyncKVStore(clock: clock) : store
        var subject = AsyncKVStoreUnderTest(
            store, other: store, pass: { clock.advance($0) }, reopen: { reopened })
        if claim == .durability { subject.reopen = nil }
        return subject
    }

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        var declared = await base.capabilities()
        declared.durability = .processEnd
        if defect == .exceedsItsLimit { declared.maximumBatchSize = 10 }
        switch claim {
        case .batchSize: declared.maximumBatchSize = 10
        case .replay: declared.changes = .replayable
        default: break
        }
        return declared
    }

    private func mapped(_ name: String) -> String {
        switch defect {
        case .trimsNames: name.trimmingCharacters(in: .whitespaces)
        case .cutsNames: String(name.prefix(512))
        default: name
        }
    }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        let entry = try await base.entry(named: mapped(name))
        switch defect {
        case .readsEmpty: return entry ?? KVEntry(bytes: [], revision: 1)
        case .emptyIsAbsent where entry?.bytes.isEmpty == true: return nil
        case .hidesUndecodable where name == "a" && entry != nil:
            if let entry, (try? entry.value(of: KVKey<String>(name))) != nil { return nil }
        case .rollsRevisionsBack:
            let revision = memory.withLock { $0.rolledBack[name] }
            return entry.map { KVEntry(bytes: $0.bytes, revision: revision ?? $0.revision) }
        case .requiresEndedValues: memory.withLock { $0.old[name] = entry ?? $0.old[name] }
        case .countsToThree: return entry.map { KVEntry(bytes: $0.bytes, revision: min($0.revision, 3)) }
        default: break
        }
        guard defect == .readsOldValues || claim == .consistency else { return entry }
        return memory.withLock { memory in
            defer { memory.old[name] = entry }
            return memory.old[name] ?? entry
        }
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        if defect == .needsTheNameBefore, let after, try await base.entry(named: after) == nil {
            return AsyncKVPage(names: [], hasMore: false)
        }
        var page = try await base.keys(prefix: prefix, after: after, limit: limit)
        if defect == .listsBackwards { page.names.reverse() }
        if defect == .listsNoZeros { page.names.removeAll { $0.utf8.contains(0) } }
        if claim == .replay { page.revision = 1 }
        return page
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        var page = try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        if defect == .losesAValue, !page.hasMore { page.entries.removeLast() }
        if defect == .hasMoreForEver { page.hasMore = true }
        return page
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        let count = memory.withLock { memory in
            memory.writes += 1
            return memory.writes
        }
        let (changes, requirements) = (batch.changes, batch.requirements)
        var batch = batch
        switch defect {
        case .forgets: return nil
        case .looksForChangesOnly where changes.isEmpty: return nil
        case .refusesLongestNames where changes.contains(where: { $0.name.utf8.count == 1024 }):
            throw KVStoreError(.invalidKey, .batch)
        case .keepsTheFirst where count > 1: return nil
        case .removesNothing: if case .remove = changes.first { return nil }
        case .ignoresRevisions, .letsEverybodyCreate: batch = .of(changes)
        case .requiresEndedValues:
            for requirement in requirements where requirement.revision == nil {
                guard memory.withLock({ $0.old[requirement.name] }) == nil else {
                    throw KVStoreError(.conflict, .batch, key: requirement.name)
                }
            }
        case .losesAnUpdate where count == 5: return nil
        case .appliesHalf where !batch.requirements.isEmpty:
            do throws(KVStoreError) {
                return try await base.commit(batch, timeToLive: timeToLive)
            } catch {
                try await base.commit(.of([.remove(name: "a")]), timeToLive: nil)
                throw error
            }
        case .reversesBatches: batch = .of(changes.reversed())
        case .removesBelow:
            for case .remove(let name) in changes {
                for other in try await base.keys() where other.hasPrefix(name) { batch.append(.remove(name: other)) }
            }
        case .checksOneRequirement:
            batch = .of(changes)
            if let first = requirements.first { batch.require(first.name, revision: first.revision) }
        case .rollsRevisionsBack:
            for case .remove(let name) in changes {
                let revision = try await base.entry(named: name)?.revision
                memory.withLock { $0.rolledBack[name] = revision }
            }
            batch = .of(changes)
            for requirement in requirements {
                let present = try await base.entry(named: requirement.name)?.revision
                let old = memory.withLock { $0.rolledBack[requirement.name] }
                let isOld = present != nil && old != nil && old == requirement.revision
                batch.require(requirement.name, revision: isOld ? present : requirement.revision)
            }
        case .trimsNames, .cutsNames:
            batch = .of(
                changes.map { change in
                    guard case .set(let name, let bytes) = change else { return .remove(name: mapped(change.name)) }
                    return .set(name: mapped(name), bytes: bytes)
                })
        case .ignoresCancellation:
            let (base, batch) = (base, batch)
            do {
                return try await Task.detached { try await base.commit(batch, timeToLive: timeToLive) }.value
            } catch {
                throw error as? KVStoreError ?? KVStoreError(.unavailable(.server), .batch)
            }
        default: break
        }
        let isEndless =
            defect == .neverExpires || claim == .expiry || defect == .batchesNeverExpire && changes.count > 1
        var lives = isEndless ? nil : timeToLive
        if defect == .keepsTheTimeToLive {
            let name = changes.first?.name ?? ""
            if !requirements.isEmpty { lives = lives ?? memory.withLock { $0.timesToLive[name] } }
            memory.withLock { [lives] in $0.timesToLive[name] = lives }
        }
        let revision: UInt64?
        do throws(KVStoreError) {
            revision = try await base.commit(batch, timeToLive: lives)
        } catch {
            var error = error
            if defect == .namesAnotherCall { error.operation = .keys }
            throw error
        }
        return defect == .tellsAnotherRevision ? 1_000_000 : revision
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        let changes = base.changes(prefix: defect == .reportsAll ? "" : prefix, from: revision)
        switch defect {
        case .missesChanges: return changes.filtered { $0 != .changed("p/a") }
        case .skipsTheResync: return changes.filtered(isResyncKept: revision == nil) { _ in true }
        default: return claim == .changes ? changes.filtered(isResyncKept: false) { _ in true } : changes
        }
    }
}

/// An asynchronous store that refuses batches of more than ten changes.
struct LimitedAsyncKVStore: KVLayer, AsyncKVStoring {
    let base = LocalAsyncKVStore(InMemoryKVStore())

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        var declared = await base.capabilities()
        declared.maximumBatchSize = 10
        return declared
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        guard batch.changes.count <= 10 else { throw KVStoreError(.tooLarge, .batch) }
        return try await base.commit(batch, timeToLive: timeToLive)
    }
}

/// An asynchronous store in which one of the calls that are refused seems to succeed, and does nothing.
struct ForgivingAsyncKVStore: AsyncKVStoring {
    private let base: BrokenAsyncKVStore
    private let refusals: Refusals

    static func subject(_ refusals: Refusals) -> AsyncKVStoreUnderTest {
        let clock = BrokenAsyncKVStore.Clock()
        let store = ForgivingAsyncKVStore(base: BrokenAsyncKVStore(clock: clock), refusals: refusals)
        return AsyncKVStoreUnderTest(store, other: store, pass: { clock.advance($0) }, reopen: { store })
    }

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { try await base.capabilities() }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        do throws(KVStoreError) {
            return try await base.entry(named: name)
        } catch {
            guard refusals.isNextForgiven() else { throw error }
            return nil
        }
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        do throws(KVStoreError) {
            return try await base.keys(prefix: prefix, after: after, limit: limit)
        } catch {
            guard refusals.isNextForgiven() else { throw error }
            return AsyncKVPage(names: [], hasMore: false)
        }
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        do throws(KVStoreError) {
            return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        } catch {
            guard refusals.isNextForgiven() else { throw error }
            return AsyncKVEntryPage(entries: [], hasMore: false)
        }
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        do throws(KVStoreError) {
            return try await base.commit(batch, timeToLive: timeToLive)
        } catch {
            guard refusals.isNextForgiven() else { throw error }
            return nil
        }
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges { base.changes(prefix: prefix, from: revision) }
}

extension KVBatch {
    fileprivate static func of(_ changes: some Sequence<Change>) -> KVBatch {
        var batch = KVBatch()
        for change in changes { batch.append(change) }
        return batch
    }
}

extension KVChanges {
    /// The part of a change that a filter decides on.
    fileprivate enum Seen: Equatable {
        case changed(String)
        case resync
    }

    fileprivate func filtered(isResyncKept: Bool = true, _ isKept: @escaping @Sendable (Seen) -> Bool) -> KVChanges {
        let base = self
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in
            var iterator = base.makeAsyncIterator()
            while var set = try await iterator.nextSet() {
                set.changes = set.changes.compactMap { change in
                    switch change {
                    case .changed(let name, _, _): isKept(.changed(name)) ? change : nil
                    case .resync: isResyncKept ? change : .changed(name: "never there", entry: nil, revision: nil)
                    }
                }
                if !set.changes.isEmpty { return set }
            }
            return nil
        }
    }
}
