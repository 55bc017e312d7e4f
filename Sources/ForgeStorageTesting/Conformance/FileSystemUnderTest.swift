public import ForgeFileSystem
public import SystemPackage

/// A file system, a working directory in it, and its expected properties.
public struct FileSystemUnderTest: Sendable {
    /// The file system, as a user who passes all permission checks; other users fail some checks.
    public var fileSystem: any POSIXFileSystem

    /// The absolute path, without symbolic links, of an empty directory for the check.
    public var root: POSIXPath

    /// The system whose error numbers and limits are expected.
    public var profile = InMemoryFileSystem.Profile.linux

    /// Whether `A` and `a` are the same name.
    public var isCaseInsensitive = false

    /// Whether canonically equivalent names are the same name.
    public var isNormalisationInsensitive = false

    /// Whether a directory's link count includes its subdirectories; on btrfs it is always 1.
    public var countsSubdirectories = true

    /// The umask of the process.
    public var umask: FilePermissions = [.groupWrite, .otherWrite]

    /// The file system as another, unprivileged user, for the permission checks.
    public var asUser: (@Sendable (UserID, GroupID) -> any POSIXFileSystem)?

    /// An empty directory on another device, for the device checks.
    public var otherDevice: POSIXPath?

    /// Starts another process of the same user, for the checks of processes; its second part ends it as `kill -9` does.
    public var startProcess: (@Sendable () -> (fileSystem: any POSIXFileSystem, end: @Sendable () -> Void))?

    /// The maximum number of watched directories, at least 3, for the checks of the limits of watches.
    public var maximumWatchCount: Int?

    /// The maximum number of events that a watch keeps, for the checks of the limits of watches.
    public var maximumQueuedEventCount: Int?

    /// The maximum number of descriptors of the process, all of them free, for the check of that limit; nil if it is
    /// unknown.
    public var maximumOpenFileCount: Int?

    /// The maximum size of a file, for the check of that limit; nil if it is unknown.
    public var maximumFileSizeInBytes: Int64?

    /// Makes the device read-only, for the read-only checks.
    public var makeReadOnly: (@Sendable () throws -> Void)?

    /// Creates a file system under test with the properties of Linux.
    public init(_ fileSystem: any POSIXFileSystem, root: POSIXPath) {
        self.fileSystem = fileSystem
        self.root = root
    }
}

/// The tree that most checks start from: a file `f`; a directory `d` that contains `d/s`; empty directories `e` and
/// `empty`; links `sf` to `f`, `sd` to `d`, `dang` to a missing file, and `l1` and `l2` to each other.
struct FileSystemFixture {
    let subject: FileSystemUnderTest
    /// The file system as the user of the check.
    private(set) var fileSystem: any POSIXFileSystem
    /// The subject's own file system, whose user passes every permission check.
    var ownersFileSystem: any POSIXFileSystem { subject.fileSystem }
    var isDarwin: Bool { subject.profile == .darwin }

    init(_ subject: FileSystemUnderTest) throws {
        self.subject = subject
        fileSystem = subject.fileSystem
        try create("f", "content")
        for directory in ["d", "d/s", "e", "empty"] { try makeDirectory(directory) }
        try makeLink("sf", to: "f")
        try makeLink("sd", to: "d")
        try makeLink("dang", to: "nowhere")
        try makeLink("l1", to: "l2")
        try makeLink("l2", to: "l1")
    }

    /// The same tree as another user.
    func seen(through fileSystem: any POSIXFileSystem) -> FileSystemFixture {
        var fixture = self
        fixture.fileSystem = fileSystem
        return fixture
    }

    /// The path of a name below the root, without normalisation.
    func callAsFunction(_ name: String) -> POSIXPath { path(POSIXPath(name)) }

    func path(_ name: POSIXPath) -> POSIXPath {
        POSIXPath(Array(subject.root.bytes) + [UInt8(ascii: "/")] + Array(name.bytes))
    }

    func makeDirectory(_ name: String) throws {
        try fileSystem.createDirectory(self(name), permissions: FilePermissions(rawValue: 0o755))
    }

    func makeLink(_ name: String, to target: POSIXPath) throws {
        try fileSystem.createSymbolicLink(self(name), to: target)
    }

    func create(_ name: String, _ content: String = "") throws {
        try create(path: self(name), content)
    }

    func create(path: POSIXPath, _ content: String = "") throws {
        try opening(path, .writeOnly, [.create, .truncate]) { try write($0, content) }
    }

    @discardableResult
    func opening<Result>(
        _ path: POSIXPath, _ mode: FileDescriptor.AccessMode, _ options: FileDescriptor.OpenOptions = [],
        permissions: FilePermissions = FilePermissions(rawValue: 0o644), _ body: (Descriptor) throws -> Result
    ) throws -> Result {
        let descriptor = try fileSystem.open(path, mode, options: options, permissions: permissions)
        do {
            let result = try body(descriptor)
            try fileSystem.close(descriptor)
            return result
        } catch {
            // The error of the body takes precedence.
            do { try fileSystem.close(descriptor) } catch _ {}
            throw error
        }
    }

    /// Opens a file and closes it.
    func open(
        _ name: String, _ mode: FileDescriptor.AccessMode = .readOnly, _ options: FileDescriptor.OpenOptions = []
    ) throws {
        try opening(self(name), mode, options) { _ in }
    }

    @discardableResult
    func write(_ descriptor: Descriptor, _ content: String, at offset: Int64? = nil) throws -> Int {
        let bytes = Array(content.utf8)
        return try fileSystem.write(descriptor, from: bytes.span, at: offset)
    }

    func read(_ descriptor: Descriptor, _ count: Int = 64, at offset: Int64? = nil) throws -> String {
        let bytes = try [UInt8](capacity: count) { (buffer) throws(FileSystemError) in
            _ = try fileSystem.read(descriptor, into: &buffer, at: offset)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    func content(_ name: String) throws -> String {
        String(decoding: try fileSystem.readFile(self(name)), as: UTF8.self)
    }

    func status(_ name: String, followsLinks: Bool = false) throws -> FileStatus {
        try fileSystem.status(self(name), followsSymbolicLinks: followsLinks)
    }

    func exists(_ name: String) throws -> Bool {
        do {
            _ = try status(name)
            return true
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// The names in a directory, in listing order.
    func list(_ name: String = ".") throws -> [String] {
        try fileSystem.entries(ofDirectory: self(name)).map { String($0.name) }
    }

    /// A line for each entry below the root, to verify that a refused operation changed nothing.
    func snapshot() throws -> [String] {
        let tree = seen(through: ownersFileSystem)
        var lines: [String] = []
        var pending = ["."]
        while let directory = pending.popLast() {
            for name in try tree.list(directory) {
                let path = directory + "/" + name
                let status = try tree.status(path)
                lines.append(
                    "\(path) \(status.type.rawValue) \(status.inode) \(status.sizeInBytes) \(status.linkCount) "
                        + "\(status.permissions.rawValue) \(status.modified) \(status.owner) \(status.group)")
                if status.type == .directory { pending.append(path) }
            }
        }
        return lines.sorted()
    }

    /// Expects a file-system error with one of these numbers.
    func expectErrno(
        _ accepted: [Errno], _ what: String, file: StaticString = #fileID, line: UInt = #line, _ body: () throws -> Void
    ) throws {
        do {
            try body()
        } catch let error as FileSystemError {
            guard accepted.contains(error.errno) else {
                let names = accepted.map(\.name).joined(separator: " or ")
                throw ConformanceViolation("\(what): expected \(names), got \(error)", file: file, line: line)
            }
            return
        }
        throw ConformanceViolation(
            "\(what): expected \(accepted[0].name), but nothing was thrown", file: file, line: line)
    }

    func expectErrno(
        _ accepted: Errno, _ what: String, file: StaticString = #fileID, line: UInt = #line, _ body: () throws -> Void
    ) throws {
        try expectErrno([accepted], what, file: file, line: line, body)
    }
}

typealias FileSystemCheck = ConformanceCheck<FileSystemUnderTest>

/// Creates a check that starts from the fixture.
func holds(_ description: String, _ body: @escaping @Sendable (FileSystemFixture) throws -> Void) -> FileSystemCheck {
    FileSystemCheck(description) { try body(FileSystemFixture($0)) }
}

/// Creates a check that an operation fails with an error number and changes nothing.
func refuses(
    _ description: String, _ errno: Errno, darwin: Errno? = nil, or other: Errno? = nil, file: StaticString = #fileID,
    line: UInt = #line, _ body: @escaping @Sendable (FileSystemFixture) throws -> Void
) -> FileSystemCheck {
    holds(description) { tree in
        let before = try tree.snapshot()
        let expected = tree.isDarwin ? darwin ?? errno : errno
        let log = OperationLog()
        let logged = tree.seen(through: FaultingFileSystem(tree.fileSystem, log: log))
        do {
            try tree.expectErrno([expected, other ?? expected], "the call", file: file, line: line) { try body(logged) }
            try expectEqual(try tree.snapshot(), before, "the tree after the failure", file: file, line: line)
        } catch let violation as ConformanceViolation {
            throw violation.adding("; the calls: " + log.text.split(separator: "\n").joined(separator: "; "))
        }
    }
}
