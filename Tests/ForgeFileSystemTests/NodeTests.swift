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
