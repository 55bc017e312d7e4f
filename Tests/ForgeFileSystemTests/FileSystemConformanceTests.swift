import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@Suite("All file systems behave the same")
struct FileSystemConformanceTests {
    @Test("in memory", arguments: ConformanceChecks.fileSystem)
    func inMemory(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: try inMemorySubject())
    }

    @Test(
        "in memory as on a Mac",
        arguments: TestDepth.leavingOut("a hundred thousand opens", of: ConformanceChecks.fileSystem))
    func inMemoryDarwin(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        var subject = try inMemorySubject(InMemoryFileSystem(options: .darwin))
        subject.profile = .darwin
        subject.isCaseInsensitive = true
        subject.isNormalisationInsensitive = true
        try await check.run(on: subject)
    }

    @Test("on the disk", arguments: ConformanceChecks.fileSystem)
    func onDisk(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        var subject = FileSystemUnderTest(SystemFileSystem(), root: directory.path)
        #if canImport(Darwin)
        subject.profile = .darwin
        subject.isCaseInsensitive = true
        subject.isNormalisationInsensitive = true
        #endif
        subject.umask = try directory.umask()
        try await check.run(on: subject)
    }

    @Test("a full device in memory", arguments: ConformanceChecks.fileSystemQuota)
    func quota(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let quota = InMemoryFileSystem.Quota(sizeInBytes: 100_000, inodeCount: 64)
        try await check.run(on: inMemorySubject(InMemoryFileSystem(options: .init(quota: quota))))
    }

    @Test("a read-only device in memory", arguments: ConformanceChecks.fileSystemReadOnly)
    func readOnly(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let fileSystem = InMemoryFileSystem()
        var subject = try inMemorySubject(fileSystem)
        subject.makeReadOnly = { try fileSystem.setReadOnly(true) }
        try await check.run(on: subject)
    }

    @Test("two devices in memory", arguments: ConformanceChecks.fileSystemDevices)
    func devices(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let fileSystem = InMemoryFileSystem()
        var subject = try inMemorySubject(fileSystem)
        try fileSystem.createDirectory("/other")
        try fileSystem.mount(at: "/other")
        subject.otherDevice = "/other"
        try await check.run(on: subject)
    }

    @Test(
        "two devices of the system", .enabled(if: FileManager.default.fileExists(atPath: "/dev/shm")),
        arguments: ConformanceChecks.fileSystemDevices)
    func systemDevices(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        var subject = FileSystemUnderTest(SystemFileSystem(), root: directory.path)
        subject.otherDevice = "/dev/shm"
        try await check.run(on: subject)
    }

    @Test("descriptors in memory", arguments: ConformanceChecks.fileSystemDescriptors)
    func descriptors(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let fileSystem = InMemoryFileSystem(options: .init(maximumOpenFileCount: 10))
        var subject = try inMemorySubject(fileSystem)
        subject.maximumOpenFileCount = 10
        try await check.run(on: subject)
        #expect(fileSystem.openDescriptors.isEmpty)
    }

    @Test("permissions in memory", arguments: ConformanceChecks.fileSystemPermissions)
    func permissions(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let fileSystem = InMemoryFileSystem()
        var subject = try inMemorySubject(fileSystem)
        subject.asUser = { user, group in fileSystem.process(user: user, group: group) }
        try await check.run(on: subject)
    }

    #if os(Linux)
    @Test(
        "permissions on the disk", .enabled(if: ImpersonatingFileSystem.isPossible),
        arguments: ConformanceChecks.fileSystemPermissions)
    func systemPermissions(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let system = SystemFileSystem()
        try system.setPermissions(FilePermissions(rawValue: 0o755), of: .path(directory.path))
        var subject = FileSystemUnderTest(system, root: directory.path)
        subject.asUser = { user, group in
            guard let other = ImpersonatingFileSystem(user: user, group: group) else { return system }
            return other
        }
        try await check.run(on: subject)
    }
    #endif

    @Test("the link limit in memory", arguments: ConformanceChecks.fileSystemLinkLimit)
    func linkLimit(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: inMemorySubject())
    }

    @Test("the maximum size of a file in memory", arguments: ConformanceChecks.fileSystemSizeLimit)
    func sizeLimit(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        for profile in [InMemoryFileSystem.Profile.linux, .darwin] {
            var options = InMemoryFileSystem.Options(profile: profile)
            var subject = try inMemorySubject(InMemoryFileSystem(options: options))
            (subject.profile, subject.maximumFileSizeInBytes) = (profile, options.maximumFileSizeInBytes)
            try await check.run(on: subject)
            options.maximumFileSizeInBytes = 100
            subject.fileSystem = try inMemorySubject(InMemoryFileSystem(options: options)).fileSystem
            subject.maximumFileSizeInBytes = 100
            try await check.run(on: subject)
        }
    }

    @Test("extended attributes in memory", arguments: ConformanceChecks.fileSystemExtendedAttributes)
    func extendedAttributes(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: inMemorySubject())
        var subject = try inMemorySubject(InMemoryFileSystem(options: .darwin))
        subject.profile = .darwin
        try await check.run(on: subject)
    }

    @Test(
        "times of accesses, processes, watches and signals in memory",
        arguments: ConformanceChecks.fileSystemAccessTimes + ConformanceChecks.fileSystemProcesses
            + ConformanceChecks.fileSystemWatching + ConformanceChecks.fileSystemSignals)
    func processes(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        var options = InMemoryFileSystem.Options()
        if check.needs.contains(.watchLimits) { (options.maximumWatchCount, options.maximumQueuedEventCount) = (8, 8) }
        let fileSystem = InMemoryFileSystem(options: options)
        var subject = try inMemorySubject(fileSystem)
        subject.startProcess = {
            let process = fileSystem.process()
            return (process, { process.endProcess() })
        }
        (subject.maximumWatchCount, subject.maximumQueuedEventCount) = (8, 8)
        try await check.run(on: subject)
    }

    @Test(
        "watches of directories of the system",
        arguments: ConformanceChecks.fileSystemWatching.filter { $0.needs == [.directoryWatches] })
    func systemWatching(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        try await check.run(on: FileSystemUnderTest(SystemFileSystem(), root: directory.path))
    }

    @Test(
        "extended attributes of the system", arguments: ConformanceChecks.fileSystemExtendedAttributes,
        ["/tmp", "/dev/shm"])
    func systemExtendedAttributes(_ check: ConformanceCheck<FileSystemUnderTest>, in parent: String) async throws {
        guard FileManager.default.fileExists(atPath: parent) else {
            print("NOT RUN: extended attributes in \(parent), which does not exist")
            return
        }
        let directory = try TemporaryDirectory(in: URL(filePath: parent))
        if try Self.hasExtendedAttributes(directory.path) {
            var subject = FileSystemUnderTest(SystemFileSystem(), root: directory.path)
            #if canImport(Darwin)
            subject.profile = .darwin
            #endif
            subject.umask = try directory.umask()
            try await check.run(on: subject)
        } else {
            print("NOT RUN: extended attributes in \(parent), which has none")
        }
        directory.remove()
    }

    private static func hasExtendedAttributes(_ path: POSIXPath) throws(FileSystemError) -> Bool {
        let system = SystemFileSystem()
        let directory = try system.open(path, options: [.directory])
        let error = probe(directory, system)
        try system.close(directory)
        return error?.errno != .notSupported
    }

    private static func probe(_ file: Descriptor, _ system: SystemFileSystem) -> FileSystemError? {
        do {
            _ = try system.extendedAttribute("probe", of: file)
            return nil
        } catch {
            return error
        }
    }

    @Test("case-insensitive names, in memory", arguments: ConformanceChecks.fileSystemCaseInsensitive)
    func caseInsensitive(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: inMemorySubject(InMemoryFileSystem(options: .init(isCaseInsensitive: true))))
        try await check.run(on: inMemorySubject(InMemoryFileSystem(options: .darwin)))
    }

    @Test("normalisation-insensitive names, in memory", arguments: ConformanceChecks.fileSystemNormalisationInsensitive)
    func normalisationInsensitive(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: inMemorySubject(InMemoryFileSystem(options: .init(isNormalisationInsensitive: true))))
        try await check.run(on: inMemorySubject(InMemoryFileSystem(options: .darwin)))
    }
}

func inMemorySubject(_ fileSystem: InMemoryFileSystem = InMemoryFileSystem()) throws -> FileSystemUnderTest {
    try fileSystem.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
    return FileSystemUnderTest(fileSystem, root: "/root")
}
