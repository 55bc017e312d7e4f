import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

#if os(Linux)
/// Checks on the system's file systems that need a device.
@Suite("Devices of the system behave the same")
struct SystemDeviceTests {
    @Test("full ones", .enabled(if: !ScratchDevice.small.isEmpty), arguments: ConformanceChecks.fileSystemQuota)
    func quota(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        for kind in ScratchDevice.small { try await run(check, on: kind) }
    }

    @Test(
        "read-only ones", .enabled(if: !ScratchDevice.available.isEmpty),
        arguments: ConformanceChecks.fileSystemReadOnly)
    func readOnly(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        for kind in ScratchDevice.available { try await run(check, on: kind) }
    }

    @Test("two of them", .enabled(if: !ScratchDevice.small.isEmpty), arguments: ConformanceChecks.fileSystemDevices)
    func devices(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        for kind in ScratchDevice.small { try await run(check, on: kind) }
    }

    private func run(_ check: ConformanceCheck<FileSystemUnderTest>, on kind: ScratchDevice.Kind) async throws {
        let device = try ScratchDevice(kind)
        let other = try TemporaryDirectory()
        defer { other.remove() }
        var subject = FileSystemUnderTest(SystemFileSystem(), root: try device.newDirectory())
        subject.makeReadOnly = device.makeReadOnly
        subject.otherDevice = other.path
        do {
            try await check.run(on: subject)
        } catch {
            Issue.record(error, "\(kind.rawValue): \(check)")
        }
        try device.remove()
    }
}
#endif

/// Checks on the system's file systems that need a process or directory of their own.
@Suite("A process of the system behaves the same")
struct SystemProcessTests {
    /// Whether the temporary directory is on a file system with that limit; prints a notice if not.
    private static let hasLinkLimit: Bool = {
        let limit = pathconf(FileManager.default.temporaryDirectory.path, CInt(_PC_LINK_MAX))
        if limit != 65_000 { print("NOT RUN: the link limit on the disk, which is \(limit) here and not 65000") }
        return limit == 65_000
    }()

    @Test("at the link limit", .enabled(if: hasLinkLimit), arguments: ConformanceChecks.fileSystemLinkLimit)
    func linkLimit(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        try await check.run(on: FileSystemUnderTest(SystemFileSystem(), root: directory.path))
    }

    @Test("with its descriptors")
    func descriptors() async {
        await #expect(processExitsWith: .success) {
            let directory = try TemporaryDirectory()
            var limit = rlimit()
            guard getrlimit(openFiles, &limit) == 0 else { throw Errno(rawValue: errno) }
            limit.rlim_cur = 128
            guard setrlimit(openFiles, &limit) == 0 else { throw Errno(rawValue: errno) }
            for (number, check) in ConformanceChecks.fileSystemDescriptors.enumerated() {
                let root = directory.path.appending(POSIXPath("\(number)"))
                try SystemFileSystem().createDirectory(root)
                try await check.run(on: FileSystemUnderTest(SystemFileSystem(), root: root))
            }
            directory.remove()
        }
    }

    @Test("in a working directory that was removed")
    func removedWorkingDirectory() async throws {
        await #expect(processExitsWith: .success) {
            let directory = try TemporaryDirectory()
            guard chdir(String(directory.path)) == 0 else { throw Errno(rawValue: errno) }
            directory.remove()
            try expectNothingIsCreated(in: SystemFileSystem())
        }
        let memory = InMemoryFileSystem()
        try memory.createDirectory("/d")
        try memory.changeDirectory("/d")
        try memory.removeDirectory("/d")
        try expectNothingIsCreated(in: memory)
    }
}

private func expectNothingIsCreated(in fileSystem: some POSIXFileSystem) throws {
    for call in [
        { _ = try fileSystem.open("x", .writeOnly, options: [.create]) }, { try fileSystem.createDirectory("x") },
        { try fileSystem.createSymbolicLink("x", to: "y") },
    ] {
        do {
            try call()
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            continue
        }
        throw Errno.fileExists
    }
}

#if os(Linux)
private let openFiles = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
#else
private let openFiles = RLIMIT_NOFILE
#endif
