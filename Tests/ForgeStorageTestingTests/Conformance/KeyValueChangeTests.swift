import ForgeKVStore
import ForgeStorageTesting
import Testing

@Suite("The checks of the changes of a key-value store")
struct KeyValueChangeTests {
    private static let checks = ConformanceChecks.keyValueStoreChanges

    @Test("pass for a store in memory, and for one with a mechanism of its own", arguments: checks)
    func sound(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: InMemoryKVStore())
        try await check.run(on: MisreportingKVStore(nil))
    }

    @Test("each detect their defects, and no other check does", arguments: MisreportingKVStore.Defect.allCases)
    func defects(_ defect: MisreportingKVStore.Defect) async {
        let report = await Waiting.$limit.withValue(.seconds(2)) {
            await ConformanceSuite.keyValueStoreChanges.run(on: "\(defect)") { MisreportingKVStore(defect) }
        }
        let failed = report.violations.map(\.check)
        #expect(defect.isGeneral ? failed.contains(defect.check) : failed == [defect.check], "\(report)")
    }

    @Test("have a defect each that no other check detects, and refuse a store that reports nothing")
    func completeness() async {
        let planted = MisreportingKVStore.Defect.allCases.filter { !$0.isGeneral }.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
        let report = await ConformanceSuite.keyValueStoreChanges.run(on: "silent") {
            MisreportingKVStore(nil, isSilent: true)
        }
        #expect(report.violations.count == Self.checks.count, "\(report)")
    }

    @Test("name the call whose change does not arrive")
    func messages() async throws {
        let call = #"nextSet() of key("a", limit: 128), which waited during removeAll(): expected changes, got none"#
        let report = await Waiting.$limit.withValue(.seconds(2)) {
            await ConformanceSuite.keyValueStoreChanges.run(on: "silent after removeAll") {
                MisreportingKVStore(.forgetsToWakeAfterRemoveAll)
            }
        }
        #expect("\(report)".contains(call), "\(report)")
    }
}
