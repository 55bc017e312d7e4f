import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    static let fileSystemEntries: [FileSystemCheck] = [
        holds("a renamed file has its new name only") { tree in
            let inode = try tree.status("f").inode
            try tree.fileSystem.rename(tree("f"), to: tree("d/g"))
            try expect(try !tree.exists("f"), "the old name is gone")
            try expectEqual(try tree.status("d/g").inode, inode, "the inode")
            try expectEqual(try tree.status("d/g").linkCount, 1, "the link count")
        },
        holds("a listing has names that begin with a dot, but not the directory and its parent") { tree in
            try tree.create("d/.hidden")
            try tree.create("d/...")
            try tree.makeDirectory("d/.d")
            try expectEqual(try tree.list("d").sorted(), ["...", ".d", ".hidden", "s"], "entries(of: d)")
        },
        holds("the removal of a name keeps the names that begin with it") { tree in
            for name in ["a", "a2", "a.b", ".a"] { try tree.create("d/" + name) }
            for name in ["d/x", "d/x2"] { try tree.makeDirectory(name) }
            try tree.fileSystem.unlink(tree("d/a"))
            try tree.fileSystem.removeDirectory(tree("d/x"))
            let names = try tree.list("d").sorted()
            try expectEqual(
                names, [".a", "a.b", "a2", "s", "x2"], "entries(of: d) after unlink(d/a), removeDirectory(d/x)")
        },
        holds("files have distinct inode numbers") { tree in
            let names = ["f", "d", "d/s", "e", "sf", "dang"]
            try expectEqual(Set(try names.map { try tree.status($0).inode }).count, names.count, "the numbers")
        },
        holds("a listing contains the type and inode number of each entry") { tree in
            let entries = try tree.fileSystem.withDirectory(tree(".")) { (directory) throws(FileSystemError) in
                try tree.fileSystem.entries(of: directory)
            }
            try expectEqual(entries.count, 9, "the names")
            for entry in entries {
                let status = try tree.status(String(entry.name))
                try expectEqual(entry.type, status.type, "the type of \(entry.name)")
                try expectEqual(entry.inode, status.inode, "the number of \(entry.name)")
            }
        },
        holds("concurrent listings of one open directory all contain every name") { tree in
            try tree.opening(tree("."), .readOnly, [.directory]) { directory in
                let fileSystem = tree.fileSystem
                let count = try fileSystem.entries(of: directory).count
                let failures = concurrently(4) { _ in
                    for _ in 0..<2_000 {
                        try expectEqual(try fileSystem.entries(of: directory).count, count, "the names")
                    }
                }
                try expectEqual(failures.compactMap { $0.map(String.init(describing:)) }, [], "the failures")
            }
        },
        holds("every lookup in a removed directory fails") { tree in
            try tree.opening(tree("e"), .readOnly, [.directory]) { directory in
                let fileSystem = tree.fileSystem
                try fileSystem.removeDirectory(tree("e"))
                let calls: [(String, () throws -> Void)] = [
                    ("listing", { _ = try fileSystem.entries(of: directory) }),
                    ("status", { _ = try fileSystem.status("x", at: directory) }),
                    ("unlink", { try fileSystem.unlink("x", at: directory) }),
                    ("link", { try fileSystem.link(tree("f"), at: .workingDirectory, to: "x", at: directory) }),
                    (
                        "rename",
                        {
                            try fileSystem.rename(
                                tree("f"), at: .workingDirectory, to: "x", at: directory, .replacing)
                        }
                    ),
                    ("symlink", { try fileSystem.createSymbolicLink("x", at: directory, to: "f") }),
                ]
                for (name, call) in calls { try tree.expectErrno(.noSuchFileOrDirectory, name, call) }
                guard !tree.isDarwin else { return }
                try tree.expectErrno(.noSuchFileOrDirectory, "a rename with a slash") {
                    try fileSystem.rename(tree("f"), at: .workingDirectory, to: "x/", at: directory, .replacing)
                }
            }
        },
        holds("a rename changes the times of both directories") { tree in
            let old = FileTime(seconds: 1_000_000)
            for name in [".", "d"] {
                try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree(name)))
            }
            try tree.fileSystem.rename(tree("f"), to: tree("d/f"))
            try expect(try tree.status(".").modified != old, "where it was")
            try expect(try tree.status("d").modified != old, "where it is")
        },
        holds("a new directory changes its parent's time") { tree in
            let old = FileTime(seconds: 1_000_000)
            try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree("d")))
            try tree.makeDirectory("d/x")
            try expect(try tree.status("d").modified != old, "its time")
        },
        holds("a read changes no time of modification") { tree in
            let old = FileTime(seconds: 1_000_000)
            try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree("f")))
            try expectEqual(try tree.content("f"), "content", "the content")
            try expectEqual(try tree.status("f").modified, old, "its time")
        },
        holds("a new hard link updates the change time of the file") { tree in
            let before = try tree.status("f").changed
            for number in 0..<1_000_000 {
                try tree.fileSystem.link(tree("f"), to: tree("e/n"))
                try tree.fileSystem.rename(tree("e/n"), to: tree("e/m"))
                if try tree.status("f").changed > before { break }
                try expect(number < 999_999, "the time of change stands still")
                try tree.fileSystem.unlink(tree("e/m"))
            }
        },
        holds("all bits of a mode are stored") { tree in
            for mode: FilePermissions.RawValue in [0o4755, 0o2711, 0o1777, 0o7777, 0] {
                let permissions = FilePermissions(rawValue: mode)
                try tree.fileSystem.setPermissions(permissions, of: .path(tree("d")))
                try expectEqual(try tree.status("d").permissions, permissions, "the mode")
            }
        },
        refuses("a missing file is reported before an invalid time", .noSuchFileOrDirectory) { tree in
            let time = FileTime(seconds: 1, nanoseconds: 1_000_000_000)
            try tree.fileSystem.setTimes(accessed: nil, modified: time, of: .path(tree("missing")))
        },
        refuses("an invalid time is refused", .invalidArgument) { tree in
            let time = FileTime(seconds: 1, nanoseconds: 1_000_000_000)
            try tree.fileSystem.setTimes(accessed: nil, modified: time, of: .path(tree("f")))
        },
        holds("truncating relative to a directory is like truncating by the whole path") { tree in
            try tree.create("d/x", "content")
            try tree.fileSystem.createNode(
                tree("d/socket"), at: .workingDirectory, type: .socket, permissions: .ownerReadWrite, deviceNumber: 0)
            try tree.opening(tree("d"), .readOnly) { directory in
                try tree.fileSystem.truncate(.path("x", at: directory), to: 3)
                try expectEqual(try tree.content("d/x"), "con", "the content")
                let cases: [(POSIXPath, Int64, Errno)] = [
                    ("missing", -1, .invalidArgument), ("missing", 1, .noSuchFileOrDirectory), ("s", 1, .isDirectory),
                    ("x/", 1, .notDirectory), ("socket", 1, .invalidArgument),
                ]
                for (name, size, errno) in cases where !tree.isDarwin {
                    try tree.expectErrno(errno, "\(name)") {
                        try tree.fileSystem.truncate(.path(name, at: directory), to: size)
                    }
                    try tree.expectErrno(errno, "\(name) by its whole path") {
                        try tree.fileSystem.truncate(.path(tree("d").appending(name)), to: size)
                    }
                }
            }
        },
    ]
}
