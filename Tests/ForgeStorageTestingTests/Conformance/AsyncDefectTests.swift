import ForgeKVStore
import ForgeStorageTesting
import Testing

@Suite("Every check of an asynchronous store detects its defect")
struct AsyncDefectTests {
    private static let checks = ConformanceChecks.asyncKeyValueStore

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        try await check.run(on: BrokenAsyncKVStore.subject())
    }

    @Test("in the behaviour of the calls", arguments: BrokenAsyncKVStore.Defect.allCases)
    func defects(_ defect: BrokenAsyncKVStore.Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenAsyncKVStore.subject(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let planted = BrokenAsyncKVStore.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("a store that claims what it does not do fails", arguments: BrokenAsyncKVStore.Claim.allCases)
    func claims(_ claim: BrokenAsyncKVStore.Claim) async throws {
        let report = await ConformanceSuite.asyncKeyValueStore.run(on: claim.rawValue) {
            BrokenAsyncKVStore.subject(claim: claim)
        }
        #expect(!report.violations.isEmpty, "\(report)")
    }
}
