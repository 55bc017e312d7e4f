import CForgeFileSystem
import ChildProcesses
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeFileSystem

/// What differs on Apple's platforms, as far as it does not need one of them.
@Suite("Differences between platforms")
struct PlatformTests {
    @Test("EPERM means a locked device only where files are protected", arguments: ProtectionPlatform.allCases)
    func locked(_ platform: ProtectionPlatform) {
        let protects = [.iOS, .tvOS, .watchOS, .visionOS].contains(platform)
        for operation in FileSystemOperation.allCases {
            let isContent = [.open, .read, .write, .truncate, .allocate, .map].contains(operation)
            #expect(FileSystemError(operation, .notPermitted).isLocked(on: platform) == (protects && isContent))
            #expect(!FileSystemError(operation, .permissionDenied).isLocked(on: platform))
            let known = FileSystemError(operation, .notPermitted, underlying: ProtectedDataUnavailable())
            #expect(known.isLocked(on: platform))
        }
    }

    @Test("files of the classes 1 and 7 lose their pages when the device is locked")
    func protectionClasses() {
        #expect((CInt(-1)...8).filter { sysLosesPages(protectionClass: $0) } == [1, 7])
    }

    @Test("a flag that includes another takes its place, as O_NOFOLLOW_ANY that of O_NOFOLLOW")
    func flags() {
        #expect(sysFlags(0x0100_0102, replacing: 0x100, by: 0x2000_0000) == 0x2100_0002)
        #expect(sysFlags(0x0100_0002, replacing: 0x100, by: 0x2000_0000) == 0x2100_0002)
    }

    @Test("a path is opened component by component as the system opens it below a directory without following links")
    func walking() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let fileSystem = SystemFileSystem()
        let root = try fileSystem.open(directory.path, options: [.directory])
        defer { fileSystem.discard(root) }
        for path: POSIXPath in ["d", "d/e"] {
            try fileSystem.createDirectory(path, at: root, permissions: .ownerReadWriteExecute)
        }
        for (path, byte) in [("f", 1), ("d/g", 2), ("d/e/h", 3)] as [(POSIXPath, UInt8)] {
            let file = try fileSystem.open(path, at: root, .writeOnly, options: [.create])
            try fileSystem.writeBytes([byte], to: file, at: 0)
            try fileSystem.close(file)
        }
        for (link, target) in [("l", "f"), ("m", "d"), ("d/n", "g"), ("broken", "none")] as [(POSIXPath, POSIXPath)] {
            try fileSystem.createSymbolicLink(link, at: root, to: target)
        }
        func open(_ path: POSIXPath, _ flags: CInt, _ mode: mode_t = 0) -> (descriptor: CInt, errno: CInt) {
            let descriptor = path.withCString { sysOpenWalking(root.rawValue, $0, flags, mode) }
            return (descriptor, descriptor < 0 ? errno : 0)
        }
        for (path, byte) in [("f", 1), ("d/g", 2), ("d//e/./h", 3), ("./f", 1)] as [(POSIXPath, UInt8)] {
            let (descriptor, error) = open(path, O_RDONLY)
            #expect(error == 0, "\(path)")
            #expect(sysReadBytes(descriptor, upTo: 2) == [byte], "\(path)")
            _ = sysClose(descriptor)
        }
        for path: POSIXPath in ["d", "d/", ".", "d/e//"] {
            let (descriptor, error) = open(path, O_RDONLY)
            #expect(error == 0, "\(path)")
            _ = sysClose(descriptor)
        }
        let refusals: [(POSIXPath, CInt, CInt)] = [
            ("", O_RDONLY, ENOENT), ("/f", O_RDONLY, EXDEV), ("..", O_RDONLY, EXDEV), ("none", O_RDONLY, ENOENT),
            ("none/f", O_RDONLY, ENOENT), ("f/x", O_RDONLY, ENOTDIR), ("f/", O_RDONLY, ENOTDIR),
            ("f", O_RDONLY | O_DIRECTORY, ENOTDIR), ("l", O_RDONLY, ELOOP), ("m/g", O_RDONLY, ELOOP),
            ("m/", O_RDONLY, ELOOP), ("m", O_RDONLY | O_DIRECTORY, ELOOP), ("d/n", O_RDONLY, ELOOP),
            ("broken", O_RDONLY, ELOOP), ("new/", O_WRONLY | O_CREAT, EISDIR),
            ("none/x/", O_WRONLY | O_CREAT, ENOENT), ("f/x/", O_WRONLY | O_CREAT, ENOTDIR),
            ("f", O_WRONLY | O_CREAT | O_EXCL, EEXIST),
        ]
        for (path, flags, expected) in refusals {
            let found = open(path, flags, 0o600)
            #expect(found.descriptor == -1 && found.errno == expected, "\(path)")
            #if os(Linux)
            let systems = path.withCString {
                sysOpenRestricted(root.rawValue, $0, flags, 0o600, [.beneath, .noSymbolicLinks])
            }
            let number = errno
            #expect(systems == -1 && number == expected, "\(path), by the system")
            #endif
        }
        // Stricter than the system's own.
        let above = open("d/../f", O_RDONLY)
        #expect(above.descriptor == -1 && above.errno == EXDEV)
        let (created, error) = open("d/new", O_WRONLY | O_CREAT, 0o600)
        #expect(error == 0)
        _ = sysClose(created)
        #expect(try fileSystem.status("d/new", at: root).permissions == .ownerReadWrite)
        #expect(try Set(fileSystem.entries(of: root).map(\.name)) == ["d", "f", "l", "m", "broken"])
    }

    @Test("only a regular file is mapped privately")
    func privateMapping() throws {
        let fileSystem = SystemFileSystem()
        let directory = try fileSystem.open("/", options: [.directory])
        defer { fileSystem.discard(directory) }
        let error = #expect(throws: FileSystemError.self) { try fileSystem.mapPrivately(directory, count: 1) }
        #expect(error?.operation == .map)
        #if os(Linux)
        #expect(error?.errno == .operationNotSupportedByDevice)
        #endif
    }

    @Test(
        "an exclusion from backups needs no attributes where there are none, and fails with another error",
        arguments: [(.notSupported, true), (.noFunction, true), (.ioError, false)] as [(Errno, Bool)])
    func backupWithoutAttributes(_ errno: Errno, _ isIgnored: Bool) throws {
        let memory = InMemoryFileSystem()
        try memory.createDirectory("/d")
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .setExtendedAttribute { throw FileSystemError(.setExtendedAttribute, errno) }
        }
        var found: Errno?
        do throws(FileSystemError) { try fileSystem.excludeFromBackup("/d") } catch { found = error.errno }
        #expect(found == (isIgnored ? nil : errno))
        #expect(memory.openDescriptors == [])
    }

    @Test(
        "a SIGBUS that a process has sent is no access, with the codes of Linux and of Darwin",
        arguments: [
            (0, false), (-1, false), (-6, false), (0x10001, false), (0x10002, false), (1, true), (2, true), (3, true),
            (5, true), (0x80, true),
        ] as [(CInt, Bool)])
    func signalCodes(_ code: CInt, isFault: Bool) {
        #expect((forge_is_fault(code) != 0) == isFault)
    }

    @Test("the type of an entry that a listing leaves out is looked up")
    func unknownType() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let fileSystem = SystemFileSystem()
        try fileSystem.createDirectory(directory.path.appending("d"), permissions: .ownerReadWriteExecute)
        try fileSystem.createSymbolicLink(directory.path.appending("l"), to: "d")
        let root = try fileSystem.open(directory.path, options: [.directory])
        defer { fileSystem.discard(root) }
        #expect(try sysType(0, of: "d", in: root.rawValue) == .directory)
        #expect(try sysType(0, of: "l", in: root.rawValue) == .symbolicLink)
        #expect(try sysType(8, of: "d", in: root.rawValue) == .regular)
        #expect(try sysType(0, of: "missing", in: root.rawValue) == FileType(rawValue: 0))
    }

    @Test("the error of a symbolic link has the path of the link, and its target as destination")
    func symbolicLinkError() {
        for fileSystem in [SystemFileSystem(), InMemoryFileSystem()] as [any POSIXFileSystem] {
            let error = #expect(throws: FileSystemError.self) {
                try fileSystem.createSymbolicLink("/missing/link", to: "target")
            }
            #expect(error?.path == "/missing/link")
            #expect(error?.destination == "target")
        }
    }

    @Test(
        "a file system that cannot flush directories, such as Samba's, stores files",
        arguments: [
            Errno.invalidArgument, .notSupported, .noFunction,
        ])
    func unsupportedDirectoryFlush(_ errno: Errno) throws {
        let memory = InMemoryFileSystem()
        let plan = FaultPlan([.fail(.synchronize, matching: "/store", with: errno)])
        let fileSystem = FaultingFileSystem(memory, plan: plan)
        let store = try StoreDirectory("/store", on: fileSystem)
        let empty: [UInt8] = []
        try store.replace(try RelativeKey("a"), with: empty.span.bytes)
        #expect(try memory.exists("/store/a"))
        try store.unlink(try RelativeKey("a"))
        try plan.requireAllFired()
    }

    @Test(
        "files have no attributes where there are none, and no other error is taken for that",
        arguments: [Errno.notSupported, .noFunction, .ioError])
    func withoutAttributes(_ errno: Errno) throws {
        let memory = InMemoryFileSystem()
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .listExtendedAttributes else { return }
            throw FileSystemError(.listExtendedAttributes, errno)
        }
        let file = try fileSystem.open("/f", .writeOnly, options: [.create])
        if errno == .ioError {
            let failure = #expect(throws: FileSystemError.self) { try fileSystem.fileAttributes(of: file) }
            #expect(failure?.errno == errno)
        } else {
            #expect(try fileSystem.fileAttributes(of: file).isEmpty)
        }
    }

    @Test("a file of a store that another process creates first is opened; another error of its creation is thrown")
    func createdMeanwhile() throws {
        let memory = InMemoryFileSystem()
        let opens = Mutex(0)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .open else { return }
            // The first open finds no file; the second one creates it.
            guard
                opens.withLock({
                    $0 += 1; return $0
                }) == 2
            else { return }
            try memory.close(try memory.open("/#lock", .readWrite, options: [.create]))
        }
        try fileSystem.close(try fileSystem.openStoreFile("#lock", at: .workingDirectory))
        #expect(opens.withLock { $0 } == 3)
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .open { throw FileSystemError(.open, .permissionDenied, path: call.path) }
        }
        let failure = #expect(throws: FileSystemError.self) {
            try failing.openStoreFile("#other", at: .workingDirectory)
        }
        #expect(failure?.errno == .permissionDenied)
    }

    @Test("a directory has its exact mode where a mode can only be set on an open directory")
    func exactMode() throws {
        let memory = InMemoryFileSystem(options: .init(umask: [.ownerWrite]))
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .setPermissions, call.path != nil else { return }
            throw FileSystemError(.setPermissions, .notSupported, path: call.path)
        }
        try fileSystem.createDirectory("/d", at: .workingDirectory, exactly: .privateDirectory)
        #expect(try memory.status("/d").permissions == .privateDirectory)
    }

    @Test("a truncation that clears privileges is recorded like a write that does")
    func recordedPrivileges() throws {
        let memory = InMemoryFileSystem()
        let file = try memory.open("/f", .writeOnly, options: [.create])
        try memory.close(file)
        try memory.setOwner(UserID(7), group: nil, of: .path("/f"))
        try memory.setPermissions([.ownerReadWriteExecute, .setUserID], of: .path("/f"))
        let user = memory.process(user: UserID(7), group: GroupID(7))
        memory.startRecordingEffects()
        try user.close(try user.open("/f", .writeOnly, options: [.truncate]))
        let recorded = memory.takeEffects().contains { effect in
            if case .setAttributes(_, let attributes) = effect.effect {
                !attributes.permissions.contains(.setUserID)
            } else {
                false
            }
        }
        #expect(recorded)
    }
}

@Suite("Rights that a replaced file must not gain")
struct PrivilegeTests {
    @Test("a replaced file loses the set-user and set-group bits, like a written one")
    func setUserBit() throws {
        let fileSystem = InMemoryFileSystem()
        let url = URL(filePath: "/tool")
        try fileSystem.write(Data("old".utf8), to: url)
        try fileSystem.setOwner(UserID(7), group: GroupID(7), of: .path("/tool"))
        try fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: .path("/tool"))
        try fileSystem.write(Data("new".utf8), to: url)
        #expect(try fileSystem.status("/tool").permissions == FilePermissions(rawValue: 0o755))
    }

    @Test("directories have the requested mode, regardless of the umask", arguments: [0, 0o177, 0o777])
    func directories(_ umask: FilePermissions.RawValue) throws {
        let options = InMemoryFileSystem.Options(umask: FilePermissions(rawValue: umask))
        let fileSystem = InMemoryFileSystem(options: options)
        try fileSystem.makeDirectories("/a/b", permissions: FilePermissions(rawValue: 0o750))
        try fileSystem.createDirectory(at: URL(filePath: "/c"), withIntermediateDirectories: false)
        #expect(try fileSystem.status("/a").permissions == FilePermissions(rawValue: 0o750))
        #expect(try fileSystem.status("/a/b").permissions == FilePermissions(rawValue: 0o750))
        #expect(try fileSystem.status("/c").permissions == .ownerReadWriteExecute)
    }

    @Test("a directory keeps the set-group-ID bit of the one above it only if that is asked for")
    func inheritedBit() throws {
        let memory = InMemoryFileSystem()
        let shared = FilePermissions(rawValue: 0o775)
        for (path, bit) in [("/p", .setGroupID), ("/q", [])] as [(POSIXPath, FilePermissions)] {
            try memory.createDirectory(path, permissions: .ownerReadWriteExecute)
            try memory.setPermissions([.ownerReadWriteExecute, bit], of: .path(path))
            try memory.createDirectory(path.appending("a"), at: .workingDirectory, exactly: shared)
            #expect(try memory.status(path.appending("a")).permissions == shared)
            let flushless = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if call.operation == .synchronize { throw FileSystemError(.synchronize, .ioError) }
            }
            try flushless.createDirectory(
                path.appending("b"), at: .workingDirectory, exactly: shared, keeping: .setGroupID, isDurable: false)
            #expect(try memory.status(path.appending("b")).permissions == shared.union(bit))
            #expect(throws: FileSystemError.self) {
                try flushless.createDirectory(path.appending("c"), at: .workingDirectory, exactly: shared)
            }
            #expect(try !memory.exists(path.appending("c")))
        }
    }
}

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

    @Test("at the maximum size of a file", .enabled(if: hasLinkLimit), arguments: ConformanceChecks.fileSystemSizeLimit)
    func sizeLimit(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        var subject = FileSystemUnderTest(SystemFileSystem(), root: directory.path)
        // 2^32 - 1 blocks: ext4 has blocks of 4,096 bytes, unless it is very small.
        subject.maximumFileSizeInBytes = InMemoryFileSystem.Options().maximumFileSizeInBytes
        try await check.run(on: subject)
    }

    @Test("with its descriptors", .onOwnThreads)
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

    @Test("in a working directory with a path that is longer than the system's limit", .onOwnThreads)
    func deepWorkingDirectory() async {
        await #expect(processExitsWith: .success) {
            let directory = try TemporaryDirectory()
            guard chdir(String(directory.path)) == 0 else { throw Errno(rawValue: errno) }
            let name = String(repeating: "d", count: 250)
            for _ in 0..<40 {
                guard mkdir(name, 0o700) == 0, chdir(name) == 0 else { throw Errno(rawValue: errno) }
            }
            let path = try POSIXPath(URL(POSIXPath("x")))
            let above = directory.path.bytes + Array(repeating: "/" + name, count: 40).joined(separator: "").utf8
            guard path == POSIXPath(above + "/x".utf8) else { throw Errno.outOfRange }
            guard chdir("/") == 0 else { throw Errno(rawValue: errno) }
            try SystemFileSystem().removeTree(directory.path)
        }
    }

    @Test("in a working directory that was removed", .onOwnThreads)
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
