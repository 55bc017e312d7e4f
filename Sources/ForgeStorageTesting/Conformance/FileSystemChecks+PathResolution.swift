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
            ]),
        refuses("an absolute path is refused by `.beneath`", .improperLink) { tree in
            try tree.opening(tree("d"), .readOnly) { directory in
                _ = try tree.fileSystem.open(
                    tree("f"), at: directory, .readOnly, options: [], permissions: [], resolution: .beneath)
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
        holds(description) { tree in
            try tree.create("d/x")
            try tree.create("d/s/y")
            try tree.makeLink("d/out", to: tree("f"))
            try tree.makeLink("d/up", to: "../f")
            try tree.makeLink("d/in", to: "s/y")
            try tree.makeLink("d/dirlink", to: "s")
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                for step in steps {
                    let open = {
                        try tree.fileSystem.close(
                            try tree.fileSystem.open(
                                step.path, at: directory, .readOnly, options: [], permissions: [],
                                resolution: step.resolution))
                    }
                    if let errno = step.errno {
                        try tree.expectErrno(errno, "\(step.path)", open)
                    } else {
                        try open()
                    }
                }
            }
        }
    }
}
