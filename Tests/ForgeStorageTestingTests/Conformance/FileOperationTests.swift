import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Testing

@Suite("The checks of the six file operations")
struct FileOperationTests {
    private static let checks = ConformanceChecks.fileOperations

    /// Defects that other checks detect too, since a broken basic operation shows wherever it is used.
    private static let alsoFoundBy: [BrokenFileOperations.Defect: Set<BrokenFileOperations.Defect>] = [
        .readsOnce: [.ignoresSchemes, .writesInPlace],
        .hidesDotFiles: [.leavesTemporaryFile, .removesFilesByPrefix],
        .listsMissingAsEmpty: [.removesDirectoriesByPrefix],
    ]

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        try await check.run(on: BrokenFileOperations.subject(nil))
    }

    @Test("each detect their defect, and no other check does", arguments: BrokenFileOperations.Defect.allCases)
    func defects(_ defect: BrokenFileOperations.Defect) async throws {
        let report = await ConformanceSuite.fileOperations.run(on: defect.rawValue) {
            try BrokenFileOperations.subject(defect)
        }
        let expected = Set([defect]).union(Self.alsoFoundBy[defect] ?? [])
        #expect(Set(report.violations.map(\.check)) == Set(expected.map(\.rawValue)), "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = BrokenFileOperations.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("pass for the file system in memory, also with folding names", arguments: checks)
    func inMemory(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        for options in [
            InMemoryFileSystem.Options(),
            .init(profile: .darwin, isCaseInsensitive: true, isNormalisationInsensitive: true),
        ] {
            let fileSystem = InMemoryFileSystem(options: options)
            let directory = BrokenFileOperations.directory
            try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
            var subject = FileOperationsUnderTest(fileSystem, directory: directory)
            subject.makeSymbolicLink = { try fileSystem.createSymbolicLink(POSIXPath($0), to: POSIXPath($1)) }
            subject.fillDevice = { try fileSystem.setQuota(.init(sizeInBytes: fileSystem.usage().sizeInBytes)) }
            try await check.run(on: subject)
        }
    }

    @Test("pass on the disk, for this package's file system and for one that calls Foundation", arguments: checks)
    func onDisk(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        guard !check.needs.contains(.limitedSpace) else { return }
        for fileSystem in [SystemFileSystem(), FoundationFileOperations()] as [any FileSystemProtocol] {
            let directory = FileManager.default.temporaryDirectory
                .appending(component: "FileOperations-\(UUID().uuidString)", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { do { try FileManager.default.removeItem(at: directory) } catch { Issue.record("\(error)") } }
            var subject = FileOperationsUnderTest(fileSystem, directory: directory)
            subject.makeSymbolicLink = {
                try FileManager.default.createSymbolicLink(at: $0, withDestinationURL: $1)
            }
            try await check.run(on: subject)
        }
    }

    @Test("name the call, its arguments, what was expected and what came")
    func messages() async throws {
        let report = await ConformanceSuite.fileOperations.run(on: "broken") {
            try BrokenFileOperations.subject(.hidesDotFiles)
        }
        let messages = report.violations.map(\.description)
        #expect(messages.contains { $0.contains("contentsOfDirectory(at: file:///root/d/): expected [") }, "\(report)")
        #expect(messages.allSatisfy { $0.contains("ForgeStorageTesting/FileOperationChecks.swift:") })
    }
}
