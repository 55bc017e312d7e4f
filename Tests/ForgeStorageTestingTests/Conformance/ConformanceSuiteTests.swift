import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@Suite("A suite of checks")
struct ConformanceSuiteTests {
    private static let sometimes = ConformanceCapability("a gift")
    private let suite = ConformanceSuite<Int>(
        "number",
        [
            ConformanceCheck("is positive") { if $0 <= 0 { throw ConformanceViolation("it is \($0)") } },
            ConformanceCheck("is even", needs: [sometimes]) {
                if !$0.isMultiple(of: 2) { throw ConformanceViolation("it is odd") }
            },
            ConformanceCheck("is small") { if $0 > 10 { throw CocoaError(.fileWriteUnknown) } },
        ])

    @Test("reports each outcome and never counts an inapplicable check as passed")
    func outcomes() async {
        let report = await suite.run(on: "one", having: []) { 1 }
        #expect(report.passedCount == 2)
        #expect(report.outcome(of: "is even") == .notApplicable("needs a gift"))
        #expect(report.outcome(of: "is odd") == nil)
        #expect(report.holds)
        #expect(
            report.description == """
                one, number: 2 passed, 0 violated, 1 not applicable
                  not applicable: is even: needs a gift
                """)
    }

    @Test("checks everything by default")
    func everything() async {
        let report = await suite.run(on: "one") { 1 }
        let place = "(ForgeStorageTestingTests/ConformanceSuiteTests.swift:20)"
        #expect(report.outcome(of: "is even") == .violated("it is odd \(place)"))
        #expect(!report.holds)
        #expect(report.violations.map(\.check) == ["is even"])
        #expect(report.violations.map(\.description) == ["  violated: is even: it is odd \(place)"])
        #expect(report.results.map(\.outcome).first == .passed)
        #expect(report.results.first?.description == "  passed: is positive")
    }

    @Test("reports unexpected errors, and subjects that cannot be created, as violations")
    func errors() async {
        let unexpected = await suite.run(on: "eleven") { 12 }
        #expect(unexpected.violations.map(\.check) == ["is small"])
        #expect(unexpected.violations.first?.description.hasPrefix("  violated: is small: unexpected error") ?? false)
        let unmade = await suite.run(on: "none") { throw CocoaError(.fileReadUnknown) }
        #expect(unmade.violations.count == 3)
        #expect(!unmade.holds)
    }

    @Test("names the call and its arguments where a file system should have refused one")
    func calls() async throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        var subject = FileSystemUnderTest(fileSystem, root: "/root")
        // Held to the limits of another system.
        subject.profile = .darwin
        let check = try #require(
            ConformanceChecks.fileSystem.first { $0.description == "a path one byte longer than the limit is refused" })
        let report = await ConformanceSuite("paths", [check]).run(on: "Linux") { [subject] in subject }
        let text = try #require(report.violations.first).description
        #expect(text.contains("the call: expected ENAMETOOLONG, but nothing was thrown"), "\(text)")
        #expect(text.contains("status /root/"), "\(text)")
    }

    @Test("names the call where a file system has accepted an invalid descriptor")
    func invalidDescriptors() async throws {
        let base = InMemoryFileSystem()
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        let plan = FaultPlan([.on(.synchronize, do: .lieAboutSynchronization)])
        let subject = FileSystemUnderTest(FaultingFileSystem(base, plan: plan), root: "/root")
        let check = try #require(
            ConformanceChecks.fileSystem.first { $0.description == "every call refuses an invalid descriptor" })
        let report = await ConformanceSuite("descriptors", [check]).run(on: "no flushes") { subject }
        let text = try #require(report.violations.first).description
        #expect(text.contains("synchronize(1999999, .full): expected EBADF, but nothing was thrown"), "\(text)")
    }

    @Test("shows both lists of files where they differ")
    func files() {
        let file = StoredFile(key: "a", sizeInBytes: 3, modified: Date(timeIntervalSince1970: 1))
        let violation = #expect(throws: ConformanceViolation.self) { try expectEqual([file], [], "files") }
        let text = #"files: expected [], got [file "a" of 3 bytes, modified 1.0 s since 1970] ("#
        #expect(violation?.description.hasPrefix(text) == true, "\(String(describing: violation))")
    }

    @Test("does not hold if no check applies")
    func nothing() async {
        let gated = ConformanceSuite("gated", suite.checks.map { $0.needing(Self.sometimes) })
        #expect(gated.capabilities == [Self.sometimes])
        #expect(gated.checks(having: []).isEmpty)
        #expect(gated.checks(having: [Self.sometimes]).count == 3)
        let report = await gated.run(on: "two", having: []) { 2 }
        #expect(report.notApplicable.count == 3)
        #expect(!report.holds)
    }

    @Test("gives every check a separate subject")
    func freshSubjects() async {
        let counter = KVKey<Int>("count")
        let store = InMemoryKVStore()
        _ = await suite.run(on: "fresh") {
            try store.set(counter, value: (store.get(counter) ?? 0) + 1)
            return 2
        }
        #expect(store.get(counter) == 3)
    }

    @Test("of a larger protocol contains that of the smaller one")
    func inclusion() {
        let stores = [
            ConformanceSuite<any KVStoring>.keyValueStore.checks.map(\.description),
            ConformanceSuite<any KVRawStoring>.rawKeyValueStore.checks.map(\.description),
            ConformanceSuite<any KVTransactionalStoring>.transactionalKeyValueStore.checks.map(\.description),
        ]
        let locations = [
            ConformanceSuite<KeyValueStoreLocation<any KVStoring>>.keyValueStorePersistence.checks.map(\.description),
            ConformanceSuite<KeyValueStoreLocation<any KVRawStoring>>.rawKeyValueStorePersistence.checks
                .map(\.description),
            ConformanceSuite<KeyValueStoreLocation<any KVTransactionalStoring>>.transactionalKeyValueStorePersistence
                .checks.map(\.description),
        ]
        for descriptions in [stores, locations] {
            for (smaller, larger) in zip(descriptions, descriptions.dropFirst()) {
                #expect(Set(smaller).isStrictSubset(of: larger))
            }
        }
    }

    @Test("is published for every protocol, with distinct descriptions")
    func published() {
        let suites: [[String]] = [
            ConformanceSuite.transactionalKeyValueStore.checks.map(\.description),
            ConformanceSuite.transactionalKeyValueStorePersistence.checks.map(\.description),
            ConformanceSuite<any FileStoring>.fileStore.checks.map(\.description),
            ConformanceSuite.fileStoreConditions.checks.map(\.description),
            ConformanceSuite.keyValueStoreConditions.checks.map(\.description),
            ConformanceSuite<any CryptStoring>.secretStore.checks.map(\.description),
            ConformanceSuite.secretStoreConditions.checks.map(\.description),
            ConformanceSuite<any SessionStorage<ConformanceUser>>.sessionStorage.checks.map(\.description),
            ConformanceSuite.asyncSessionStorage.checks.map(\.description),
            ConformanceSuite<any Storage>.storage.checks.map(\.description),
            ConformanceSuite<FileSystemUnderTest>.fileSystem.checks.map(\.description),
            ConformanceSuite<FileOperationsUnderTest>.fileOperations.checks.map(\.description),
        ]
        for descriptions in suites {
            #expect(!descriptions.isEmpty)
            #expect(Set(descriptions).count == descriptions.count)
        }
        #expect(
            ConformanceSuite<any Storage>.storage.capabilities == [.removal, .keysArePaths, .orderedHandlers])
        #expect(ConformanceSuite<FileSystemUnderTest>.fileSystem.capabilities.count == 15)
        #expect(
            ConformanceSuite.fileStoreConditions.capabilities
                == [.limitedSpace, .readOnlyDevice, .failingDevice, .loadLimit, .secondStore, .foreignFiles])
        #expect(
            ConformanceSuite.keyValueStoreConditions.capabilities == [.valueSizeLimit, .limitedSpace, .secondStore])
    }
}

/// Prints the time of each suite on its store in memory, and the processor time of the process meanwhile: up to 0.1 seconds
/// for key-value stores and secrets, 0.5 for files and 3 for a file system, in a debug build, if a test runs alone. The
/// limit is generous, because the checks of other tests run in between.
@Suite("A suite of checks is fast enough to run in every test of an app")
struct SuiteTimeTests {
    private func measure(_ run: () async -> ConformanceReport) async {
        let clock = ContinuousClock()
        let (start, processorStart) = (clock.now, Self.processorTime())
        let report = await run()
        let duration = clock.now - start
        let processorTime = Self.processorTime() - processorStart
        print("\(report.suite): \(report.passedCount) checks in \(duration), processor time \(processorTime)")
        #expect(report.holds, "\(report)")
        #expect(duration < TestDepth.hangLimit)
    }

    private static func processorTime() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    @Test func keyValueStore() async {
        await measure { await ConformanceSuite.transactionalKeyValueStore.run(on: "memory") { InMemoryKVStore() } }
    }

    @Test func fileStore() async {
        await measure {
            await ConformanceSuite.fileStore.run(on: "memory", having: [.emptyDirectories]) { InMemoryFileStore() }
        }
    }

    @Test func secretStore() async {
        await measure { await ConformanceSuite.secretStore.run(on: "memory") { InMemoryCrypt() } }
    }

    @Test func fileSystem() async {
        await measure {
            await ConformanceSuite("file system", ConformanceChecks.fileSystem).run(on: "memory") {
                let fileSystem = InMemoryFileSystem()
                try fileSystem.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
                return FileSystemUnderTest(fileSystem, root: "/root")
            }
        }
    }
}
