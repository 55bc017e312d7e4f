import ForgeKVStore
import ForgeStorageTesting
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
        case .mixesEntries:
            // As if the value were replaced between the reads of both.
            let present = entry
            entry.revision = memory.withLock { $0.lastRead?.revision ?? present.revision }
            memory.withLock { $0.lastRead = present }
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
        case .keepsWhatIsRequired where batch.requirements.contains(where: { $0.revision != nil }):
            changes.removeAll { if case .remove = $0 { true } else { false } }
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

/// A persistent key-value store with one defect, to test that the corresponding check fails.
final class BrokenKeyValueLocation: Sendable {
    /// A defect, mostly with the description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case isNeverEmpty = "a new place is empty"
        case losesLargeNumbers = "values of every kind persist across reopening"
        case losesOddNames = "names of every kind persist across reopening"
        case cutsLongestNames = "names of 1,024 bytes persist across reopening, and so does their removal"
        case cuts24Bits = "raw values of 0 bytes to more than 16 MiB persist across reopening, or are refused"
        case countsAnewIfEmpty = "no revision from before a removal matches after reopening"
        case goesBack = "the last of several values persists across reopening"
        case bringsBack = "a removed key stays absent after reopening"
        case emptiesLate = "removeAll and the values set after it persist across reopening"
        case bringsBackRaw = "keys lists the names that are left after reopening"
        case countsFromZero = "a store opened many times keeps the writes of each opening"
        case forgetsAfterRefusals = "what is written after a refused call persists across reopening"
        case dropsRefusing = "the value that a refused set would have replaced persists across reopening"
        case ordersAnew = "what readers have seen after concurrent writers persists across reopening"
        case countsAnew = "revisions continue after reopening"
        case repeatsBatches = "a batch persists across reopening, in order"
        case roundsNumbers = "a value reads as another type after reopening as it did before, and is not changed"
        case dropsTexts = "a value of another type is still undecodable after reopening, and is kept"
        case dropsEmptyValues = "a value of no bytes persists across reopening"

        /// The description of the check that must fail.
        var check: String { self == .dropsEmptyValues ? Defect.repeatsBatches.rawValue : rawValue }
    }

    private let defect: Defect?
    private let current = Mutex(InMemoryKVStore())
    private let openings = Mutex(0)

    init(_ defect: Defect?) { self.defect = defect }

    var place: KeyValueStoreLocation<any KVTransactionalStoring> { KeyValueStoreLocation { [self] in try open() } }

    private func open() throws -> any KVTransactionalStoring {
        let number = openings.withLock { openings in
            openings += 1
            return openings
        }
        let base = current.withLock(\.self)
        switch defect {
        case .isNeverEmpty: try base.set(KVKey<Int>("version"), value: 1)
        case .losesLargeNumbers: try base.remove(KVKey<UInt64>("large"))
        case .losesOddNames:
            for name in try base.keys() where !name.utf8.allSatisfy({ $0 < 0x80 }) {
                try base.removeValue(named: name)
            }
        case .cutsLongestNames where number > 1:
            for name in try base.keys() where name.utf8.count == 1024 {
                try base.setRawValue(try base.rawValue(named: name) ?? [], named: String(name.dropLast()))
                try base.removeValue(named: name)
            }
        case .cuts24Bits:
            for name in try base.keys() {
                guard let bytes = try base.rawValue(named: name), bytes.count >= 1 << 24 else { continue }
                try base.setRawValue([UInt8](bytes.prefix(bytes.count % (1 << 24))), named: name)
            }
        case .countsAnewIfEmpty where try base.keys().isEmpty:
            let copy = InMemoryKVStore()
            current.withLock { $0 = copy }
            return copy
        case .dropsEmptyValues where number > 1:
            for name in try base.keys() where try base.rawValue(named: name) == [] { try base.removeValue(named: name) }
        case .goesBack where number > 1: try base.set(KVKey<Int>("a"), value: 98)
        case .bringsBack where number > 1: try base.set(KVKey<Int>("a"), value: 1)
        case .emptiesLate where number > 1: try base.removeAll()
        case .bringsBackRaw where number > 2: try base.removeValue(named: "b")
        case .countsFromZero where number > 2: try base.set(KVKey<Int>("a"), value: 0)
        case .forgetsAfterRefusals where number > 1: try base.remove(KVKey<Int>("after 0"))
        case .dropsRefusing where number > 1: try base.remove(KVKey<Int>("replaced"))
        case .ordersAnew where number > 1: try base.set(KVKey<Int>("7"), value: 7)
        case .countsAnew where number > 1:
            let copy = InMemoryKVStore()
            for name in try base.keys() { try copy.setRawValue(try base.rawValue(named: name) ?? [], named: name) }
            return copy
        case .repeatsBatches where number > 1: try base.set(KVKey<Int>("b"), value: 1)
        case .roundsNumbers where number > 1:
            for name in try base.keys() {
                guard name.hasPrefix("Double"), let number = base.get(KVKey<Float>(name)) else { continue }
                try base.set(KVKey<Float>(name), value: number)
            }
        case .dropsTexts where number > 1: try base.remove(KVKey<String>("a"))
        default: break
        }
        return base
    }
}

/// A key-value store in which one of the calls that are refused seems to succeed, and does nothing.
final class ForgivingKVStore: KVLayer, KVTransactionalStoring {
    let base = InMemoryKVStore()
    private let refusals: Refusals

    init(_ refusals: Refusals) { self.refusals = refusals }

    /// Makes a call; if its refusal is forgiven, the result is `substitute`.
    private func forgiving<Result>(_ substitute: Result, _ call: () throws -> Result) throws -> Result {
        do {
            return try call()
        } catch {
            guard refusals.isNextForgiven() else { throw error }
            return substitute
        }
    }

    func read<T>(_ key: KVKey<T>) throws -> T? { try forgiving(nil) { try base.read(key) } }

    func set<T>(_ key: KVKey<T>, value: T) throws { try forgiving(()) { try base.set(key, value: value) } }

    func remove<T>(_ key: KVKey<T>) throws { try forgiving(()) { try base.remove(key) } }

    func rawValue(named name: String) throws -> [UInt8]? { try forgiving(nil) { try base.rawValue(named: name) } }

    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try forgiving(()) { try base.setRawValue(bytes, named: name) }
    }

    func removeValue(named name: String) throws { try forgiving(()) { try base.removeValue(named: name) } }

    func entry(named name: String) throws -> KVEntry? { try forgiving(nil) { try base.entry(named: name) } }

    func commit(_ batch: KVBatch) throws { try forgiving(()) { try base.commit(batch) } }
}
