import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("The checks of times, space, processes, watches and signals of a file system")
struct FileSystemDefectTests {
    private typealias Defect = BrokenFileSystem.Defect

    private static let checks = ConformanceSuite<FileSystemUnderTest>.fileSystem.checks.filter { check in
        Defect.allCases.contains { $0.rawValue == check.description }
    }

    @Test("pass for a file system without a defect", arguments: checks)
    private func sound(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: BrokenFileSystem.subject(nil, for: check))
    }

    @Test("each detect their defect", arguments: Defect.allCases)
    private func defects(_ defect: Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: BrokenFileSystem.subject(defect, for: check))
        }
    }

    @Test("have a defect each, if they are about accesses, processes, watches or signals")
    func completeness() {
        let lists = [
            ConformanceChecks.fileSystemAccessTimes, ConformanceChecks.fileSystemProcesses,
            ConformanceChecks.fileSystemWatching, ConformanceChecks.fileSystemSignals,
        ]
        let planted = Set(Defect.allCases.map(\.rawValue))
        #expect(Set(lists.flatMap { $0.map(\.description) }).subtracting(planted) == [])
    }

    @Test("each fail for a subject without the condition that they need")
    func nothing() async throws {
        for check in ConformanceChecks.fileSystemProcesses {
            let base = InMemoryFileSystem()
            try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
            let subject = FileSystemUnderTest(base, root: "/root")
            await #expect(throws: ConformanceViolation.self) { try await check.run(on: subject) }
        }
    }
}
