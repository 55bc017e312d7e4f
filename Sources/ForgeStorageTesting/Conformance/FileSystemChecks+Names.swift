import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    static let fileSystemNames: [FileSystemCheck] = [
        refuses("a directory is not created where one exists", .fileExists) { try $0.makeDirectory("d") },
        refuses("a directory is not created where a file exists", .fileExists) { try $0.makeDirectory("f") },
        refuses("a directory is not created where a dangling link exists", .fileExists) {
            try $0.makeDirectory("dang")
        },
        refuses("a directory is not created in a missing directory", .noSuchFileOrDirectory) {
            try $0.makeDirectory("missing/x")
        },
        refuses("the root directory is not created", .fileExists, darwin: .isDirectory) {
            try $0.fileSystem.createDirectory("/")
        },
        holds("a directory may be created with a slash after its name") { tree in
            try tree.makeDirectory("x/")
            try expectEqual(try tree.status("x").type, .directory, "the type")
        },
        holds("an error names the call, its path and, for a rename or a link, the second path") { tree in
            let (fileSystem, path, second) = (tree.fileSystem, tree("missing/x"), tree("new"))
            let file = FileReference.path(path)
            let calls: [(operation: FileSystemOperation, second: POSIXPath?, body: () throws -> Void)] = [
                (.open, nil, { try fileSystem.close(try fileSystem.open(path, .writeOnly, options: [.create])) }),
                (.status, nil, { _ = try fileSystem.status(of: file) }),
                (.truncate, nil, { try fileSystem.truncate(file, to: 0) }),
                (.setPermissions, nil, { try fileSystem.setPermissions(.ownerRead, of: file) }),
                (.setOwner, nil, { try fileSystem.setOwner(UserID(12), group: nil, of: file) }),
                (.setTimes, nil, { try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 1), of: file) }),
                (.createDirectory, nil, { try fileSystem.createDirectory(path) }),
                (
                    .createNode, nil,
                    {
                        try fileSystem.createNode(
                            path, at: .workingDirectory, type: .fifo, permissions: .ownerRead, deviceNumber: 0)
                    }
                ),
                (.readSymbolicLink, nil, { _ = try fileSystem.readSymbolicLink(path) }),
                (.unlink, nil, { try fileSystem.unlink(path) }),
                (.removeDirectory, nil, { try fileSystem.removeDirectory(path) }),
                (.createSymbolicLink, second, { try fileSystem.createSymbolicLink(path, to: second) }),
                (.link, second, { try fileSystem.link(path, to: second) }),
                (.rename, second, { try fileSystem.rename(path, to: second) }),
            ]
            for (operation, second, body) in calls {
                do {
                    try body()
                } catch let error as FileSystemError {
                    try expectEqual(error.operation, operation, "the operation of the error of \(operation)")
                    try expectEqual(error.errno, .noSuchFileOrDirectory, "the code of the error of \(operation)")
                    try expectEqual(error.path, path, "the path of the error of \(operation)")
                    // The target of a link is a text.
                    guard operation != .createSymbolicLink || error.destination != nil else { continue }
                    try expectEqual(error.destination, second, "the second path of the error of \(operation)")
                    continue
                }
                throw ConformanceViolation("\(operation)(\(path)): expected ENOENT, but nothing was thrown")
            }
        },
        refuses("`.` and `..` are never created", .fileExists) { tree in
            try tree.expectErrno(.fileExists, "mkdir ..") { try tree.makeDirectory("d/..") }
            try tree.expectErrno(.fileExists, "link .") { try tree.fileSystem.link(tree("f"), to: tree("d/.")) }
            try tree.expectErrno(.fileExists, "symlink ..") { try tree.makeLink("d/..", to: "f") }
            try tree.makeDirectory("d/.")
        },
        holds("`.` and `..` are never listed") { tree in
            try expectEqual(try tree.list("d"), ["s"], "the listing")
            try expectEqual(try tree.list("e"), [], "the listing of an empty directory")
        },
    ]

    static let fileSystemDirectories: [FileSystemCheck] = [
        refuses("a non-empty directory is not removed", .directoryNotEmpty, or: .fileExists) {
            try $0.fileSystem.removeDirectory($0("d"))
        },
        refuses("a file is not removed as a directory", .notDirectory) { try $0.fileSystem.removeDirectory($0("f")) },
        refuses("a link to a directory is not removed as a directory", .notDirectory) {
            try $0.fileSystem.removeDirectory($0("sd"))
        },
        refuses("a missing directory is not removed", .noSuchFileOrDirectory) {
            try $0.fileSystem.removeDirectory($0("missing"))
        },
        refuses("a directory is not removed as `.`", .invalidArgument) { try $0.fileSystem.removeDirectory($0("e/.")) },
        refuses("a directory is not removed as `..`", .directoryNotEmpty) {
            try $0.fileSystem.removeDirectory($0("d/.."))
        },
        refuses("the root directory is not removed", .resourceBusy, darwin: .isDirectory) {
            try $0.fileSystem.removeDirectory("/")
        },
        refuses("a slash after a link does not make it removable as a directory", .notDirectory) {
            try $0.fileSystem.removeDirectory($0("sd/"))
        },
        holds("an empty directory is removed, also with a slash after its name") { tree in
            try tree.fileSystem.removeDirectory(tree("e"))
            try tree.fileSystem.removeDirectory(tree("empty/"))
            try expect(try !tree.exists("e") && !tree.exists("empty"), "both are gone")
        },
        refuses("a missing file is not unlinked", .noSuchFileOrDirectory) {
            try $0.fileSystem.unlink($0("missing"))
        },
        refuses("a directory is not unlinked", .isDirectory, darwin: .notPermitted) {
            try $0.fileSystem.unlink($0("e"))
        },
        holds("a directory is not unlinked as `.` or `..`, nor the root directory as `/`") { tree in
            let before = try tree.snapshot()
            let expected: [Errno] =
                tree.isDarwin ? [.notPermitted, .isDirectory, .invalidArgument, .resourceBusy] : [.isDirectory]
            for path in [tree("e/."), tree("e/.."), "/"] as [POSIXPath] {
                try tree.expectErrno(expected, "unlink(\(path))") { try tree.fileSystem.unlink(path) }
            }
            try expectEqual(try tree.snapshot(), before, "the tree after the refused calls")
        },
        refuses("a file is not unlinked with a slash after its name", .notDirectory) {
            try $0.fileSystem.unlink($0("f/"))
        },
        refuses("nothing is unlinked below a file", .notDirectory) { try $0.fileSystem.unlink($0("f/x")) },
        holds("unlinking a link removes the link, not its target") { tree in
            try tree.fileSystem.unlink(tree("sf"))
            try expect(try tree.exists("f") && !tree.exists("sf"), "only the link is gone")
        },
    ]

    static let fileSystemRenaming: [FileSystemCheck] = [
        refuses("a missing file is not renamed", .noSuchFileOrDirectory) { try rename($0, "missing", "x") },
        refuses("a file is not renamed into a missing directory", .noSuchFileOrDirectory) {
            try rename($0, "f", "missing/x")
        },
        refuses("a file does not replace a directory", .isDirectory) { try rename($0, "f", "e") },
        refuses("a directory does not replace a file", .notDirectory) { try rename($0, "e", "f") },
        holds("a directory replaces an empty directory") { tree in
            let inode = try tree.status("d").inode
            try rename(tree, "d", "e")
            try expectEqual(try tree.status("e").inode, inode, "what stands there now")
            try expect(try !tree.exists("d") && tree.exists("e/s"), "the tree moved")
        },
        refuses("a directory does not replace a non-empty directory", .directoryNotEmpty, or: .fileExists) {
            try rename($0, "e", "d")
        },
        refuses("a directory does not move into its own subtree", .invalidArgument) { try rename($0, "d", "d/s/x") },
        refuses("a directory does not replace its parent", .directoryNotEmpty, or: .fileExists) {
            try rename($0, "d/s", "d")
        },
        holds("renaming a file or directory to itself changes nothing") { tree in
            let before = try tree.snapshot()
            try rename(tree, "f", "f")
            try rename(tree, "d", "d/")
            try expectEqual(try tree.snapshot(), before, "the tree")
        },
        holds("renaming a file over another of its names changes nothing") { tree in
            try tree.fileSystem.link(tree("f"), to: tree("h"))
            try rename(tree, "f", "h")
            try expect(try tree.exists("f") && tree.exists("h"), "both names stay")
            try expectEqual(try tree.status("f").linkCount, 2, "the link count")
        },
        holds("a rename takes one name from the replaced file, which keeps its others and its descriptors") { tree in
            try tree.create("replaced", "old")
            try tree.fileSystem.link(tree("replaced"), to: tree("other"))
            try tree.opening(tree("replaced"), .readOnly) { descriptor in
                try rename(tree, "f", "replaced")
                try expectEqual(try tree.status("other").linkCount, 1, "the link count of the other name")
                try expectEqual(try tree.content("other"), "old", "the content of the other name")
                try tree.fileSystem.unlink(tree("other"))
                try expectEqual(try tree.read(descriptor, at: 0), "old", "the content of the descriptor")
            }
            try expectEqual(try tree.status("replaced").linkCount, 1, "the link count of the new file")
        },
        refuses("`.` is not renamed", .resourceBusy, darwin: .invalidArgument) { try rename($0, "d/.", "x") },
        refuses("`..` is not renamed", .resourceBusy, darwin: .invalidArgument) { try rename($0, "d/..", "x") },
        refuses("a file is not renamed to a name with a trailing slash", .notDirectory) {
            try rename($0, "f", "new/")
        },
        refuses("a file is not renamed with a slash after its name", .notDirectory) { try rename($0, "f/", "x") },
        holds("a directory is renamed to a name with a trailing slash") { tree in
            try rename(tree, "e", "new/")
            try expectEqual(try tree.status("new").type, .directory, "the type")
        },
        refuses("a rename through a cycle of links is refused", .tooManySymbolicLinkLevels) {
            try rename($0, "l1/x", "y")
        },
        holds("renaming a link moves the link with its target path") { tree in
            try rename(tree, "sf", "d/sf")
            try expectEqual(try tree.fileSystem.readSymbolicLink(tree("d/sf")), "f", "the text")
            try expect(try tree.exists("f"), "the target stays")
        },
        refuses("an exclusive rename does not replace a file", .fileExists) { try rename($0, "f", "sf", .exclusive) },
        refuses("an exclusive rename does not replace another name of the same file", .fileExists) {
            try rename($0, "f", "f", .exclusive)
        },
        refuses("an exclusive rename reports an existing target before a trailing slash", .fileExists) {
            try rename($0, "f", "f/", .exclusive)
        },
        holds("an exclusive rename moves to a free name") { tree in
            try rename(tree, "f", "g", .exclusive)
            try expectEqual(try tree.content("g"), "content", "the content")
        },
        holds("an exchange swaps a file and a directory") { tree in
            let inodes = (try tree.status("f").inode, try tree.status("d").inode)
            try rename(tree, "f", "d", .exchanging)
            try expectEqual(try tree.status("d").inode, inodes.0, "the file")
            try expectEqual(try tree.status("f").inode, inodes.1, "the directory")
            try expect(try tree.exists("f/s"), "what the directory holds")
        },
        holds("an exchange across directories keeps `..` right") { tree in
            try rename(tree, "d/s", "f", .exchanging)
            try expectEqual(try tree.status("f/..").inode, try tree.status(".").inode, "the parent")
            try expectEqual(try tree.content("d/s"), "content", "the file")
            try rename(tree, "d/s", "f", .exchanging)
            try expectEqual(try tree.status("d/s/..").inode, try tree.status("d").inode, "the parent, once moved back")
            guard tree.subject.countsSubdirectories, !tree.isDarwin else { return }
            try expectEqual(try tree.status("d").linkCount, 3, "the link count of d, once its directory is back")
        },
        holds("an exchange accepts a slash after the name of a directory, but of no file") { tree in
            let inodes = (try tree.status("d").inode, try tree.status("e").inode)
            try rename(tree, "d", "e/", .exchanging)
            try expectEqual(try tree.status("e").inode, inodes.0, "the inode of e after rename(d, to: e/, .exchanging)")
            try expectEqual(try tree.status("d").inode, inodes.1, "the inode of d after rename(d, to: e/, .exchanging)")
            try tree.expectErrno(.notDirectory, "rename(d, to: f/, .exchanging)") {
                try rename(tree, "d", "f/", .exchanging)
            }
        },
        refuses("an exchange needs both names", .noSuchFileOrDirectory) { try rename($0, "f", "missing", .exchanging) },
        refuses("a directory is not exchanged with an entry below it", .invalidArgument) {
            try rename($0, "d", "d/s", .exchanging)
        },
        holds("a directory that moved has its new parent as `..`") { tree in
            try rename(tree, "d", "e/d")
            try expectEqual(try tree.status("e/d/..").inode, try tree.status("e").inode, "the parent")
        },
    ]

    static let fileSystemLinks: [FileSystemCheck] = [
        refuses("a hard link does not replace an existing file", .fileExists) {
            try $0.fileSystem.link($0("f"), to: $0("sf"))
        },
        refuses("a directory gets no second name", .notPermitted) { try $0.fileSystem.link($0("d"), to: $0("x")) },
        holds("a hard link to a symbolic link is a second name of the link itself") { tree in
            try tree.fileSystem.link(tree("sf"), to: tree("x"))
            try expectEqual(try tree.status("x").inode, try tree.status("sf").inode, "the inode")
            try expectEqual(try tree.status("x").type, .symbolicLink, "the type")
        },
        refuses("a symbolic link does not replace an existing file", .fileExists) { try $0.makeLink("dang", to: "f") },
        refuses("a symbolic link with an empty target is not created", .noSuchFileOrDirectory) {
            try $0.makeLink("x", to: "")
        },
        refuses("a file that is no link has no target", .invalidArgument) {
            _ = try $0.fileSystem.readSymbolicLink($0("f"))
        },
        holds("a target of the maximum path length is kept byte for byte") { tree in
            let target = POSIXPath(repeatElement(UInt8(ascii: "t"), count: tree.isDarwin ? 1023 : 4095))
            do {
                try tree.makeLink("x", to: target)
            } catch let error as FileSystemError where error.errno == .fileNameTooLong {
                return  // XFS.
            }
            try expectEqual(try tree.fileSystem.readSymbolicLink(tree("x")), target, "the target")
            try expectEqual(try tree.status("x").sizeInBytes, Int64(target.count), "the size")
        },
        refuses("a link's target one byte longer than the longest path is refused", .fileNameTooLong) { tree in
            try tree.makeLink("x", to: POSIXPath(repeatElement(UInt8(ascii: "t"), count: tree.isDarwin ? 1024 : 4096)))
        },
        holds("`..` after a link is the parent of the link's target") { tree in
            try tree.makeDirectory("far")
            try tree.makeDirectory("far/in")
            try tree.create("far/mark")
            try tree.makeLink("sl", to: "far/in")
            try tree.makeLink("d/absolute", to: tree("far/in"))
            for path in ["sl/../mark", "d/absolute/../mark"] {
                try expectEqual(try tree.status(path).inode, try tree.status("far/mark").inode, "the inode of \(path)")
            }
        },
        holds("a file that is created once a link was removed is not that link") { tree in
            try tree.fileSystem.unlink(tree("sf"))
            // Its inode may be used again.
            for name in ["g", "h"] {
                try tree.create(name, "new")
                try tree.expectErrno(.invalidArgument, "readSymbolicLink(\(name)), a file") {
                    _ = try tree.fileSystem.readSymbolicLink(tree(name))
                }
                try expectEqual(try tree.content(name), "new", "the content of \(name)")
            }
        },
        holds("`..` of the root directory is the root directory") { tree in
            let root = try tree.fileSystem.status("/")
            try expectEqual(try tree.fileSystem.status("/..").inode, root.inode, "/..")
            try expectEqual(try tree.fileSystem.status("/../..//.").inode, root.inode, "/../..//.")
        },
        refuses("a link is not made with a slash after its name", .noSuchFileOrDirectory) {
            try $0.fileSystem.link($0("f"), to: $0("x/"))
        },
        refuses("a file is not linked with a slash after its name", .notDirectory) {
            try $0.fileSystem.link($0("f/"), to: $0("x"))
        },
        holds("the brief status of a file has the inode, the size and the number of links of its status") { tree in
            let fileSystem = tree.fileSystem
            try fileSystem.link(tree("f"), to: tree("d/g"))
            try tree.opening(tree("d/g"), .readWrite) { file in
                let names = ["f", "d", "d/g", "sf", "dang"]
                let files = names.map { FileReference.path(tree($0), followsSymbolicLinks: false) }
                let changes: [(call: String, change: () throws -> Void)] = [
                    ("link(f, to: d/g)", {}), ("write(d/g)", { try tree.write(file, "a longer content") }),
                    ("truncate(d/g, to: 2)", { try fileSystem.truncate(.descriptor(file), to: 2) }),
                ]
                for (call, change) in changes {
                    try change()
                    for reference in files + [.path(tree("sf")), .descriptor(file)] {
                        let expected = BriefFileStatus(try fileSystem.status(of: reference))
                        try expectEqual(
                            try fileSystem.briefStatus(of: reference), expected,
                            "briefStatus(of: \(reference)) after \(call)")
                    }
                }
                for name in ["f", "d/g"] { try fileSystem.unlink(tree(name)) }
                let status = try fileSystem.briefStatus(of: .descriptor(file))
                try expectEqual(status.linkCount, 0, "the link count in the brief status of a file without a name")
            }
            for name in ["f", "sf"] {
                try tree.expectErrno(.noSuchFileOrDirectory, "briefStatus(of: \(name)), where f was removed") {
                    _ = try fileSystem.briefStatus(of: .path(tree(name)))
                }
            }
        },
        holds("data written through a hard link can be read through the other name") { tree in
            try tree.fileSystem.link(tree("f"), to: tree("h"))
            try tree.create("h", "new")
            try expectEqual(try tree.content("f"), "new", "the content")
            try tree.fileSystem.unlink(tree("f"))
            try expectEqual(try tree.content("h"), "new", "the content under the name that is left")
            try expectEqual(try tree.status("h").linkCount, 1, "the link count")
        },
    ]

    private static func rename(
        _ tree: FileSystemFixture, _ name: String, _ newName: String, _ mode: RenameMode = .replacing
    ) throws {
        try tree.fileSystem.rename(tree(name), to: tree(newName), mode)
    }
}

extension ConformanceChecks {
    /// Promises of a case-insensitive file system.
    public static let fileSystemCaseInsensitive: [ConformanceCheck<FileSystemUnderTest>] = caseInsensitive.map {
        $0.needing(.caseInsensitivity)
    }

    private static let caseInsensitive: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a file is found in any case and listed with its original name") { tree in
            try tree.create("e/Name", "x")
            try expectEqual(try tree.content("e/nAME"), "x", "the content")
            try tree.create("e/NAME", "y")
            try expectEqual(try tree.list("e"), ["Name"], "the listing")
            try expectEqual(try tree.content("e/Name"), "y", "the new content")
            try tree.expectErrno(.fileExists, "an exclusive creation") {
                try tree.open("e/name", .writeOnly, [.create, .exclusiveCreate])
            }
            try tree.fileSystem.unlink(tree("e/name"))
            try expectEqual(try tree.list("e"), [], "the listing after the removal")
        },
        holds("a rename to another case changes how the name is shown, and nothing else") { tree in
            try tree.create("e/name", "x")
            try tree.fileSystem.rename(tree("e/name"), to: tree("e/NAME"))
            try expectEqual(try tree.list("e"), ["NAME"], "the listing")
            try tree.fileSystem.rename(tree("e/NAME"), to: tree("e/Name"), .exclusive)
            try expectEqual(try tree.list("e"), ["Name"], "the listing after an exclusive rename")
            try expectEqual(try tree.content("e/name"), "x", "the content")
        },
        holds("case is folded in full: ß is ss") { tree in
            try tree.create("e/stra\u{DF}e")
            try expect(try tree.exists("e/STRASSE"), "found as STRASSE")
            try expect(try tree.exists("e/stra\u{1E9E}e"), "found with a capital ß")
        },
        holds("letters of other scripts have case too") { tree in
            try tree.create("e/ΑΣ")
            try expect(try tree.exists("e/ας") && tree.exists("e/ασ"), "Greek")
            try tree.create("e/Ж")
            try expect(try tree.exists("e/ж"), "Cyrillic")
            try expect(try !tree.exists("e/з"), "another letter")
            try tree.create("e/\u{131}")
            try expect(try !tree.exists("e/i") && !tree.exists("e/I"), "found a dotless i as i or I")
        },
        holds("many names in one directory are found in any case") { tree in
            for number in 0..<100 { try tree.create("e/Name\(number)") }
            for number in 0..<100 where number % 3 != 0 { try tree.fileSystem.unlink(tree("e/nAME\(number)")) }
            for number in 0..<100 {
                try expectEqual(try tree.exists("e/NAME\(number)"), number % 3 == 0, "name \(number)")
            }
        },
    ]

    /// Promises of a normalisation-insensitive file system.
    public static let fileSystemNormalisationInsensitive: [ConformanceCheck<FileSystemUnderTest>] =
        normalisationInsensitive.map { $0.needing(.normalisationInsensitivity) }

    private static let normalisationInsensitive: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a file is found in any normalisation and listed with its original bytes") { tree in
            try tree.create("e/\u{E9}", "x")
            try expectEqual(try tree.content("e/e\u{301}"), "x", "the content")
            try tree.create("e/e\u{301}", "y")
            try expectEqual(try tree.list("e").map { Array($0.utf8) }, [[0xC3, 0xA9]], "the bytes listed")
            try tree.fileSystem.rename(tree("e/e\u{301}"), to: tree("e/e\u{301}"))
            try expectEqual(try tree.content("e/\u{E9}"), "y", "the new content")
        },
        holds("compatibility variants are different names") { tree in
            try tree.create("e/x\u{B2}")
            try expect(try !tree.exists("e/x2"), "a superscript is not its digit")
        },
    ]
}
