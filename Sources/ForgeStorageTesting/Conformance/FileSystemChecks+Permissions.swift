import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    /// Checks of access permissions; the file system under test must offer access as another user.
    public static let fileSystemPermissions: [ConformanceCheck<FileSystemUnderTest>] = permissions.map {
        $0.needing(.otherUsers)
    }

    private static let permissions: [ConformanceCheck<FileSystemUnderTest>] = [
        forbids("a user cannot create a file in another user's directory", .permissionDenied) {
            try $0.fileSystem.createDirectory($0("d/new"))
        },
        forbids("a user cannot unlink a file in another user's directory", .permissionDenied) {
            try $0.fileSystem.unlink($0("d/x"))
        },
        forbids("a lookup in a directory without search permission fails", .permissionDenied, mode: 0o744) {
            _ = try $0.status("d/x")
        },
        forbids("a directory without read permission is not opened", .permissionDenied, mode: 0o711) {
            try $0.open("d")
        },
        asOtherUser("names can be looked up in a directory without read permission", mode: 0o711) {
            _ = try $0.status("d/x")
        },
        asOtherUser("names can be listed in a directory without search permission", mode: 0o744) {
            try expectEqual(try $0.list("d").sorted(), ["s", "x"], "the listing")
        },
        forbids("another's private file is not opened", .permissionDenied) { try $0.open("d/x") },
        forbids("a user does not unlink another's file in a sticky directory", .notPermitted, mode: 0o1777) {
            try $0.fileSystem.unlink($0("d/x"))
        },
        forbids("a user does not replace another's file in a sticky directory", .notPermitted, mode: 0o1777) { tree in
            try tree.create("d/own")
            defer { remove(tree, "d/own") }
            try tree.fileSystem.rename(tree("d/own"), to: tree("d/x"))
        },
        asOtherUser("a user removes their own file in a sticky directory", mode: 0o1777) { tree in
            try tree.create("d/own")
            try expectEqual(try tree.status("d/own").owner, user, "the owner")
            try tree.fileSystem.unlink(tree("d/own"))
        },
        forbids("a user does not change the mode of another's file", .notPermitted) {
            try $0.fileSystem.setPermissions(FilePermissions(rawValue: 0o777), of: .path($0("d/x")))
        },
        forbids("a user does not change the times of another's file", .notPermitted) {
            try $0.fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 1), of: .path($0("d/x")))
        },
        forbids("a user does not give away or take over a file", .notPermitted) { tree in
            let file = FileReference.path(tree("d/x"))
            try tree.expectErrno(.notPermitted, "the group") {
                try tree.fileSystem.setOwner(nil, group: group, of: file)
            }
            try tree.fileSystem.setOwner(user, group: nil, of: file)
        },
        forbids("a user does not truncate another's file", .permissionDenied) {
            try $0.fileSystem.truncate(.path($0("d/x")), to: 0)
        },
        forbids("an existing target is reported before missing permission", .fileExists) {
            try $0.fileSystem.createDirectory($0("d/x"))
        },
        forbids("a missing file is reported before missing permission", .noSuchFileOrDirectory) {
            try $0.fileSystem.unlink($0("d/missing"))
        },
        forbids("creating a device node needs privileges", .notPermitted, mode: 0o777) {
            try $0.fileSystem.createNode(
                $0("d/null"), at: .workingDirectory, type: .characterSpecial, permissions: .ownerReadWrite,
                deviceNumber: 0x103)
        },
        asOtherUser("creating a Linux whiteout (device 0:0) needs no privileges", mode: 0o777) { tree in
            guard !tree.isDarwin else { return }
            try tree.fileSystem.createNode(
                tree("d/hidden"), at: .workingDirectory, type: .characterSpecial, permissions: .ownerReadWrite,
                deviceNumber: 0)
            try tree.expectErrno(.notPermitted, "a block device of that number") {
                try tree.fileSystem.createNode(
                    tree("d/block"), at: .workingDirectory, type: .blockSpecial, permissions: .ownerReadWrite,
                    deviceNumber: 0)
            }
            try tree.ownersFileSystem.unlink(tree("d/hidden"))
        },
        asOtherUser("group permissions apply to members of the group", mode: 0o755) { tree in
            let file = FileReference.path(tree("d/x"))
            let owner = tree.ownersFileSystem
            try owner.setOwner(nil, group: group, of: file)
            try owner.setPermissions(FilePermissions(rawValue: 0o640), of: file)
            try tree.open("d/x", .readOnly)
            try tree.expectErrno(.permissionDenied, "writing") { try tree.open("d/x", .writeOnly) }
        },
        asOtherUser("only the first matching class applies: an owner without permission has none", mode: 0o777) {
            tree in
            try tree.create("d/own")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o077), of: .path(tree("d/own")))
            try tree.expectErrno(.permissionDenied, "the owner") { try tree.open("d/own") }
        },
        asOtherUser("a file created without write permission can be written through its descriptor", mode: 0o777) {
            tree in
            try tree.opening(tree("d/own"), .writeOnly, [.create], permissions: .ownerRead) { try tree.write($0, "x") }
            try tree.expectErrno(.permissionDenied, "a second open") { try tree.open("d/own", .writeOnly) }
        },
        asOtherUser("a write by an unprivileged user clears the set-user-ID bit", mode: 0o777) { tree in
            try tree.create("d/own")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: .path(tree("d/own")))
            try tree.opening(tree("d/own"), .writeOnly) { try tree.write($0, "x") }
            try expectEqual(try tree.status("d/own").permissions.rawValue, 0o755, "the permissions")
        },
        asOtherUser("a file created in a set-group-id directory gets its group", mode: 0o2777) { tree in
            let directory = try tree.status("d").group
            try tree.create("d/own")
            try tree.fileSystem.createDirectory(tree("d/below"))
            try expectEqual(try tree.status("d/own").group, directory, "the file's group")
            try expect(try tree.status("d/below").permissions.contains(.setGroupID), "the directory passes it on")
        },
        forbids("moving a directory to a new parent needs write permission", .permissionDenied, mode: 0o777) { tree in
            try tree.fileSystem.rename(tree("d/s"), to: tree("e/s"))
        },
    ]

    private static let user = UserID(1234)
    private static let group = GroupID(2345)

    private static func forbids(
        _ description: String, _ errno: Errno, mode: FilePermissions.RawValue = 0o755,
        _ body: @escaping @Sendable (FileSystemFixture) throws -> Void
    ) -> FileSystemCheck {
        asOtherUser(description, mode: mode) { visitor in
            let before = try visitor.snapshot().filter { !$0.hasPrefix("./d ") }
            try visitor.expectErrno(errno, description) { try body(visitor) }
            let after = try visitor.snapshot().filter { !$0.hasPrefix("./d ") }
            try expectEqual(after, before, "\(description): the tree after the failure")
        }
    }

    /// Runs `body` as another user in a tree with a directory `d` of this mode that holds a private file `x`, and a
    /// world-writable `e`.
    private static func asOtherUser(
        _ description: String, mode: FilePermissions.RawValue,
        _ body: @escaping @Sendable (FileSystemFixture) throws -> Void
    ) -> FileSystemCheck {
        holds(description) { tree in
            guard let asUser = tree.subject.asUser else { throw ConformanceViolation("no way to be another user") }
            try tree.create("d/x", "private")
            try tree.fileSystem.setPermissions(.ownerReadWrite, of: .path(tree("d/x")))
            let permissions = FilePermissions(rawValue: mode)
            try tree.fileSystem.setPermissions(permissions, of: .path(tree("d")))
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o777), of: .path(tree("e")))
            try body(tree.seen(through: asUser(user, group)))
        }
    }

    private static func remove(_ tree: FileSystemFixture, _ name: String) {
        do { try tree.ownersFileSystem.unlink(tree(name)) } catch _ {}
    }
}
