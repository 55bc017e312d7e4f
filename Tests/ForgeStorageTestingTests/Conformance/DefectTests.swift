import ForgeFileStore
import ForgeKVStore
import ForgeStorageTesting
import TestDepth
import Testing

@Suite("Every check of a key-value store detects its defect")
struct KeyValueDefectTests {
    private static let checks = ConformanceChecks.transactionalKeyValueStore

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: BrokenKVStore(nil))
    }

    @Test("in the behaviour of the calls", arguments: BrokenKVStore.Defect.allCases)
    func defects(_ defect: BrokenKVStore.Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await Waiting.$limit.withValue(.seconds(1)) {
            await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenKVStore(defect)) }
        }
    }

    @Test("in a call that is refused and seems to succeed", arguments: checks.filter { $0.typeOfValues == nil })
    func refusals(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        let fails = try await isNoticed(by: check) { ForgivingKVStore($0) }
        // Which of concurrent calls are refused depends on their order.
        #expect(fails || ["concurrent", "thread"].contains { check.description.contains($0) })
    }

    @Test("in the values of a type", arguments: checks.compactMap(\.typeOfValues))
    func types(_ type: String) async throws {
        let check = try #require(Self.checks.first { $0.typeOfValues == type })
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: BrokenKVStore(losing: type + " "))
        }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let planted = BrokenKVStore.Defect.allCases.map(\.rawValue) + ThreadedKVStore.Defect.allCases.map(\.check)
        let others = Self.checks.filter { $0.typeOfValues == nil }.map(\.description)
        #expect(Set(planted).symmetricDifference(others) == [])
    }

    @Test("after reopening", arguments: BrokenKeyValueLocation.Defect.allCases)
    func places(_ defect: BrokenKeyValueLocation.Defect) async throws {
        var failed: [String] = []
        let turn = BrokenKeyValueLocation.Defect.allCases.firstIndex(of: defect) ?? 0
        let checks = TestDepth.checks(ConformanceChecks.transactionalKeyValueStorePersistence, turn: turn) {
            $0.description == defect.check
        }
        for check in checks {
            do {
                try await check.run(on: BrokenKeyValueLocation(defect).place)
            } catch {
                failed.append(check.description)
            }
        }
        #expect(failed.contains(defect.check))
        #expect(failed.count < checks.count || defect == .isNeverEmpty || !TestDepth.isDeep)
    }

    @Test(
        "after reopening a location without a defect",
        arguments: ConformanceChecks.transactionalKeyValueStorePersistence)
    func soundPlace(_ check: ConformanceCheck<KeyValueStoreLocation<any KVTransactionalStoring>>) async throws {
        try await check.run(on: BrokenKeyValueLocation(nil).place)
    }

    @Test("with a defect for each of those checks")
    func completenessOfPlaces() {
        let planted = BrokenKeyValueLocation.Defect.allCases.map(\.check)
        #expect(Set(planted) == Set(ConformanceChecks.transactionalKeyValueStorePersistence.map(\.description)))
    }
}

extension ConformanceCheck {
    /// The type whose values the check stores, from the check's description; nil for other checks.
    fileprivate var typeOfValues: String? {
        guard description.hasPrefix("every "), description.hasSuffix(" round-trips") else { return nil }
        return String(description.dropFirst("every ".count).dropLast(" round-trips".count))
    }
}

@Suite("Every check of a file store detects its defect")
struct FileStoreDefectTests {
    private static let suite = ConformanceSuite<any FileStoring>.fileStore

    @Test("a wrapper without a defect passes")
    func sound() async {
        let report = await Self.suite.run(on: "sound", having: [.emptyDirectories]) { BrokenFileStore(nil) }
        #expect(report.holds, "\(report)")
    }

    @Test(arguments: FileStoreDefect.allCases)
    func defects(_ defect: FileStoreDefect) async throws {
        let check = try #require(Self.suite.checks.first { $0.description == defect.check })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenFileStore(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        #expect(
            Set(FileStoreDefect.allCases.map(\.check))
                .symmetricDifference(Self.suite.checks.map(\.description)) == [])
    }
}

@Suite("Every check of a streaming file store, but those of attributes, detects its defect")
struct StreamingFileStoreDefectTests {
    private static let checks = ConformanceChecks.streamingFileStore.filter { !$0.needs.contains(.fileAttributes) }

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<any StreamingFileStoring>) async throws {
        try await check.run(on: BrokenStreamingFileStore(nil))
    }

    @Test(arguments: BrokenStreamingFileStore.Defect.allCases)
    func defects(_ defect: BrokenStreamingFileStore.Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.check })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenStreamingFileStore(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let planted = BrokenStreamingFileStore.Defect.allCases.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }
}

@Suite("The checks of a file store that expect a refusal")
struct FileStoreRefusalTests {
    /// The checks in which the order of concurrent calls decides which of them are refused.
    private static let races = [
        FileStoreDefect.movesExchanged.check, FileStoreDefect.needsDirectories.check,
        BrokenStreamingFileStore.Defect.losesUpdates.check,
    ]

    @Test(
        "each fail if a call that is refused seems to succeed",
        arguments: ConformanceSuite<any FileStoring>.fileStore.checks(having: [.emptyDirectories]))
    func refusals(_ check: ConformanceCheck<any FileStoring>) async throws {
        let fails = try await isNoticed(by: check) { try await ForgivingFileStore($0) }
        #expect(fails || Self.races.contains(check.description))
    }

    @Test(
        "each fail if a call of a streaming store that is refused seems to succeed",
        arguments: ConformanceChecks.streamingFileStore)
    func streamingRefusals(_ check: ConformanceCheck<any StreamingFileStoring>) async throws {
        let fails = try await isNoticed(by: check) { try await ForgivingFileStore($0) }
        #expect(fails || Self.races.contains(check.description))
    }
}

@Suite("Every check of an asynchronous store detects its defect")
struct AsyncDefectTests {
    private static let checks = ConformanceChecks.asyncKeyValueStore

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        try await check.run(on: BrokenAsyncKVStore.subject())
    }

    @Test("in the behaviour of the calls", arguments: BrokenAsyncKVStore.Defect.allCases)
    func defects(_ defect: BrokenAsyncKVStore.Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.check })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenAsyncKVStore.subject(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let planted = BrokenAsyncKVStore.Defect.allCases.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("a store that refuses batches above its declared size passes the check of it")
    func batchSize() async throws {
        let defect = BrokenAsyncKVStore.Defect.exceedsItsLimit
        let check = try #require(Self.checks.first { $0.description == defect.check })
        let store = LimitedAsyncKVStore()
        try await check.run(on: AsyncKVStoreUnderTest(store, other: store, pass: { _ in }))
    }

    @Test("a store in which a call that is refused seems to succeed fails", arguments: checks)
    func refusals(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        let fails = try await isNoticed(by: check) { ForgivingAsyncKVStore.subject($0) }
        // Whether an update is refused depends on the order of concurrent calls.
        #expect(fails || check.description == BrokenAsyncKVStore.Defect.losesAnUpdate.check)
    }

    @Test("a store that claims what it does not do fails", arguments: BrokenAsyncKVStore.Claim.allCases)
    func claims(_ claim: BrokenAsyncKVStore.Claim) async throws {
        let report = await ConformanceSuite.asyncKeyValueStore.run(on: claim.rawValue) {
            BrokenAsyncKVStore.subject(claim: claim)
        }
        #expect(!report.violations.isEmpty, "\(report)")
    }
}
