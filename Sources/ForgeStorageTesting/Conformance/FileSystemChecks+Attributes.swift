import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    static let fileSystemAttributes: [FileSystemCheck] = [
        holds("a directory's modification time changes with its entries, not with the content of its files") { tree in
            try setOldTimes(tree, "d")
            try tree.create("d/x")
            try expect(try tree.status("d").modified != old, "a creation shows")
            try setOldTimes(tree, "d")
            try tree.create("d/x", "more")
            try expectEqual(try tree.status("d").modified, old, "after a write to a file in it")
            try tree.fileSystem.unlink(tree("d/x"))
            try expect(try tree.status("d").modified != old, "a removal shows")
        },
        holds("a rename and a change of mode keep the modification time and update the change time") { tree in
            try setOldTimes(tree, "f")
            var changed = try tree.status("f").changed
            try waitForClock(tree, after: changed)
            try tree.fileSystem.rename(tree("f"), to: tree("g"))
            try expectEqual(try tree.status("g").modified, old, "modified after a rename")
            try expect(try tree.status("g").changed > changed, "changed after a rename")
            changed = try tree.status("g").changed
            try waitForClock(tree, after: changed)
            try tree.fileSystem.setPermissions(.ownerRead, of: .path(tree("g")))
            try expectEqual(try tree.status("g").modified, old, "modified after a change of mode")
            try expect(try tree.status("g").changed > changed, "changed after a change of mode")
        },
        holds("a directory's link count counts its subdirectories") { tree in
            guard tree.subject.countsSubdirectories, !tree.isDarwin else { return }
            try expectEqual(try tree.status("e").linkCount, 2, "an empty directory")
            try expectEqual(try tree.status("d").linkCount, 3, "a directory with one")
            try tree.fileSystem.rename(tree("d/s"), to: tree("e/s"))
            try expectEqual(try tree.status("d").linkCount, 2, "after the one moved away")
            try expectEqual(try tree.status("e").linkCount, 3, "where it moved to")
        },
        holds("the umask clears permissions of new files and directories") { tree in
            let open = FilePermissions(rawValue: 0o666)
            try tree.opening(tree("x"), .writeOnly, [.create], permissions: open) { _ in }
            try expectEqual(try tree.status("x").permissions, open.subtracting(tree.subject.umask), "a file's")
            try tree.fileSystem.createDirectory(tree("y"), permissions: FilePermissions(rawValue: 0o777))
            try expectEqual(
                try tree.status("y").permissions, FilePermissions(rawValue: 0o777).subtracting(tree.subject.umask),
                "a directory's")
        },
        holds("a listing is not sorted") { tree in
            let names = (0..<40).map { "n\($0 * 17 % 40 + 100)" }
            for name in names { try tree.create("e/\(name)") }
            let listed = try tree.list("e")
            try expect(listed != listed.sorted(), "the listing is sorted")
            try expectEqual(listed.sorted(), names.sorted(), "the names")
            try expectEqual(try tree.list("e"), listed, "a second listing")
        },
        holds("nothing can be created in a directory that was removed") { tree in
            try tree.opening(tree("e"), .readOnly, [.directory]) { directory in
                try tree.fileSystem.removeDirectory(tree("e"))
                try tree.expectErrno(.noSuchFileOrDirectory, "a file") {
                    _ = try tree.fileSystem.open("x", at: directory, .writeOnly, options: [.create])
                }
                try tree.expectErrno(.noSuchFileOrDirectory, "a directory") {
                    try tree.fileSystem.createDirectory("x", at: directory, permissions: .ownerReadWriteExecute)
                }
                try expectEqual(try tree.fileSystem.status(of: .descriptor(directory)).linkCount, 0, "the link count")
            }
        },
        holds("an empty write changes no timestamp") { tree in
            try setOldTimes(tree, "f")
            try tree.opening(tree("f"), .writeOnly) { _ = try tree.write($0, "") }
            try expectEqual(try tree.status("f").modified, old, "modified")
        },
        holds("a write changes the time of modification") { tree in
            try setOldTimes(tree, "f")
            try tree.opening(tree("f"), .writeOnly) { _ = try tree.write($0, "x") }
            let status = try tree.status("f")
            try expect(status.modified != old, "modified")
            try expectEqual(status.changed, status.modified, "both stamps of one operation")
        },
        holds("times before 1970 and after 2038 are kept") { tree in
            let times = [
                FileTime(seconds: -1_000_000_000, nanoseconds: 250_000_000),
                FileTime(seconds: -1, nanoseconds: 999_999_999),
                FileTime(seconds: 5_000_000_000, nanoseconds: 1_000),
            ]
            for time in times {
                try tree.fileSystem.setTimes(accessed: time, modified: time, of: .path(tree("f")))
                try expectEqual(try tree.status("f").modified, time, "modified")
                try expectEqual(try tree.status("f").accessed, time, "accessed")
            }
        },
        holds("an omitted time is unchanged") { tree in
            try setOldTimes(tree, "f")
            let newer = FileTime(seconds: 1_500_000_000)
            try tree.fileSystem.setTimes(accessed: newer, modified: nil, of: .path(tree("f")))
            try expectEqual(try tree.status("f").modified, old, "modified")
            try expectEqual(try tree.status("f").accessed, newer, "accessed")
        },
        holds("setting attributes follows a link or not, as requested") { tree in
            let time = FileTime(seconds: 1_000)
            let link = FileReference.path(tree("sf"), followsSymbolicLinks: false)
            try tree.fileSystem.setTimes(accessed: time, modified: time, of: link)
            try expect(try tree.status("f").modified != time, "the file is left alone")
            try expectEqual(try tree.status("sf").modified, time, "the link")
            try tree.fileSystem.setPermissions(.ownerRead, of: .path(tree("sf")))
            try expectEqual(try tree.status("f").permissions, .ownerRead, "the file")
        },
        holds("a change of size changes the time of modification") { tree in
            try setOldTimes(tree, "f")
            try tree.fileSystem.truncate(.path(tree("f")), to: 8)
            try expect(try tree.status("f").modified != old, "modified")
        },
        holds("special files have names and types") { tree in
            for (name, type) in [("fifo", FileType.fifo), ("socket", .socket), ("plain", .regular)] {
                try tree.fileSystem.createNode(
                    tree(name), at: .workingDirectory, type: type, permissions: .ownerReadWrite, deviceNumber: 0)
                try expectEqual(try tree.status(name).type, type, "the type")
            }
            try tree.expectErrno(.fileExists, "a second time") {
                try tree.fileSystem.createNode(
                    tree("fifo"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            }
            try tree.expectErrno(.noSuchAddressOrDevice, "a FIFO without readers") {
                try tree.open("fifo", .writeOnly, [.nonBlocking])
            }
            try tree.fileSystem.unlink(tree("fifo"))
        },
        holds("a change of owner clears the set-user-ID bit") { tree in
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o4755), of: .path(tree("f")))
            try tree.fileSystem.setOwner(UserID(12), group: GroupID(34), of: .path(tree("f")))
            let status = try tree.status("f")
            try expectEqual(status.owner, UserID(12), "the owner")
            try expectEqual(status.group, GroupID(34), "the group")
            try expectEqual(status.permissions, FilePermissions(rawValue: 0o755), "the permissions")
            try tree.fileSystem.setOwner(nil, group: GroupID(35), of: .path(tree("f")))
            try expectEqual(try tree.status("f").owner, UserID(12), "the owner that was not given")
        },
    ]

    private static let old = FileTime(seconds: 1_000_000, nanoseconds: 5_000)

    private static func setOldTimes(_ tree: FileSystemFixture, _ name: String) throws {
        try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree(name)))
    }

    /// Changes files until the file system's clock, which may be coarse, has advanced.
    private static func waitForClock(_ tree: FileSystemFixture, after time: FileTime) throws {
        for _ in 0..<1_000_000 {
            try tree.create("clock", "tick")
            if try tree.status("clock").changed > time { return }
        }
        throw ConformanceViolation("the clock does not move on")
    }
}
