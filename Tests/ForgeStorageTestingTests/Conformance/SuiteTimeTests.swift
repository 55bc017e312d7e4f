import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

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
