import Dispatch
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
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
        for options in [InMemoryFileSystem.Options(), .darwin] {
            let fileSystem = InMemoryFileSystem(options: options)
            var subject = try inMemorySubject(fileSystem)
            subject.profile = options.profile
            subject.asUser = { user, group in fileSystem.process(user: user, group: group) }
            try await check.run(on: subject)
        }
    }

    #if os(Linux)
    @Test(
        "permissions on the disk", .enabled(if: ImpersonatingFileSystem.isPossible),
        arguments: ConformanceChecks.fileSystemPermissions.filter { !$0.needs.contains(.directoryWatches) })
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

    @Test(
        "names in memory, where only case or only normalisation is ignored",
        arguments: ConformanceChecks.fileSystem.filter { $0.description.hasSuffix("is ignored") }, [true, false])
    func folding(_ check: ConformanceCheck<FileSystemUnderTest>, ignoresCase: Bool) async throws {
        let options = InMemoryFileSystem.Options(
            isCaseInsensitive: ignoresCase, isNormalisationInsensitive: !ignoresCase)
        var subject = try inMemorySubject(InMemoryFileSystem(options: options))
        (subject.isCaseInsensitive, subject.isNormalisationInsensitive) = (ignoresCase, !ignoresCase)
        try await check.run(on: subject)
    }
}

func inMemorySubject(_ fileSystem: InMemoryFileSystem = InMemoryFileSystem()) throws -> FileSystemUnderTest {
    try fileSystem.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
    return FileSystemUnderTest(fileSystem, root: "/root")
}

@Suite("A file system with only the required calls")
struct RequiredCallsTests {
    private let fileSystem = PlainFileSystem()

    @Test("refuses the others, each with the error that says so")
    func refusals() throws {
        let (fileSystem, queue) = (self.fileSystem, DispatchQueue(label: "required calls"))
        let file = try fileSystem.open("/file", .readWrite, options: [.create])
        let calls: [(FileSystemOperation, Errno, () throws -> Void)] = [
            (.map, .operationNotSupportedByDevice, { _ = try fileSystem.map(file, at: 0, count: 1) }),
            (.copyRange, .notSupported, { _ = try fileSystem.copyRange(from: file, at: 0, to: file, at: 9, count: 1) }),
            (.listExtendedAttributes, .notSupported, { _ = try fileSystem.extendedAttributeNames(of: file) }),
            (.readExtendedAttribute, .notSupported, { _ = try fileSystem.extendedAttribute("a", of: file) }),
            (.setExtendedAttribute, .notSupported, { try fileSystem.setExtendedAttribute("a", to: [1], of: file) }),
            (
                .watch, .notSupported,
                { _ = try fileSystem.makeDirectoryWatch(on: queue, onEvents: { _ in }, onCancel: {}) }
            ),
        ]
        for (operation, errno, call) in calls {
            let error = #expect(throws: FileSystemError.self) { try call() }
            #expect(error?.operation == operation && error?.errno == errno)
        }
        let signal = try fileSystem.makeSignal(of: file)
        #expect(signal == nil && fileSystem.preciseTime == nil && fileSystem.reportsErrorsOfMappings)
    }

    @Test("holds stores")
    func stores() async throws {
        let key = KVKey<Int>("a")
        for sharing in [FileKVStore.Sharing.exclusive, .shared] {
            let store = try FileKVStore(at: "/settings", fileSystem: fileSystem, options: .init(sharing: sharing))
            try store.set(key, value: (store.get(key) ?? 0) + 1)
            try store.close()
        }
        #expect(try FileKVStore(at: "/settings", fileSystem: fileSystem).read(key) == 2)
        let files = DiskFileStore(root: URL(filePath: "/files"), fileSystem: fileSystem)
        try await files.save(Data("text".utf8), to: "d/f")
        #expect(try await files.load("d/f") == Data("text".utf8))
        #expect(try await files.list(recursive: true).map(\.key).sorted() == ["d", "d/f"])
    }
}

/// The required calls of an in-memory file system.
private struct PlainFileSystem: POSIXFileSystem {
    private let base = InMemoryFileSystem()

    var effectiveUser: UserID { base.effectiveUser }

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try base.open(path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
    }

    func close(_ descriptor: Descriptor) throws(FileSystemError) { try base.close(descriptor) }

    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor { try base.duplicate(descriptor) }

    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int { try base.read(descriptor, into: buffer, at: offset) }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int { try base.write(descriptor, from: buffer, at: offset) }

    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 { try base.seek(descriptor, to: offset, from: origin) }

    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try base.truncate(file, to: sizeInBytes)
    }

    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try base.allocate(descriptor, at: offset, length: length)
    }

    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try base.synchronize(descriptor, level)
    }

    func status(of file: FileReference) throws(FileSystemError) -> FileStatus { try base.status(of: file) }

    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try base.setPermissions(permissions, of: file)
    }

    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try base.setOwner(owner, group: group, of: file)
    }

    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        try base.setTimes(accessed: accessed, modified: modified, of: file)
    }

    func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) { try base.createDirectory(path, at: directory, permissions: permissions) }

    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try base.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
    }

    func createSymbolicLink(_ path: POSIXPath, at directory: Descriptor, to target: POSIXPath) throws(FileSystemError) {
        try base.createSymbolicLink(path, at: directory, to: target)
    }

    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try base.readSymbolicLink(path, at: directory)
    }

    func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) { try base.link(path, at: directory, to: newPath, at: newDirectory) }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) { try base.rename(path, at: directory, to: newPath, at: newDirectory, mode) }

    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try base.unlink(path, at: directory)
    }

    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try base.removeDirectory(path, at: directory)
    }

    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try base.entries(of: descriptor)
    }

    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try base.lock(descriptor, mode, waiting: waiting)
    }
}
