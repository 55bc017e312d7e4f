import ForgeKVStore
import ForgeStorageTesting
import Synchronization
import Testing

@Suite("The checks of the changes of a key-value store")
struct KeyValueChangeTests {
    private static let checks = ConformanceChecks.keyValueStoreChanges

    @Test("pass for a store in memory, also below a layer", arguments: checks)
    func sound(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: InMemoryKVStore())
        try await check.run(on: MisreportingKVStore(nil))
    }

    @Test("each detect their defect, and no other check does", arguments: MisreportingKVStore.Defect.allCases)
    func defects(_ defect: MisreportingKVStore.Defect) async {
        let report = await ConformanceSuite.keyValueStoreChanges.run(on: "\(defect)") { MisreportingKVStore(defect) }
        #expect(report.violations.map(\.check) == [defect.rawValue], "\(report)")
    }

    @Test("have a defect each, and refuse a store that reports nothing")
    func completeness() async {
        let planted = MisreportingKVStore.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
        let report = await ConformanceSuite.keyValueStoreChanges.run(on: "silent") {
            MisreportingKVStore(nil, isSilent: true)
        }
        #expect(report.violations.count == Self.checks.count, "\(report)")
    }
}

/// A store with one defect in the changes that it reports, to test that the corresponding check fails.
final class MisreportingKVStore: KVLayer, KVTransactionalStoring {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case beginsLate = "the changes of a key begin with its entry, and are those of its bytes in order"
        case comparesCharacters = "the changes of a prefix are those of the names that begin with its bytes"
        case splitsBatches = "the changes of a batch are reported together"
        case reportsEarly = "a change is reported when it is visible to reads"
        case hidesRemoveAll = "removeAll is reported for every name, or by a notice to read again"
    }

    /// The changes that a subscription has not reported yet.
    private final class Rest: Sendable {
        let changes = Mutex<[KVChange]>([])
        let count = Mutex(0)
    }

    let base = InMemoryKVStore()
    private let defect: Defect?
    private let isSilent: Bool

    init(_ defect: Defect?, isSilent: Bool = false) {
        self.defect = defect
        self.isSilent = isSilent
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        // As if the last write was reported before it is stored.
        defect == .reportsEarly ? nil : try base.rawValue(named: name)
    }

    func subscribe(to scope: KVScope) -> KVChanges? {
        guard !isSilent, let changes = base.subscribe(to: scope) else { return nil }
        guard let defect else { return changes }
        let rest = Rest()
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in
            if let left = rest.changes.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return KVChangeSet([left]) }
            while true {
                var iterator = changes.makeAsyncIterator()
                guard var set = try await iterator.nextSet() else { return nil }
                let index = rest.count.withLock { count in
                    count += 1
                    return count
                }
                switch (defect, scope) {
                case (.beginsLate, .key) where index == 1: set.changes.removeFirst()
                case (.comparesCharacters, .prefix(let prefix)):
                    set.changes.removeAll { !Self.begins($0, with: prefix) }
                case (.splitsBatches, _) where set.changes.count > 1:
                    let left = Array(set.changes.dropFirst())
                    rest.changes.withLock { $0 = left }
                    set.changes = [set.changes[0]]
                case (.hidesRemoveAll, .prefix) where set.changes.contains(.resync):
                    // Only the write after it is reported.
                    set.changes = [.changed(name: "end", entry: KVEntry(bytes: [1], revision: 9), revision: nil)]
                default: break
                }
                if !set.changes.isEmpty { return set }
            }
        }
    }

    private static func begins(_ change: KVChange, with prefix: String) -> Bool {
        guard case .changed(let name, _, _) = change else { return true }
        return name.hasPrefix(prefix)
    }
}
