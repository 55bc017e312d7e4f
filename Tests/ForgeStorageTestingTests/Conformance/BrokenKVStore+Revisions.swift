import ForgeKVStore
import Foundation
import Synchronization

extension BrokenKVStore {
    func entry(named name: String) throws -> KVEntry? {
        if defect == .entryTakesAnyName, name.utf8.count > 1024 { return nil }
        guard var entry = try base.entry(named: mapped(name)) else {
            if defect == .entryThrowsForAbsent { throw KVStoreError(.damaged, .read, key: name) }
            return nil
        }
        switch defect {
        case .reversesEntries: entry.bytes.reverse()
        case .countsToThree: entry.revision = min(entry.revision, 3)
        case .countsReads: entry.revision += memory.withLock { $0.reads }
        case .rollsRevisionsBack: entry.revision = memory.withLock { $0.rolledBack[name] } ?? entry.revision
        default: break
        }
        return entry
    }

    func commit(_ batch: KVBatch) throws {
        let count = memory.withLock { memory in
            memory.commits += 1
            return memory.commits
        }
        var changes = batch.changes
        switch defect {
        case .losesAnUpdate where count.isMultiple(of: 100): return
        case .updatesOnly where try changes.contains(where: { try base.rawValue(named: $0.name) == nil }): return
        case .reversesBatches: changes.reverse()
        case .sortsBatches:
            changes = changes.enumerated().sorted { ($0.element.name, $0.offset) < ($1.element.name, $1.offset) }
                .map(\.element)
        case .emptiesForNothing where changes.isEmpty: try base.removeAll()
        case .looksForChangesOnly where changes.isEmpty: return
        case .changesOneByOne where changes.count > 1:
            for change in changes { try commit(change) }
            return
        case .changesBeforeItLooks:
            for change in changes { try commit(change) }
        default: break
        }
        var made = KVBatch()
        for change in changes { made.append(change) }
        var requirements = batch.requirements
        if defect == .checksTheLastOfAName {
            requirements.removeAll { first in batch.requirements.last { $0.name == first.name } != first }
        }
        for requirement in requirements where !isIgnored(requirement) {
            made.require(requirement.name, revision: try adjusted(requirement))
            if defect == .checksOneRequirement { break }
        }
        if defect == .removesBelowInBatches {
            for case .remove(let name) in changes {
                for other in try base.keys() where other.hasPrefix(name) { made.append(.remove(name: other)) }
            }
        }
        if defect == .checksOutsideOfTheLock {
            for requirement in made.requirements
            where try base.entry(named: requirement.name)?.revision != requirement.revision {
                throw KVStoreError(.conflict, .batch, key: requirement.name)
            }
            made = KVBatch()
            for change in changes { made.append(change) }
        }
        do {
            try base.commit(made)
        } catch var error as KVStoreError where defect == .namesAnotherCall {
            error.operation = .set
            throw error
        }
        try memory.withLock { memory in memory.firstOfA = try memory.firstOfA ?? base.entry(named: "a") }
    }

    private func commit(_ change: KVBatch.Change) throws {
        var batch = KVBatch()
        batch.append(change)
        try base.commit(batch)
    }

    /// The revision that is required of the base.
    private func adjusted(_ requirement: KVBatch.Requirement) throws -> UInt64? {
        guard defect == .acceptsNewerRevisions || defect == .rollsRevisionsBack else { return requirement.revision }
        let present = try base.entry(named: mapped(requirement.name))?.revision
        switch defect {
        case .acceptsNewerRevisions:
            guard let present, let revision = requirement.revision, revision > present else { break }
            return present
        case .rollsRevisionsBack:
            let old = memory.withLock { $0.rolledBack[requirement.name] }
            if let old, requirement.revision == old, present != nil { return present }
        default: break
        }
        return requirement.revision
    }

    private func isIgnored(_ requirement: KVBatch.Requirement) -> Bool {
        switch defect {
        case .ignoresRevisions: requirement.revision != nil
        case .createsAlways, .letsEverybodyCreate: requirement.revision == nil
        default: false
        }
    }

    func snapshot() throws -> KVSnapshot {
        let snapshot = try base.snapshot()
        return memory.withLock { memory in
            switch defect {
            case .normalisesSnapshots:
                return KVSnapshot(snapshot.map { ($0.precomposedStringWithCanonicalMapping, $1) })
            case .emptiesLongValues:
                return KVSnapshot(
                    snapshot.map { ($0, $1.bytes.count > 1024 ? KVEntry(bytes: [], revision: $1.revision) : $1) })
            case .lags:
                defer { memory.snapshot = snapshot }
                return memory.snapshot
            case .showsRemovedInSnapshots:
                return KVSnapshot(snapshot.map { ($0, $1) } + memory.removed.map { ($0, $1) })
            case .mixesMoments:
                return KVSnapshot(
                    snapshot.map { name, entry in (name, name == "a" ? memory.firstOfA ?? entry : entry) })
            default: return snapshot
            }
        }
    }

    func synchronize() throws {
        try base.synchronize()
        if defect == .forgetsWhatIsDurable { try base.removeAll() }
    }
}
