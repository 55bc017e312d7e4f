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
            try tree.makeDirectory("d/x")
            try tree.fileSystem.rename(tree("e/s"), to: tree("d/x"))
            try expectEqual(try tree.status("e").linkCount, 2, "e after rename(e/s, to: d/x)")
            try expectEqual(try tree.status("d").linkCount, 3, "d after rename(e/s, to: d/x), an empty directory")
            try tree.fileSystem.removeDirectory(tree("d/x"))
            try expectEqual(try tree.status("d").linkCount, 2, "d after removeDirectory(d/x)")
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
        holds("setting no time changes nothing") { tree in
            try setOldTimes(tree, "f")
            let before = try tree.status("f")
            try tree.fileSystem.setTimes(accessed: nil, modified: nil, of: .path(tree("f")))
            try expectEqual(try tree.status("f"), before, "the status after setTimes(accessed: nil, modified: nil)")
        },
        holds("setting attributes follows a link or not, as requested") { tree in
            let time = FileTime(seconds: 1_000)
            let link = FileReference.path(tree("sf"), followsSymbolicLinks: false)
            try tree.fileSystem.setTimes(accessed: time, modified: time, of: link)
            try expect(try tree.status("f").modified != time, "the file is left alone")
            try expectEqual(try tree.status("sf").modified, time, "the link")
            try tree.fileSystem.setPermissions(.ownerRead, of: .path(tree("sf")))
            try expectEqual(try tree.status("f").permissions, .ownerRead, "the file")
            // Only Darwin's links have permissions.
            let call = "setPermissions of a link that is not followed"
            if tree.isDarwin {
                try tree.fileSystem.setPermissions(.ownerReadWrite, of: link)
            } else {
                try tree.expectErrno([.notSupported, .invalidArgument, .noFunction], call) {
                    try tree.fileSystem.setPermissions(.ownerReadWrite, of: link)
                }
            }
            try expectEqual(try tree.status("f").permissions, .ownerRead, "the permissions of the file after \(call)")
            let (owner, other) = (try tree.status("f").owner, UserID(12))
            try tree.fileSystem.setOwner(other, group: nil, of: link)
            try expectEqual(try tree.status("sf").owner, other, "the owner of a link that is not followed")
            try expectEqual(try tree.status("f").owner, owner, "the owner of the file after setOwner of the link")
            try tree.fileSystem.setOwner(other, group: nil, of: .path(tree("sf")))
            try expectEqual(try tree.status("f").owner, other, "the owner of the file after setOwner through a link")
        },
        holds("a change of size changes the time of modification") { tree in
            try setOldTimes(tree, "f")
            try tree.fileSystem.truncate(.path(tree("f")), to: 8)
            try expect(try tree.status("f").modified != old, "modified")
        },
        holds("a call that changes a file's content, size or attributes changes its change time") { tree in
            let file = FileReference.path(tree("f"))
            let calls: [(String, (Descriptor) throws -> Void)] = [
                ("write", { _ = try tree.write($0, "x") }),
                ("truncate", { try tree.fileSystem.truncate(.descriptor($0), to: 3) }),
                ("allocate behind the end", { try tree.fileSystem.allocate($0, at: 0, length: 100_000) }),
                ("setOwner", { _ in try tree.fileSystem.setOwner(nil, group: GroupID(34), of: file) }),
                ("setTimes", { _ in try tree.fileSystem.setTimes(accessed: nil, modified: old, of: file) }),
                ("link", { _ in try tree.fileSystem.link(tree("f"), to: tree("second")) }),
                ("unlink of another name", { _ in try tree.fileSystem.unlink(tree("second")) }),
            ]
            for (name, call) in calls {
                let before = try tree.status("f").changed
                try waitForClock(tree, after: before)
                try tree.opening(tree("f"), .readWrite) { try call($0) }
                let after = try tree.status("f").changed
                try expect(
                    after > before, "the change time after \(name): expected a later one than \(before), got \(after)")
            }
        },
        holds("an existing file is truncated by an open only if that is asked for, and has new times then") { tree in
            try setOldTimes(tree, "f")
            try tree.open("f", .readWrite, [.create])
            try expectEqual(try tree.status("f").modified, old, "modified after open(f, .readWrite, [.create])")
            try expectEqual(try tree.content("f"), "content", "the content after open(f, .readWrite, [.create])")
            try tree.open("f", .writeOnly, [.create, .truncate])
            try expect(try tree.status("f").modified != old, "modified after open(f, .writeOnly, [.create, .truncate])")
        },
        holds("a process owns the files that it creates, and has random bits") { tree in
            try expectEqual(try tree.status("f").owner, tree.fileSystem.effectiveUser, "the owner of a new file")
            let bits = Set((0..<100).map { _ in tree.fileSystem.randomBits() })
            try expectEqual(bits.count, 100, "different results of 100 calls of randomBits()")
        },
        holds("special files have names and types") { tree in
            let nodes = [("fifo", FileType.fifo), ("socket", .socket), ("plain", .regular)]
            // mknod(2) of Darwin makes only devices and FIFOs.
            for (name, type) in nodes where type == .fifo || !tree.isDarwin {
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
            for name in tree.isDarwin ? ["fifo"] : ["fifo", "socket"] {
                try tree.expectErrno(.invalidArgument, "truncate(\(name), followsSymbolicLinks: false)") {
                    try tree.fileSystem.truncate(.path(tree(name), followsSymbolicLinks: false), to: 0)
                }
            }
            try tree.fileSystem.unlink(tree("fifo"))
        },
        refuses("a directory is not created as a node", .notPermitted, or: .invalidArgument) { tree in
            try tree.fileSystem.createNode(
                tree("x"), at: .workingDirectory, type: .directory, permissions: .ownerReadWriteExecute, deviceNumber: 0
            )
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
            // POSIX leaves the rest to the system.
            guard !tree.isDarwin else { return }
            for (name, kept) in [("f", 0o755), ("d", 0o6755)] as [(String, FilePermissions.RawValue)] {
                let file = FileReference.path(tree(name))
                try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: file)
                try tree.fileSystem.setOwner(UserID(13), group: nil, of: file)
                try expectEqual(
                    try tree.status(name).permissions.rawValue, kept,
                    "the permissions of \(name), which were 6755, after setOwner(13)")
                try expectEqual(try tree.status(name).owner, UserID(13), "the owner of \(name)")
            }
        },
        holds("an exchange changes the times of both directories") { tree in
            // rename(2) of Darwin promises neither for an exchange.
            guard !tree.isDarwin else { return }
            for name in [".", "d"] { try setOldTimes(tree, name) }
            try tree.fileSystem.rename(tree("f"), to: tree("d/s"), .exchanging)
            for name in [".", "d"] {
                try expect(try tree.status(name).modified != old, "modified of \(name) is the old time")
            }
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

extension ConformanceChecks {
    /// Checks of user attributes, which not every file system has.
    public static let fileSystemExtendedAttributes: [ConformanceCheck<FileSystemUnderTest>] = extendedAttributes.map {
        $0.needing(.extendedAttributes)
    }

    private static let extendedAttributes: [FileSystemCheck] = [
        onFile("an extended attribute has the value that was set last, and is listed once") { tree, file in
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file), [], "names of a new file")
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), nil, "an attribute that is not set")
            let values: [[UInt8]] = [Array(0...255), [], Array(repeating: 7, count: 900), [0], [1, 2, 3]]
            for value in values {
                try tree.fileSystem.setExtendedAttribute("a", to: value, of: file)
                try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), value, "value")
            }
            try tree.fileSystem.setExtendedAttribute("b.c-d é", to: [4], of: file)
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).sorted(), ["a", "b.c-d é"], "names")
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), [1, 2, 3], "the other value")
            try expectEqual(try tree.fileSystem.extendedAttribute("b", of: file), nil, "a prefix of a name")
        },
        onFile("many extended attributes are listed") { tree, file in
            // More bytes of names than a first buffer holds.
            let prefix = String(repeating: "n", count: 60)
            let names: [String] = (10..<34).map { "\(prefix)\($0)" }
            for name in names { try tree.fileSystem.setExtendedAttribute(name, to: Array(name.utf8), of: file) }
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).sorted(), names, "names")
            for name in names {
                try expectEqual(try tree.fileSystem.extendedAttribute(name, of: file), Array(name.utf8), "value")
            }
        },
        onFile("names of extended attributes that are equivalent or differ in case are different") { tree, file in
            guard !tree.isDarwin else { return }
            let names = ["a", "A", "\u{E9}", "e\u{301}"]
            for (number, name) in names.enumerated() {
                try tree.fileSystem.setExtendedAttribute(name, to: [UInt8(number)], of: file)
            }
            for (number, name) in names.enumerated() {
                try expectEqual(try tree.fileSystem.extendedAttribute(name, of: file), [UInt8(number)], "value")
            }
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).count, names.count, "names")
        },
        onFile("extended attributes belong to the file: a link shows them, a rename and a write keep them") {
            tree, file in
            try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            try tree.fileSystem.link(tree("f"), to: tree("g"))
            try tree.fileSystem.rename(tree("f"), to: tree("e/f"))
            _ = try tree.write(file, "new content")
            try tree.fileSystem.truncate(.descriptor(file), to: 0)
            for name in ["g", "e/f"] {
                try tree.opening(tree(name), .readOnly) { other in
                    try expectEqual(try tree.fileSystem.extendedAttribute("a", of: other), [1], name)
                }
            }
        },
        holds("a new file has no extended attributes of a removed one") { tree in
            try tree.opening(tree("f"), .readWrite) { file in
                try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            }
            try tree.fileSystem.unlink(tree("f"))
            // Its inode may be used again.
            for name in ["f", "g"] {
                try tree.opening(tree(name), .readWrite, [.create]) { new in
                    try expectEqual(try tree.fileSystem.extendedAttributeNames(of: new), [], "names of \(name)")
                    try expectEqual(try tree.fileSystem.extendedAttribute("a", of: new), nil, "the value of \(name)")
                }
            }
        },
        onFile("a change of an extended attribute changes the change time only") { tree, file in
            let old = FileTime(seconds: 1_000_000)
            try tree.fileSystem.setTimes(accessed: nil, modified: old, of: .descriptor(file))
            let before = try tree.status("f").changed
            for _ in 0..<1_000_000 {
                try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
                if try tree.status("f").changed > before { break }
            }
            try expect(try tree.status("f").changed > before, "the change time should advance")
            try expectEqual(try tree.status("f").modified, old, "modified")
            try expectEqual(try tree.status("f").sizeInBytes, 7, "size")
        },
        onFile("an invalid name of an extended attribute is refused") { tree, file in
            let limit = tree.isDarwin ? 127 : 250
            let longest = String(repeating: "x", count: limit)
            try tree.fileSystem.setExtendedAttribute(longest, to: [1], of: file)
            try expectEqual(try tree.fileSystem.extendedAttribute(longest, of: file), [1], "the longest name")
            let tooLong: Errno = tree.isDarwin ? .fileNameTooLong : .outOfRange
            let refused: [(String, Errno)] = [
                ("", .invalidArgument), ("a\0b", .invalidArgument), (longest + "x", tooLong),
            ]
            for (name, errno) in refused {
                try tree.expectErrno(errno, "setting \(name)") {
                    try tree.fileSystem.setExtendedAttribute(name, to: [2], of: file)
                }
                try tree.expectErrno(errno, "reading \(name)") {
                    _ = try tree.fileSystem.extendedAttribute(name, of: file)
                }
            }
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file), [longest], "names")
        },
        onFile("a value of an extended attribute has at most 65,536 bytes") { tree, file in
            try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            try tree.expectErrno(.argListTooLong, "one more") {
                try tree.fileSystem.setExtendedAttribute("a", to: [UInt8](repeating: 2, count: 65_537), of: file)
            }
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), [1], "value")
            // The largest one is stored, or there is no space for it.
            let largest = [UInt8](repeating: 3, count: 65_536)
            if try fits("b", largest, tree, file) {
                try expect(try tree.fileSystem.extendedAttribute("b", of: file) == largest, "the largest value")
            }
        },
        onFile("an extended attribute that does not fit changes nothing") { tree, file in
            let value = [UInt8](repeating: 3, count: 1_000)
            // ext4 has room for less than four of them, other file systems for more.
            let names: [String] = (10..<40).map { "a\($0)" }
            let set = Array(try names.prefix { try fits($0, value, tree, file) })
            try expect(set.count >= 3, "only \(set.count) attributes of 1,000 bytes fit")
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).sorted(), set, "names")
            for name in set { try expectEqual(try tree.fileSystem.extendedAttribute(name, of: file), value, name) }
        },
        onFile("a directory has extended attributes, a FIFO has none") { tree, _ in
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                try tree.fileSystem.setExtendedAttribute("a", to: [1], of: directory)
                try expectEqual(try tree.fileSystem.extendedAttribute("a", of: directory), [1], "a directory's")
            }
            guard !tree.isDarwin else { return }
            try tree.fileSystem.createNode(
                tree("fifo"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            try tree.opening(tree("fifo"), .readWrite, [.nonBlocking]) { fifo in
                try tree.expectErrno(.notPermitted, "setting") {
                    try tree.fileSystem.setExtendedAttribute("a", to: [1], of: fifo)
                }
                try expectEqual(try tree.fileSystem.extendedAttribute("a", of: fifo), nil, "a FIFO's")
            }
        },
        onFile("extended attributes can be set through a file opened for reading, not an invalid one") { tree, _ in
            let file = try tree.fileSystem.open(tree("f"))
            try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), [1], "value")
            try tree.fileSystem.close(file)
            // Another thread of the process may have opened a file with the number of a closed one.
            let none = Descriptor(rawValue: 1_999_999)
            try tree.expectErrno(.badFileDescriptor, "setting") {
                try tree.fileSystem.setExtendedAttribute("a", to: [2], of: none)
            }
            try tree.expectErrno(.badFileDescriptor, "reading") {
                _ = try tree.fileSystem.extendedAttribute("a", of: none)
            }
            try tree.expectErrno(.badFileDescriptor, "listing") {
                _ = try tree.fileSystem.extendedAttributeNames(of: none)
            }
        },
    ]

    /// Sets an attribute, unless there is no space for it.
    private static func fits(
        _ name: String, _ value: [UInt8], _ tree: FileSystemFixture, _ file: Descriptor
    ) throws -> Bool {
        do {
            try tree.fileSystem.setExtendedAttribute(name, to: value, of: file)
            return true
        } catch  where error.isOutOfSpace {
            return false
        }
    }

    /// A check that starts from the fixture, with the file `f` opened for reading and writing.
    private static func onFile(
        _ description: String, _ body: @escaping @Sendable (FileSystemFixture, Descriptor) throws -> Void
    ) -> FileSystemCheck {
        holds(description) { tree in try tree.opening(tree("f"), .readWrite) { try body(tree, $0) } }
    }
}
