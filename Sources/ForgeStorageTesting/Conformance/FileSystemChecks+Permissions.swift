import Dispatch
import ForgeFileSystem
import Foundation
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
        asOtherUser("no name appears in or leaves another's directory, and no file is emptied", mode: 0o755) { tree in
            let fileSystem = tree.fileSystem
            let (own, other, new) = (tree("e/own"), tree("d/x"), tree("d/new"))
            try tree.create("e/own")
            try tree.ownersFileSystem.setPermissions(FilePermissions(rawValue: 0o644), of: .path(other))
            let before = try tree.snapshot()
            let calls: [(call: String, body: () throws -> Void)] = [
                ("open(d/new, options: [.create])", { try tree.open("d/new", .writeOnly, [.create]) }),
                ("createSymbolicLink(d/new)", { try fileSystem.createSymbolicLink(new, to: "x") }),
                ("link(e/own, to: d/new)", { try fileSystem.link(own, to: new) }),
                ("rename(e/own, to: d/new)", { try fileSystem.rename(own, to: new) }),
                ("rename(e/own, to: d/x)", { try fileSystem.rename(own, to: other) }),
                ("rename(e/own, to: d/x, .exchanging)", { try fileSystem.rename(own, to: other, .exchanging) }),
                ("rename(d/x, to: e/x)", { try fileSystem.rename(other, to: tree("e/x")) }),
                ("removeDirectory(d/s)", { try fileSystem.removeDirectory(tree("d/s")) }),
                ("open(d/x, .readOnly, options: [.truncate])", { try tree.open("d/x", .readOnly, [.truncate]) }),
            ]
            for (call, body) in calls { try tree.expectErrno(.permissionDenied, call, body) }
            try expectEqual(try tree.snapshot(), before, "the tree after the refused calls")
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
        asOtherUser("the owner of a sticky directory removes and moves others' files in it", mode: 0o755) { tree in
            let owner = tree.ownersFileSystem
            try tree.makeDirectory("e/own")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o1777), of: .path(tree("e/own")))
            for name in ["e/own/x", "e/own/y"] {
                try owner.close(try owner.open(tree(name), .writeOnly, options: [.create]))
            }
            try tree.fileSystem.unlink(tree("e/own/x"))
            try tree.fileSystem.rename(tree("e/own/y"), to: tree("e/y"))
            try expectEqual(try tree.list("e/own"), [], "entries(of: e/own)")
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
        asOtherUser("a socket of a third user is not opened for creation in a sticky directory", mode: 0o1777) { tree in
            // Only Linux has this rule (`may_create_in_sticky`).
            guard !tree.isDarwin, let third = tree.subject.asUser?(UserID(4321), group) else { return }
            for (fileSystem, name) in [(third, "third"), (tree.fileSystem, "own"), (tree.ownersFileSystem, "owner")] {
                try fileSystem.createNode(
                    tree("d/" + name), at: .workingDirectory, type: .socket,
                    permissions: FilePermissions(rawValue: 0o777), deviceNumber: 0)
                try fileSystem.setPermissions(FilePermissions(rawValue: 0o777), of: .path(tree("d/" + name)))
            }
            defer { for name in ["d/third", "d/own", "d/owner"] { remove(tree, name) } }
            // Without the rule, no socket can be opened at all.
            for (name, options, errno) in [
                ("third", [.create], .permissionDenied), ("third", [], .noSuchAddressOrDevice),
                ("own", [.create], .noSuchAddressOrDevice), ("owner", [.create], .noSuchAddressOrDevice),
            ] as [(String, FileDescriptor.OpenOptions, Errno)] {
                try tree.expectErrno(errno, "open(d/\(name), options: \(options))") {
                    try tree.open("d/" + name, .readOnly, options)
                }
            }
        },
        asOtherUser("a FIFO has no extended attributes, even for a user who may only write to it", mode: 0o777) {
            tree in
            guard !tree.isDarwin else { return }
            let (owner, path) = (tree.ownersFileSystem, tree("d/fifo"))
            try owner.createNode(
                path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            try owner.setPermissions(FilePermissions(rawValue: 0o622), of: .path(path))
            let reader = try owner.open(path, .readWrite)
            defer { do { try owner.close(reader) } catch _ {} }
            try tree.opening(path, .writeOnly) { file in
                try expectEqual(
                    try tree.fileSystem.extendedAttribute("a", of: file), nil, "extendedAttribute(a) of a FIFO")
            }
        }.needing(.extendedAttributes),
        asOtherUser("group permissions apply to members of the group", mode: 0o755) { tree in
            let file = FileReference.path(tree("d/x"))
            let owner = tree.ownersFileSystem
            try owner.setOwner(nil, group: group, of: file)
            try owner.setPermissions(FilePermissions(rawValue: 0o640), of: file)
            try tree.open("d/x", .readOnly)
            try tree.expectErrno(.permissionDenied, "writing") { try tree.open("d/x", .writeOnly) }
        },
        asOtherUser("a user makes a link to another's file that they may read and write", mode: 0o755) { tree in
            try tree.ownersFileSystem.setPermissions(FilePermissions(rawValue: 0o666), of: .path(tree("d/x")))
            try tree.fileSystem.link(tree("d/x"), to: tree("e/x"))
            try expectEqual(try tree.status("e/x").inode, try tree.status("d/x").inode, "the inode of e/x")
        },
        asOtherUser("a directory without read permission is not watched", mode: 0o755) { tree in
            // A watch of Darwin has the rights of the descriptor.
            guard !tree.isDarwin else { return }
            let (fileSystem, queue) = (tree.fileSystem, DispatchQueue(label: "ConformanceCheck.watch"))
            try tree.makeDirectory("e/own")
            let watch = try fileSystem.makeDirectoryWatch(on: queue, onEvents: { _ in }, onCancel: {})
            defer { watch.cancel() }
            try tree.opening(tree("e/own"), .readOnly, [.directory]) { directory in
                try tree.ownersFileSystem.setPermissions(.ownerExecute, of: .path(tree("e/own")))
                try tree.expectErrno(.permissionDenied, "watch(e/own) with the permissions 0100") {
                    _ = try queue.sync { try watch.watch(directory, includesWrites: false) }
                }
            }
        }.needing(.directoryWatches),
        asOtherUser("only the first matching class applies: an owner without permission has none", mode: 0o777) {
            tree in
            try tree.create("d/own")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o077), of: .path(tree("d/own")))
            try tree.expectErrno(.permissionDenied, "the owner") { try tree.open("d/own") }
        },
        asOtherUser("a file created without write permission can be written through its descriptor", mode: 0o777) {
            tree in
            let directoryGroup = GroupID(77)
            try tree.ownersFileSystem.setOwner(nil, group: directoryGroup, of: .path(tree("d")))
            try tree.opening(tree("d/own"), .writeOnly, [.create], permissions: .ownerRead) { try tree.write($0, "x") }
            try tree.expectErrno(.permissionDenied, "a second open") { try tree.open("d/own", .writeOnly) }
            try expectEqual(try tree.status("d/own").owner, user, "the owner of the new file")
            // On Darwin, and with a mount option of Linux, it has the group of its directory (open(2)).
            let found = try tree.status("d/own").group
            try expect(
                found == group || found == directoryGroup, "the group of the new file: expected \(group), got \(found)")
        },
        asOtherUser("a write by an unprivileged user clears the set-user-ID bit", mode: 0o777) { tree in
            try tree.create("d/own")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: .path(tree("d/own")))
            try tree.opening(tree("d/own"), .writeOnly) { try tree.write($0, "x") }
            try expectEqual(try tree.status("d/own").permissions.rawValue, 0o755, "the permissions")
        },
        asOtherUser("a user who truncates an own file clears its set-user-ID bit, in an open too", mode: 0o777) {
            tree in
            // POSIX permits both; Linux clears the bit.
            guard !tree.isDarwin else { return }
            try tree.create("d/own", "text")
            let file = FileReference.path(tree("d/own"))
            let calls: [(call: String, body: () throws -> Void)] = [
                ("truncate(d/own, to: 2)", { try tree.fileSystem.truncate(file, to: 2) }),
                ("open(d/own, options: [.truncate])", { try tree.open("d/own", .writeOnly, [.truncate]) }),
            ]
            for (call, body) in calls {
                try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: file)
                try body()
                try expectEqual(
                    try tree.status("d/own").permissions.rawValue, 0o755, "the permissions after \(call)")
            }
        },
        asOtherUser("a user may name the present owner of an own file, but no other", mode: 0o777) { tree in
            try tree.create("d/own")
            let file = FileReference.path(tree("d/own"))
            try tree.fileSystem.setOwner(user, group: nil, of: file)
            try tree.fileSystem.setOwner(user, group: group, of: file)
            try expectEqual(try tree.status("d/own").group, group, "the group")
            for other in [UserID(0), UserID(1)] {
                try tree.expectErrno(.notPermitted, "setOwner(\(other.rawValue))") {
                    try tree.fileSystem.setOwner(other, group: nil, of: file)
                }
            }
            try expectEqual(try tree.status("d/own").owner, user, "the owner")
        },
        asOtherUser("a user gives an own file the group that it has or one of their own, but no other", mode: 0o777) {
            tree in
            try tree.create("d/own")
            let file = FileReference.path(tree("d/own"))
            let (present, other) = (GroupID(3456), GroupID(3457))
            try tree.ownersFileSystem.setOwner(nil, group: present, of: file)
            try tree.fileSystem.setOwner(nil, group: present, of: file)
            try expectEqual(
                try tree.status("d/own").group, present, "the group after it was set to the one that it was")
            try tree.expectErrno(.notPermitted, "setOwner(group: \(other.rawValue)) by a user outside the group") {
                try tree.fileSystem.setOwner(nil, group: other, of: file)
            }
            try tree.fileSystem.setOwner(nil, group: group, of: file)
            try expectEqual(try tree.status("d/own").group, group, "the group after it was set to one of the user")
        },
        asOtherUser("a user who changes the group of an own file clears its set-user-ID bit", mode: 0o777) { tree in
            try tree.create("d/own")
            let file = FileReference.path(tree("d/own"))
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o4755), of: file)
            try tree.fileSystem.setOwner(nil, group: group, of: file)
            try expectEqual(try tree.status("d/own").permissions.rawValue, 0o755, "the permissions")
        },
        asOtherUser("setting neither owner nor group of a file of another user leaves its bits", mode: 0o755) { tree in
            let permissions = FilePermissions(rawValue: 0o6755)
            try tree.ownersFileSystem.setPermissions(permissions, of: .path(tree("d/x")))
            do throws(FileSystemError) {
                try tree.fileSystem.setOwner(nil, group: nil, of: .path(tree("d/x")))
            } catch {
                try expectEqual(error.errno, .notPermitted, "the error of setOwner(nil, group: nil)")
            }
            try expectEqual(try tree.status("d/x").permissions, permissions, "the permissions")
        },
        asOtherUser("a write by a privileged user keeps the set-user-ID bit", mode: 0o755) { tree in
            let owner = tree.ownersFileSystem
            try owner.setPermissions(FilePermissions(rawValue: 0o4755), of: .path(tree("d/x")))
            let file = try owner.open(tree("d/x"), .writeOnly)
            try owner.closing(file) { () throws(FileSystemError) in try owner.writeBytes([1], to: file) }
            try expectEqual(try tree.status("d/x").permissions.rawValue, 0o4755, "the permissions")
        },
        asOtherUser("a user sets no set-group-ID bit on a file of a group of others", mode: 0o2777) { tree in
            // Darwin refuses the call.
            guard !tree.isDarwin else { return }
            try tree.create("d/own")
            try expect(try tree.status("d/own").group != group, "the file has the group of its directory")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: .path(tree("d/own")))
            try expectEqual(try tree.status("d/own").permissions.rawValue, 0o4755, "the permissions")
            let permissions = FilePermissions(rawValue: 0o2770)
            try tree.opening(tree("d/new"), .writeOnly, [.create], permissions: permissions) { _ in }
            try expect(
                try !tree.status("d/new").permissions.contains(.setGroupID),
                "a file created with the permissions 2770 has the set-group-ID bit of a group of others")
        },
        asOtherUser("a file created in a set-group-id directory gets its group", mode: 0o2777) { tree in
            let directory = try tree.status("d").group
            try tree.create("d/own")
            try tree.fileSystem.createDirectory(tree("d/below"))
            try expectEqual(try tree.status("d/own").group, directory, "the file's group")
            // Only Linux passes the bit on.
            guard !tree.isDarwin else { return }
            try expect(try tree.status("d/below").permissions.contains(.setGroupID), "the directory passes it on")
        },
        forbids("moving a directory to a new parent needs write permission", .permissionDenied, mode: 0o777) { tree in
            try tree.fileSystem.rename(tree("d/s"), to: tree("e/s"))
        },
        asOtherUser("an exchange that moves a directory to a new parent needs write permission to it", mode: 0o777) {
            tree in
            guard !tree.isDarwin else { return }
            try tree.makeDirectory("e/own")
            let inode = try tree.status("d/s").inode
            for (name, newName) in [("e/own", "d/s"), ("d/s", "e/own")] {
                try tree.expectErrno(.permissionDenied, "rename(\(name), to: \(newName), .exchanging)") {
                    try tree.fileSystem.rename(tree(name), to: tree(newName), .exchanging)
                }
            }
            try expectEqual(try tree.status("d/s").inode, inode, "the inode of d/s")
        },
        asOtherUser("a tree that its owner may not write to is copied with its modes", mode: 0o755) { tree in
            for name in ["e/own", "e/own/s"] { try tree.makeDirectory(name) }
            try tree.create("e/own/s/x", "content")
            let mode = FilePermissions(rawValue: 0o555)
            for name in ["e/own/s", "e/own"] { try tree.fileSystem.setPermissions(mode, of: .path(tree(name))) }
            try tree.fileSystem.copyTree(tree("e/own"), to: tree("e/copy"))
            for name in ["e/copy", "e/copy/s"] {
                try expectEqual(try tree.status(name).permissions, mode, "the permissions of \(name)")
            }
            try expectEqual(try tree.content("e/copy/s/x"), "content", "the content of the copied file")
        },
        asOtherUser("extended attributes are set and read with permission to write and read", mode: 0o1777) { tree in
            guard !tree.isDarwin else { return }
            let (fileSystem, owner, path) = (tree.fileSystem, tree.ownersFileSystem, tree("d/x"))
            try owner.setPermissions(FilePermissions(rawValue: 0o644), of: .path(path))
            try tree.opening(path, .readOnly) { file in
                try tree.expectErrno(.permissionDenied, "setExtendedAttribute(a) of a file that may only be read") {
                    try fileSystem.setExtendedAttribute("a", to: [1], of: file)
                }
            }
            try owner.setPermissions(FilePermissions(rawValue: 0o622), of: .path(path))
            try tree.opening(path, .writeOnly) { file in
                try tree.expectErrno(.permissionDenied, "extendedAttribute(a) of a file that may only be written") {
                    _ = try fileSystem.extendedAttribute("a", of: file)
                }
            }
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                try tree.expectErrno(.notPermitted, "setExtendedAttribute(a) of another's sticky directory") {
                    try fileSystem.setExtendedAttribute("a", to: [1], of: directory)
                }
            }
        }.needing(.extendedAttributes),
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

extension ConformanceChecks {
    /// The modes of files that recipes create: the requested mode, never the rights of another file's owner.
    static let fileSystemPrivileges: [FileSystemCheck] = [
        holds("a copied tree has no set-user-ID and no set-group-ID bit") { tree in
            try tree.create("d/s/x", "tool")
            let modes: [(name: String, mode: FilePermissions.RawValue)] = [
                ("s/x", 0o6755), ("s", 0o3775), ("", 0o6711),
            ]
            for (name, mode) in modes {
                try tree.fileSystem.setPermissions(FilePermissions(rawValue: mode), of: .path(tree("d/" + name)))
            }
            try tree.fileSystem.copyTree(tree("d"), to: tree("copy"))
            for (name, mode) in modes {
                let old = try tree.status("d/" + name).permissions
                try expectEqual(old.rawValue, mode, "the permissions of the original \(name)")
                let new = try tree.status("copy/" + name).permissions
                try expectEqual(new.rawValue, mode & 0o1777, "the permissions of the copy \(name)")
            }
        },
        holds("a file written by URL keeps its permissions without the set-user-ID bit, and a new one is private") {
            tree in
            for mode in [0o644, 0o6751] as [FilePermissions.RawValue] {
                try tree.fileSystem.setPermissions(FilePermissions(rawValue: mode), of: .path(tree("f")))
                try tree.fileSystem.write(Data([1]), to: URL(tree("f")))
                let new = try tree.status("f").permissions
                try expectEqual(
                    new.rawValue, mode & 0o1777, "the permissions of f, which were \(mode), after write(to:)")
            }
            try tree.fileSystem.write(Data([1]), to: URL(tree("new")))
            try expectEqual(try tree.status("new").permissions, .ownerReadWrite, "the permissions of a new file")
        },
        holds("directories have the requested mode, even below a set-group-ID directory") { tree in
            // Only Linux passes the bit on.
            guard !tree.isDarwin else { return }
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o2777), of: .path(tree("e")))
            try tree.fileSystem.makeDirectories(tree("e/a/b"))
            try tree.fileSystem.makeDirectories(tree("e/c"), permissions: FilePermissions(rawValue: 0o2750))
            try tree.fileSystem.copyTree(tree("d"), to: tree("e/copy"))
            let modes: [(name: String, mode: FilePermissions.RawValue)] = [
                ("e/a", 0o700), ("e/a/b", 0o700), ("e/c", 0o2750), ("e/copy", 0o755), ("e/copy/s", 0o755),
            ]
            for (name, mode) in modes {
                try expectEqual(try tree.status(name).permissions.rawValue, mode, "the permissions of \(name)")
            }
        },
    ]
}
