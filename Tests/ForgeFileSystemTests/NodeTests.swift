import ForgeFileSystem
import SystemPackage
import Testing

/// Access to the tree by nodes, for callers that resolve paths themselves.
struct NodeTests {
    private let fileSystem = InMemoryFileSystem(options: .init(umask: []))

    @Test("a node is held without permissions, and allows neither reading nor writing")
    func holding() throws {
        try create("/f", mode: 0)
        let user = fileSystem.process(user: UserID(1), group: GroupID(1))
        let node = try user.openNode("/f")
        var byte: UInt8 = 0
        expectErrno(.badFileDescriptor) {
            _ = try withUnsafeMutableBytes(of: &byte) { try user.read(node, into: $0, at: 0) }
        }
        expectErrno(.permissionDenied) { _ = try user.open(node: node, .readOnly, options: []) }
        expectErrno(.permissionDenied) { try user.truncate(node: node, to: 0) }
        expectErrno(.permissionDenied) { try user.checkAccess(4, to: .descriptor(node)) }
        try user.checkAccess(0, to: .descriptor(node))
        try fileSystem.unlink("/f")
        #expect(try user.nodeStatus(of: .descriptor(node)).status.linkCount == 0)
        user.assumeIdentity(user: UserID(0), group: GroupID(0), groups: [])
        expectErrno(.noSuchFileOrDirectory) { try user.link(node: node, to: "/g", at: .workingDirectory) }
        try user.close(node)
    }

    @Test("a link's node is the link itself, unless it is to be followed")
    func links() throws {
        try create("/f", mode: 0o644)
        try fileSystem.createSymbolicLink("/s", to: "f")
        let link = try fileSystem.openNode("/s")
        #expect(try fileSystem.readSymbolicLink(node: link) == "f")
        #expect(try fileSystem.nodeStatus(of: .descriptor(link)).status.type == .symbolicLink)
        let file = try fileSystem.openNode("/s", followsSymbolicLinks: true)
        expectErrno(.invalidArgument) { _ = try fileSystem.readSymbolicLink(node: file) }
        try fileSystem.link(node: file, to: "/g", at: .workingDirectory)
        #expect(try fileSystem.status("/g").linkCount == 2)
        expectErrno(.tooManySymbolicLinkLevels) { _ = try fileSystem.open(node: link, .readOnly, options: []) }
    }

    @Test("a user gives another's file a second name only with read and write permission, as on Linux")
    func protectedLinks() throws {
        try fileSystem.setPermissions(FilePermissions(rawValue: 0o777), of: .path("/"))
        let user = fileSystem.process(user: UserID(1), group: GroupID(1))
        for (mode, isPermitted) in [
            (0o666, true), (0o2666, true), (0o644, false), (0o622, false), (0o4666, false), (0o2676, false),
        ] {
            try create("/f", mode: 0)
            try fileSystem.setPermissions(FilePermissions(rawValue: CInterop.Mode(mode)), of: .path("/f"))
            if isPermitted {
                try user.link("/f", to: "/g")
                try fileSystem.unlink("/g")
            } else {
                expectErrno(.notPermitted) { try user.link("/f", to: "/g") }
            }
            try fileSystem.link("/f", to: "/h")
            for path in ["/f", "/h"] as [POSIXPath] { try fileSystem.unlink(path) }
        }
        try fileSystem.createSymbolicLink("/s", to: "/f")
        expectErrno(.notPermitted) { try user.link("/s", to: "/g") }
    }

    @Test("the node of an open file outlives it, and is written to unless the device is read-only")
    func nodeOfFile() throws {
        try create("/f", mode: 0o600)
        let file = try fileSystem.open("/f", .readOnly)
        let node = try fileSystem.openNode(of: file)
        try fileSystem.close(file)
        try fileSystem.truncate(node: node, to: 5)
        #expect(try fileSystem.status("/f").sizeInBytes == 5)
        try fileSystem.checkAccess(2, to: .descriptor(node))
        try fileSystem.setReadOnly(true)
        expectErrno(.readOnlyFileSystem) { try fileSystem.checkAccess(2, to: .descriptor(node)) }
        try fileSystem.checkAccess(4, to: .descriptor(node))
        expectErrno(.readOnlyFileSystem) { try fileSystem.truncate(node: node, to: 0) }
    }

    @Test("in a directory that passes on its group, only a member of that makes a file with the bit of the group")
    func groupBit() throws {
        try fileSystem.createDirectory("/d", permissions: FilePermissions(rawValue: 0o777))
        try fileSystem.setOwner(nil, group: GroupID(5), of: .path("/d"))
        try fileSystem.setPermissions(FilePermissions(rawValue: 0o2777), of: .path("/d"))
        for (name, groups, mode) in [("/d/f", [], 0o770), ("/d/g", [GroupID(5)], 0o2770)]
            as [(POSIXPath, [GroupID], CInterop.Mode)]
        {
            let user = fileSystem.process()
            user.assumeIdentity(user: UserID(1), group: GroupID(1), groups: groups)
            let file = try user.open(
                name, .writeOnly, options: [.create], permissions: FilePermissions(rawValue: 0o2770))
            try user.close(file)
            let status = try fileSystem.status(name)
            #expect(status.permissions.rawValue == mode && status.group == GroupID(5), "\(name)")
        }
    }

    @Test("a node is not opened beyond the limit of open files")
    func limit() throws {
        let fileSystem = InMemoryFileSystem(options: .init(maximumOpenFileCount: 4))
        try fileSystem.close(try fileSystem.open("/f", .writeOnly, options: [.create]))
        let node = try fileSystem.openNode("/f")
        while fileSystem.openDescriptors.count < 4 { _ = try fileSystem.open(node: node, .readOnly, options: []) }
        expectErrno(.tooManyOpenFiles) { _ = try fileSystem.open(node: node, .writeOnly, options: [.truncate]) }
        #expect(fileSystem.openDescriptors.count == 4)
    }

    @Test("a user with write permission may set both times to now; only the owner sets other times")
    func times() throws {
        try create("/f", mode: 0o666)
        try create("/g", mode: 0o644)
        let user = fileSystem.process(user: UserID(1), group: GroupID(1))
        let time = InMemoryFileSystem.TimeChange.to(FileTime(seconds: 7))
        let before = try fileSystem.status("/f").modified
        try user.setTimes(accessed: .now, modified: .now, of: .path("/f"))
        #expect(try fileSystem.status("/f").modified > before)
        expectErrno(.notPermitted) { try user.setTimes(accessed: .now, modified: .unchanged, of: .path("/f")) }
        expectErrno(.notPermitted) { try user.setTimes(accessed: time, modified: .now, of: .path("/f")) }
        expectErrno(.permissionDenied) { try user.setTimes(accessed: .now, modified: .now, of: .path("/g")) }
        try user.setTimes(accessed: .unchanged, modified: .unchanged, of: .path("/g"))
        try fileSystem.setTimes(accessed: time, modified: .unchanged, of: .path("/g"))
        #expect(try fileSystem.status("/g").accessed == FileTime(seconds: 7))
    }

    @Test("a process that changes its user creates files of the new user")
    func identity() throws {
        let other = fileSystem.process()
        try fileSystem.createDirectory("/d", permissions: FilePermissions(rawValue: 0o770))
        try fileSystem.setOwner(UserID(5), group: GroupID(6), of: .path("/d"))
        other.assumeIdentity(user: UserID(7), group: GroupID(8), groups: [GroupID(6)])
        try other.createDirectory("/d/e", permissions: FilePermissions(rawValue: 0o700))
        #expect(try fileSystem.status("/d/e").owner == UserID(7))
        other.assumeIdentity(user: UserID(7), group: GroupID(8), groups: [])
        expectErrno(.permissionDenied) { try other.removeDirectory("/d/e") }
    }

    @Test("the working directory is set by inode number while the directory exists")
    func workingDirectory() throws {
        try fileSystem.createDirectory("/d", permissions: FilePermissions(rawValue: 0o700))
        try create("/d/f", mode: 0o600)
        let number = try fileSystem.status("/d").inode
        try fileSystem.changeDirectory(toInode: number)
        #expect(try fileSystem.status("f").type == .regular)
        expectErrno(.noSuchFileOrDirectory) { try fileSystem.changeDirectory(toInode: fileSystem.status("f").inode) }
        expectErrno(.noSuchFileOrDirectory) { try fileSystem.changeDirectory(toInode: 999) }
    }

    @Test("the append flag of a descriptor can be set and cleared")
    func appending() throws {
        let file = try fileSystem.open("/f", .writeOnly, options: [.create], permissions: .ownerReadWrite)
        try fileSystem.writeBytes([1, 2], to: file, at: 0)
        try fileSystem.setAppends(true, of: file)
        try fileSystem.writeBytes([3], to: file, at: 0)
        try fileSystem.setAppends(false, of: file)
        try fileSystem.writeBytes([4], to: file, at: 0)
        #expect(try fileSystem.readFile("/f") == [4, 2, 3])
    }

    @Test("a device reports its capacity and usage")
    func capacity() throws {
        let fileSystem = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 8192, inodeCount: 5)))
        let capacity = try fileSystem.capacity(of: .path("/"))
        #expect(capacity.quota.sizeInBytes == 8192)
        #expect(capacity.usage == .init(sizeInBytes: 0, inodeCount: 1))
    }

    private func create(_ path: POSIXPath, mode: CInterop.Mode) throws {
        let permissions = FilePermissions(rawValue: mode)
        try fileSystem.close(try fileSystem.open(path, .writeOnly, options: [.create], permissions: permissions))
    }
}

/// In-memory FIFOs where they differ from the kernel's or cannot be tested there: no blocking, no signals.
struct PipeTests {
    private let fileSystem = InMemoryFileSystem()

    init() throws {
        try fileSystem.createNode(
            "/p", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
    }

    @Test("opening a FIFO without the other end fails instead of blocking")
    func opening() throws {
        expectErrno(.noSuchAddressOrDevice) { _ = try fileSystem.open("/p", .readOnly) }
        expectErrno(.noSuchAddressOrDevice) { _ = try fileSystem.open("/p", .writeOnly) }
        let both = try fileSystem.open("/p", .readWrite)
        let reader = try fileSystem.open("/p", .readOnly)
        let writer = try fileSystem.open("/p", .writeOnly)
        for descriptor in [both, reader, writer] { try fileSystem.close(descriptor) }
        expectErrno(.noSuchAddressOrDevice) { _ = try fileSystem.open("/p", .readOnly) }
    }

    @Test("a write without a reader fails and changes no time")
    func brokenPipe() throws {
        let reader = try fileSystem.open("/p", .readOnly, options: [.nonBlocking])
        let writer = try fileSystem.open("/p", .writeOnly)
        try fileSystem.close(reader)
        let before = try fileSystem.status(of: .descriptor(writer))
        expectErrno(.brokenPipe) { _ = try write(1, to: writer) }
        #expect(try fileSystem.status(of: .descriptor(writer)) == before)
    }

    @Test("up to 4096 bytes are written completely or not at all, more than that as far as there are pages")
    func room() throws {
        let both = try fileSystem.open("/p", .readWrite)
        #expect(try write(65_000, to: both) == 65_000)
        expectErrno(.resourceTemporarilyUnavailable) { _ = try write(4096, to: both) }
        // The odd byte, for which the last page has space.
        #expect(try write(4097, to: both) == 1)
        expectErrno(.resourceTemporarilyUnavailable) { _ = try write(5000, to: both) }
        #expect(try write(0, to: both) == 0)
        #expect(try fileSystem.status("/p").sizeInBytes == 0)
        #expect(try fileSystem.usage().sizeInBytes == 0)
    }

    @Test("a write changes the times of a FIFO")
    func times() throws {
        let both = try fileSystem.open("/p", .readWrite)
        let before = try fileSystem.status("/p")
        _ = try write(1, to: both)
        let after = try fileSystem.status("/p")
        #expect(after.modified > before.modified)
        #expect(after.changed == after.modified)
    }

    @Test("a FIFO has no offset to write at, no space to allocate, nothing to synchronise")
    func refused() throws {
        let both = try fileSystem.open("/p", .readWrite)
        expectErrno(.illegalSeek) { _ = try write(1, to: both, at: 0) }
        expectErrno(.illegalSeek) { try fileSystem.allocate(both, at: 0, length: 1) }
        expectErrno(.invalidArgument) { try fileSystem.truncate(.descriptor(both), to: 0) }
        expectErrno(.invalidArgument) { try fileSystem.synchronize(both, .full) }
    }

    /// Writes that many zeros and returns how many were accepted.
    private func write(_ count: Int, to descriptor: Descriptor, at offset: Int64? = nil) throws -> Int {
        try [UInt8](repeating: 0, count: count).withUnsafeBytes { bytes in
            try fileSystem.write(descriptor, from: bytes, at: offset)
        }
    }
}
