import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    /// The promises of every file system, on an empty directory and as a user who passes all permission checks.
    ///
    /// The expectations come from ext4, XFS, btrfs and tmpfs; where they differ, a check accepts each answer. Separate
    /// lists check file systems with a special set-up.
    public static let fileSystem: [ConformanceCheck<FileSystemUnderTest>] =
        fileSystemOpening + fileSystemNames + fileSystemDirectories + fileSystemRenaming + fileSystemLinks
        + fileSystemEntries + fileSystemContent + fileSystemCopying + fileSystemMapping + fileSystemOffsets
        + fileSystemAttributes + fileSystemPathResolution + fileSystemRelativePaths + fileSystemPipes + fileSystemTrees
        + fileSystemPrivileges + fileSystemConcurrency + fileSystemWaiting
}

extension ConformanceChecks {
    static let fileSystemOpening: [FileSystemCheck] = [
        refuses("a file cannot be created in a missing directory", .noSuchFileOrDirectory) {
            try $0.open("missing/new", .writeOnly, [.create])
        },
        refuses("a path through a file is refused", .notDirectory) { try $0.open("f/x") },
        refuses("a file cannot be opened with a slash after its name", .notDirectory) { try $0.open("f/") },
        refuses("a file cannot be created with a slash after its name", .isDirectory) {
            try $0.open("new/", .writeOnly, [.create])
        },
        refuses("`.` after a file is refused", .notDirectory) { _ = try $0.status("f/.") },
        refuses("`..` after a file is refused", .notDirectory) { _ = try $0.status("f/..") },
        refuses("a directory cannot be opened for writing", .isDirectory) { try $0.open("d", .writeOnly) },
        refuses("a directory cannot be read as a file", .isDirectory) { tree in
            try tree.opening(tree("d"), .readOnly) { _ = try tree.read($0) }
        },
        refuses("a directory cannot be opened for creation", .isDirectory) { try $0.open("d", .readOnly, [.create]) },
        refuses("an exclusive creation refuses a file that exists", .fileExists) {
            try $0.open("f", .writeOnly, [.create, .exclusiveCreate])
        },
        refuses("an exclusive creation refuses a dangling symbolic link", .fileExists) {
            try $0.open("dang", .writeOnly, [.create, .exclusiveCreate])
        },
        refuses("a dangling symbolic link cannot be opened", .noSuchFileOrDirectory) { try $0.open("dang") },
        holds("a creation through a dangling symbolic link creates its target") { tree in
            try tree.open("dang", .writeOnly, [.create])
            try expectEqual(try tree.status("nowhere").type, .regular, "the target")
            try expectEqual(try tree.status("dang").type, .symbolicLink, "the link")
        },
        refuses("a link is not followed if the call forbids it", .tooManySymbolicLinkLevels) {
            try $0.open("sf", .readOnly, [.noFollow])
        },
        holds("a slash after a link follows it even if the call forbids that") { tree in
            try tree.opening(tree("sd/"), .readOnly, [.noFollow, .directory]) { descriptor in
                let opened = try tree.fileSystem.status(of: .descriptor(descriptor))
                try expectEqual(opened.inode, try tree.status("d").inode, "what was opened")
            }
        },
        refuses("a link that is not followed is not a directory", .notDirectory) {
            try $0.open("sd", .readOnly, [.noFollow, .directory])
        },
        refuses("a file is not opened as a directory", .notDirectory) { try $0.open("f", .readOnly, [.directory]) },
        refuses("a symbolic link loop is refused", .tooManySymbolicLinkLevels) { try $0.open("l1") },
        holds("a chain of as many links as the system allows is followed") { tree in
            try makeChain(tree, tree.isDarwin ? 32 : 40)
            try tree.open("chain\(tree.isDarwin ? 32 : 40)")
        },
        holds("a chain of links one over the limit is refused") { tree in
            try makeChain(tree, tree.isDarwin ? 33 : 41)
            try tree.expectErrno(.tooManySymbolicLinkLevels, "the chain") {
                try tree.open("chain\(tree.isDarwin ? 33 : 41)")
            }
        },
        refuses("an empty path leads nowhere", .noSuchFileOrDirectory) { try $0.opening("", .readOnly) { _ in } },
        refuses("an empty path has no status", .noSuchFileOrDirectory) { _ = try $0.fileSystem.status("") },
        holds("a name may have 255 bytes") { tree in
            let name = String(repeating: "n", count: 255)
            try tree.create(name)
            try expect(try tree.list().contains(name), "the name is listed")
        },
        refuses("a name may not have 256 bytes", .fileNameTooLong) {
            try $0.create(String(repeating: "n", count: 256))
        },
        refuses("a name of 256 bytes cannot even be looked up", .fileNameTooLong) {
            _ = try $0.status(String(repeating: "n", count: 256))
        },
        holds("the name limit counts bytes: 85 three-byte characters are accepted") {
            try $0.create(String(repeating: "\u{20AC}", count: 85))
        },
        refuses("the name limit counts bytes: 86 three-byte characters are refused", .fileNameTooLong) {
            try $0.create(String(repeating: "\u{20AC}", count: 86))
        },
        holds("a path may be as long as the system allows") { tree in
            _ = try tree.fileSystem.status(pathOfLength(tree.isDarwin ? 1023 : 4095, tree))
        },
        refuses("a path one byte longer than the limit is refused", .fileNameTooLong) { tree in
            _ = try tree.fileSystem.status(pathOfLength(tree.isDarwin ? 1024 : 4096, tree))
        },
        refuses("a new path of a rename or link one byte longer than the limit is refused", .fileNameTooLong) { tree in
            let path = pathOfLength(tree.isDarwin ? 1024 : 4096, tree)
            try tree.expectErrno(.fileNameTooLong, "link(d/../f, to: \(path.count) bytes)") {
                try tree.fileSystem.link(tree("d/../f"), to: path)
            }
            try tree.fileSystem.rename(tree("f"), to: path)
        },
        holds("every call refuses an empty path, and one that is too long") { tree in
            let (fileSystem, before) = (tree.fileSystem, try tree.snapshot())
            let calls: [(call: String, body: (POSIXPath) throws -> Void)] = [
                ("open", { try fileSystem.close(try fileSystem.open($0)) }),
                ("status", { _ = try fileSystem.status($0) }),
                ("createDirectory", { try fileSystem.createDirectory($0) }),
                ("createSymbolicLink", { try fileSystem.createSymbolicLink($0, to: "f") }),
                (
                    "createNode",
                    {
                        try fileSystem.createNode(
                            $0, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
                    }
                ),
                ("readSymbolicLink", { _ = try fileSystem.readSymbolicLink($0) }),
                ("link of f, with the new path,", { try fileSystem.link(tree("f"), to: $0) }),
                ("link", { try fileSystem.link($0, to: tree("new")) }),
                ("rename of f, with the new path,", { try fileSystem.rename(tree("f"), to: $0) }),
                ("rename", { try fileSystem.rename($0, to: tree("new")) }),
                ("unlink", { try fileSystem.unlink($0) }),
                ("removeDirectory", { try fileSystem.removeDirectory($0) }),
                ("truncate", { try fileSystem.truncate(.path($0), to: 0) }),
                ("setPermissions", { try fileSystem.setPermissions(.ownerRead, of: .path($0)) }),
                ("setTimes", { try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 1), of: .path($0)) }),
            ]
            let paths: [(path: POSIXPath, errno: Errno)] = [
                ("", .noSuchFileOrDirectory), (pathOfLength(tree.isDarwin ? 1024 : 4096, tree), .fileNameTooLong),
            ]
            for (path, errno) in paths {
                for (call, body) in calls {
                    try tree.expectErrno(errno, "\(call) with a path of \(path.count) bytes") { try body(path) }
                }
            }
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                let resolution: PathResolution = [.beneath, .noSymbolicLinks]
                try tree.expectErrno(.noSuchFileOrDirectory, "open of an empty path, resolution: \(resolution)") {
                    let file = try fileSystem.open(
                        "", at: directory, .readOnly, options: [], permissions: [], resolution: resolution)
                    try fileSystem.close(file)
                }
            }
            try expectEqual(try tree.snapshot(), before, "the tree after the refused calls")
        },
        refuses("a path with a NUL inside cannot be opened", .invalidArgument) {
            try $0.open("f\0.txt", .writeOnly, [.create])
        },
        refuses("a path with a NUL inside is refused before any lookup", .invalidArgument) {
            _ = try $0.status("missing/f\0")
        },
        refuses("a path with a NUL inside cannot be created or removed", .invalidArgument) { tree in
            let path = tree("d\0x")
            let calls: [(String, () throws -> Void)] = [
                ("createDirectory(d\\0x)", { try tree.fileSystem.createDirectory(path) }),
                ("removeDirectory(d\\0x)", { try tree.fileSystem.removeDirectory(path) }),
                ("rename(f, to: d\\0x)", { try tree.fileSystem.rename(tree("f"), to: path) }),
                ("rename(d\\0x, to: x)", { try tree.fileSystem.rename(path, to: tree("x")) }),
                ("link(f, to: d\\0x)", { try tree.fileSystem.link(tree("f"), to: path) }),
                ("createSymbolicLink(x, to: a\\0b)", { try tree.makeLink("x", to: "a\0b") }),
                ("readSymbolicLink(d\\0x)", { _ = try tree.fileSystem.readSymbolicLink(path) }),
                ("truncate(d\\0x)", { try tree.fileSystem.truncate(.path(path), to: 0) }),
                ("setPermissions(d\\0x)", { try tree.fileSystem.setPermissions(.ownerReadWrite, of: .path(path)) }),
            ]
            for (call, body) in calls { try tree.expectErrno(.invalidArgument, call, body) }
            try tree.fileSystem.unlink(path)
        },
        holds("a name that is not UTF-8 is kept unchanged, or refused on Darwin") { tree in
            let name = POSIXPath([0x66, 0xFF, 0xC3, 0x28])
            guard !tree.isDarwin else {
                return try tree.expectErrno(.illegalByteSequence, "the name") { try tree.create(path: tree.path(name)) }
            }
            try tree.create(path: tree.path(name))
            let names = try tree.fileSystem.entries(ofDirectory: tree(".")).map(\.name)
            try expect(names.contains(name), "the bytes are listed as given")
        },
        holds("canonically equivalent names differ, unless normalisation is ignored") { tree in
            try tree.create("\u{E9}")
            try expectEqual(try tree.exists("e\u{301}"), tree.subject.isNormalisationInsensitive, "found")
        },
        holds("names with different case differ, unless case is ignored") { tree in
            try tree.create("Case")
            try expectEqual(try tree.exists("case"), tree.subject.isCaseInsensitive, "found")
        },
        refuses("a file cannot be created as a directory", .invalidArgument) {
            try $0.open("new", .readOnly, [.create, .directory])
        },
        refuses("an exclusive creation of a directory that exists is refused", .fileExists) {
            try $0.open("d", .readOnly, [.create, .exclusiveCreate])
        },
        refuses("truncating a directory on opening is refused", .isDirectory) {
            try $0.open("d", .readOnly, [.truncate])
        },
        holds("truncation on opening empties the file, for a reader too") { tree in
            try tree.opening(tree("f"), .readOnly, [.truncate]) { descriptor in
                try tree.expectErrno(.badFileDescriptor, "a write") { try tree.write(descriptor, "x") }
            }
            try expectEqual(try tree.status("f").sizeInBytes, 0, "the size")
        },
    ]

    private static func makeChain(_ tree: FileSystemFixture, _ count: Int) throws {
        for number in 1...count {
            try tree.makeLink("chain\(number)", to: POSIXPath(number == 1 ? "f" : "chain\(number - 1)"))
        }
    }

    /// A path of this length to `f`, padded with slashes.
    private static func pathOfLength(_ length: Int, _ tree: FileSystemFixture) -> POSIXPath {
        let padding = length - tree.subject.root.count - 1
        return POSIXPath(
            Array(tree.subject.root.bytes) + [UInt8](repeating: UInt8(ascii: "/"), count: padding) + [0x66])
    }
}

extension ConformanceChecks {
    static let fileSystemPathResolution: [FileSystemCheck] = [
        resolves(
            "`.beneath` refuses paths that leave the directory",
            [
                ("../f", .beneath, .improperLink), ("s/../../f", .beneath, .improperLink),
                ("out", .beneath, .improperLink), ("up", .beneath, .improperLink), ("in", .beneath, nil),
                ("s/../x", .beneath, nil), ("s/..", .beneath, nil), ("..", .beneath, .improperLink),
                (".", .beneath, nil), ("missing", .beneath, .noSuchFileOrDirectory),
            ]),
        resolves(
            "`.noSymbolicLinks` refuses paths through symbolic links",
            [
                ("in", .noSymbolicLinks, .tooManySymbolicLinkLevels),
                ("out", .noSymbolicLinks, .tooManySymbolicLinkLevels),
                ("dirlink/y", .noSymbolicLinks, .tooManySymbolicLinkLevels), ("x", .noSymbolicLinks, nil),
                ("../f", .noSymbolicLinks, nil), ("s/../x", .noSymbolicLinks, nil),
                ("dirlink/", .noSymbolicLinks, .tooManySymbolicLinkLevels),
            ]),
        resolves(
            "`.beneath` and `.noSymbolicLinks` combine",
            [
                ("in", [.beneath, .noSymbolicLinks], .tooManySymbolicLinkLevels),
                ("up", [.beneath, .noSymbolicLinks], .tooManySymbolicLinkLevels),
                ("../f", [.beneath, .noSymbolicLinks], .improperLink), ("x", [.beneath, .noSymbolicLinks], nil),
                ("s/y", [.beneath, .noSymbolicLinks], nil),
                ("dirlink/y", [.beneath, .noSymbolicLinks], .tooManySymbolicLinkLevels),
                ("missing", [.beneath, .noSymbolicLinks], .noSuchFileOrDirectory),
                ("x/y", [.beneath, .noSymbolicLinks], .notDirectory), (".", [.beneath, .noSymbolicLinks], nil),
            ]),
        resolves("`..` below the directory is followed, except on Darwin") { isDarwin in
            [("s/../x", [.beneath, .noSymbolicLinks], isDarwin ? .improperLink : nil)]
        },
        holds("a path below a directory may be longer than one from the root on Darwin") { tree in
            let name = String(repeating: "n", count: 250)
            var directory = try tree.fileSystem.open(tree("d"), options: [.directory])
            for depth in 0..<5 {
                let next = try tree.fileSystem.closing(directory) { () throws(FileSystemError) in
                    try tree.fileSystem.createDirectory(
                        POSIXPath(name), at: directory, permissions: FilePermissions(rawValue: 0o755))
                    return try tree.fileSystem.open(POSIXPath(name), at: directory, options: [.directory])
                }
                directory = next
                if depth == 4 { try tree.fileSystem.close(directory) }
            }
            let path = POSIXPath(Array(repeating: name, count: 5).joined(separator: "/"))
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                for (name, options) in [("new", [.create]), ("new", []), ("", [.directory])]
                    as [(POSIXPath, FileDescriptor.OpenOptions)]
                {
                    let mode: FileDescriptor.AccessMode = options == [.create] ? .writeOnly : .readOnly
                    try tree.fileSystem.close(
                        try tree.fileSystem.open(
                            name.isEmpty ? path : path.appending(name), at: directory, mode, options: options,
                            permissions: FilePermissions(rawValue: 0o644), resolution: [.beneath, .noSymbolicLinks]))
                }
            }
        },
        holds("an absolute path is refused by `.beneath`") { tree in
            try tree.opening(tree("d"), .readOnly) { directory in
                for resolution in [PathResolution.beneath, [.beneath, .noSymbolicLinks]] {
                    let isUnsupported = tree.isDarwin && resolution == .beneath
                    let expected: Errno = isUnsupported ? .notSupported : .improperLink
                    try tree.expectErrno(expected, "open(\(tree("f")), resolution: \(resolution))") {
                        _ = try tree.fileSystem.open(
                            tree("f"), at: directory, .readOnly, options: [], permissions: [], resolution: resolution)
                    }
                }
            }
        },
        refuses("a missing last component is reported before its trailing slash", .noSuchFileOrDirectory) {
            try $0.fileSystem.unlink($0("missing/"))
        },
        refuses("the path of a rename's source is resolved before that of its target", .notDirectory) {
            try $0.fileSystem.rename($0("f/x"), to: $0("missing/x"))
        },
        refuses("the path of a rename's target is resolved before its source is looked up", .notDirectory) {
            try $0.fileSystem.rename($0("missing"), to: $0("f/x"))
        },
        refuses("the path of a rename's source is resolved before its target is too long", .notDirectory) { tree in
            try tree.fileSystem.rename(tree("f/x"), to: POSIXPath([UInt8](repeating: 0x78, count: 4096)))
        },
        refuses("a rename to `.` is refused", .resourceBusy, darwin: .invalidArgument) {
            try $0.fileSystem.rename($0("e"), to: $0("d/."))
        },
        refuses("an existing target is reported before a trailing slash", .fileExists) {
            try $0.makeLink("f/", to: "x")
        },
    ]

    private typealias Step = (path: POSIXPath, resolution: PathResolution, errno: Errno?)

    /// Opens paths from `d`, which contains a file `x`, a directory `s` with a file `y`, and links inwards and
    /// outwards.
    private static func resolves(_ description: String, _ steps: [Step]) -> FileSystemCheck {
        resolves(description) { isDarwin in
            guard isDarwin else { return steps }
            // No system call of Darwin confines a resolution that follows links.
            return steps.map { $0.resolution == .beneath ? ($0.path, $0.resolution, .notSupported) : $0 }
        }
    }

    private static func resolves(
        _ description: String, _ steps: @escaping @Sendable (_ isDarwin: Bool) -> [Step]
    ) -> FileSystemCheck {
        holds(description) { tree in
            try tree.create("d/x")
            try tree.create("d/s/y")
            try tree.makeLink("d/out", to: tree("f"))
            try tree.makeLink("d/up", to: "../f")
            try tree.makeLink("d/in", to: "s/y")
            try tree.makeLink("d/dirlink", to: "s")
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                for step in steps(tree.isDarwin) {
                    let open = {
                        try tree.fileSystem.close(
                            try tree.fileSystem.open(
                                step.path, at: directory, .readOnly, options: [], permissions: [],
                                resolution: step.resolution))
                    }
                    if let errno = step.errno {
                        try tree.expectErrno(errno, "open(\(step.path), resolution: \(step.resolution))", open)
                    } else {
                        try open()
                    }
                }
            }
        }
    }
}

extension ConformanceChecks {
    /// The maximum size of a file, which the subject names.
    public static let fileSystemSizeLimit: [ConformanceCheck<FileSystemUnderTest>] = sizeLimit.map {
        $0.needing(.fileSizeLimit)
    }

    private static let sizeLimit: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a file has the maximum size at most") { tree in
            guard let limit = tree.subject.maximumFileSizeInBytes, limit < .max else {
                throw ConformanceViolation("maximumFileSizeInBytes of the subject: expected one below \(Int64.max)")
            }
            let before = try tree.snapshot()
            try tree.opening(tree("f"), .readWrite) { file in
                let calls: [(call: String, body: () throws -> Void)] = [
                    (
                        "truncate(f, to: \(limit) + 1)",
                        { try tree.fileSystem.truncate(.path(tree("f")), to: limit + 1) }
                    ),
                    ("truncate of a descriptor", { try tree.fileSystem.truncate(.descriptor(file), to: limit + 1) }),
                    ("write(f, at: \(limit))", { _ = try tree.write(file, "x", at: limit) }),
                ]
                for (call, body) in calls { try tree.expectErrno(.fileTooLarge, call, body) }
                if !tree.isDarwin {
                    try tree.expectErrno(.fileTooLarge, "allocate(f, at: \(limit) - 1, length: 2)") {
                        try tree.fileSystem.allocate(file, at: limit - 1, length: 2)
                    }
                }
                try expectEqual(try tree.snapshot(), before, "the tree after the refused calls")
                try tree.fileSystem.truncate(.descriptor(file), to: limit)
                try expectEqual(try tree.status("f").sizeInBytes, limit, "the size after truncate(f, to: \(limit))")
                guard !tree.isDarwin else { return }
                try tree.fileSystem.allocate(file, at: limit - 1, length: 1)
                try expectEqual(
                    try tree.write(file, "xy", at: limit - 1), 1, "bytes written by write(f, 2 bytes, at: \(limit) - 1)"
                )
                try expectEqual(try tree.read(file, 2, at: limit - 1), "x", "the last byte of f")
                try expectEqual(
                    try tree.fileSystem.seek(file, to: limit, from: .start), limit, "seek(f, to: \(limit))")
                try tree.expectErrno(.invalidArgument, "seek(f, to: \(limit) + 1)") {
                    _ = try tree.fileSystem.seek(file, to: limit + 1, from: .start)
                }
            }
        }
    ]
}
