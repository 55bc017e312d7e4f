import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("The checks of copied ranges")
struct RangeCopyTests {
    /// The raw value is the description of the check that detects the defect.
    enum Defect: String, CaseIterable, Sendable {
        case ignoresSourceOffset = "a range is copied from its offset to its offset, and the offsets of both files stay"
        case refusesTheFarSide = "a range that is copied behind the end extends the file, with zeros before it"
        case countsWhatWasAsked = "a copy ends at the end of its source"
        case copiesBlocks = "a large range is copied byte for byte, in as many calls as it takes"
        case ignoresModes = "a copy refuses descriptors that do not permit it, and changes nothing"
    }

    /// More defects that the check of the offsets detects: one for each argument.
    enum OffsetDefect: String, CaseIterable, Sendable {
        case ignoresTargetOffset, copiesOneMore, copiesOneLess, movesOffsets, copiesBackwards
    }

    private typealias Intercepted = InterceptedFileSystem<InMemoryFileSystem>

    private static let checks = ConformanceChecks.fileSystem.filter { check in
        Defect.allCases.contains { $0.rawValue == check.description }
    }

    private func subject(
        _ defect: Defect? = nil, _ offsets: OffsetDefect? = nil
    ) throws -> FileSystemUnderTest {
        let base = InMemoryFileSystem()
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        var fileSystem = Intercepted(base) { (_) throws(FileSystemError) in }
        fileSystem.copyingRange = { (base, call) throws(FileSystemError) in
            var call = call
            let asked = call.count
            let size = try base.status(of: .descriptor(call.target)).sizeInBytes
            switch (defect, offsets) {
            case (.ignoresSourceOffset, _): call.sourceOffset = 0
            case (.refusesTheFarSide, _): call.targetOffset = min(call.targetOffset, size)
            case (.copiesBlocks, _) where call.count > 4_096: call.sourceOffset -= call.sourceOffset % 4_096
            case (_, .ignoresTargetOffset): call.targetOffset = 0
            case (_, .copiesOneMore): call.count += 1
            case (_, .copiesOneLess): call.count = max(call.count - 1, 1)
            case (_, .copiesBackwards): swap(&call.sourceOffset, &call.targetOffset)
            default: break
            }
            let read: Int
            do throws(FileSystemError) {
                let bytes = try base.readBytes(of: call.source, at: call.sourceOffset, count: call.count)
                try base.writeBytes(bytes, to: call.target, at: call.targetOffset)
                if offsets == .movesOffsets { _ = try base.seek(call.source, to: 1, from: .start) }
                read = bytes.count
            } catch {
                guard defect == .ignoresModes else { throw error }
                return 0
            }
            let claims = defect == .countsWhatWasAsked || offsets == .copiesOneLess
            return claims ? asked : min(read, asked)
        }
        return FileSystemUnderTest(fileSystem, root: "/root")
    }

    @Test(
        "pass for a correct copy and for a file system without such a call, in memory and on the disk",
        arguments: checks)
    private func sound(_ check: FileSystemCheck) async throws {
        try await check.run(on: subject())
        let base = InMemoryFileSystem()
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        try await check.run(on: FileSystemUnderTest(base, root: "/root"))
        let directory = FileManager.default.temporaryDirectory
            .appending(component: "RangeCopy-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: directory) } catch { Issue.record("\(error)") } }
        let root = try POSIXPath(directory.resolvingSymlinksInPath())
        let path = POSIXPath(root.bytes.last == UInt8(ascii: "/") ? root.bytes.dropLast() : root.bytes)
        try await check.run(on: FileSystemUnderTest(SystemFileSystem(), root: path))
    }

    @Test("detect their defect", arguments: Defect.allCases)
    func defects(_ defect: Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: subject(defect)) }
    }

    @Test("vary each argument", arguments: OffsetDefect.allCases)
    func arguments(_ defect: OffsetDefect) async throws {
        let check = try #require(Self.checks.first { $0.description == Defect.ignoresSourceOffset.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: subject(nil, defect)) }
    }
}

@Suite("A range that is copied on a file system with faults")
struct FaultingRangeCopyTests {
    @Test("is as short as a rule says, and leaves the sectors that it replaces to stale reads")
    func faults() throws {
        let old = String(repeating: "o", count: 1024)
        var base = InterceptedFileSystem(
            try memory {
                try $0.put(String(repeating: "n", count: 1024), at: "/new")
                try $0.put(old, at: "/old")
            }
        ) { (_) throws(FileSystemError) in }
        base.copyingRange = { (base, call) throws(FileSystemError) in
            let bytes = try base.readBytes(of: call.source, at: call.sourceOffset, count: call.count)
            try base.writeBytes(bytes, to: call.target, at: call.targetOffset)
            return bytes.count
        }
        let plan = FaultPlan([
            .on(.copyRange, call: 1, do: .shorten(toBytes: 600)),
            .on(.read, matching: "/old", name: "stale", do: .corrupt(.staleSector(1))),
        ])
        let fileSystem = FaultingFileSystem(base, plan: plan)
        let source = try fileSystem.open("/new")
        let target = try fileSystem.open("/old", .readWrite)
        #expect(try fileSystem.copyRange(from: source, at: 0, to: target, at: 0, count: 1024) == 600)
        let (new, rest) = (String(repeating: "n", count: 512), String(repeating: "o", count: 512))
        #expect(try fileSystem.text(at: "/old") == new + rest)
        try plan.requireAllFired()
        plan.lift("stale")
        #expect(try fileSystem.copyRange(from: source, at: 600, to: target, at: 600, count: 424) == 424)
        #expect(try fileSystem.text(at: "/old") == new + new)
        for descriptor in [source, target] { try fileSystem.close(descriptor) }
    }
}

private typealias FileSystemCheck = ConformanceCheck<FileSystemUnderTest>
