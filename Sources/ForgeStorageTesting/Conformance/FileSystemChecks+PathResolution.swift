import ForgeFileSystem
import SystemPackage

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
