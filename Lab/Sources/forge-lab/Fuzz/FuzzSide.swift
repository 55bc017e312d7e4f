import ForgeFileSystem
import SystemPackage

/// One of the two compared file systems, with the operations outside `POSIXFileSystem`.
protocol FuzzSide {
    associatedtype FileSystem: POSIXFileSystem

    /// The file system under the current identity.
    var fileSystem: FileSystem { get }

    /// Resets to an empty root directory, as the first user and in the root directory.
    mutating func reset() throws

    /// Continues as another process, in the root directory.
    mutating func become(_ identity: FuzzIdentity) throws

    /// Changes the working directory (`chdir(2)`).
    func enter(_ path: POSIXPath) throws(FileSystemError)

    /// Calls `body` with the open root directory, as the superuser where there is one.
    func observing<Result>(_ body: (FileSystem, Descriptor) throws -> Result) throws -> Result
}

/// The side in memory.
struct MemorySide: FuzzSide {
    /// Owner of the root directory, and the first identity.
    let identity: FuzzIdentity
    /// Whether the tree is observed with all privileges.
    let observesAsSuperuser: Bool
    private var superuser: InMemoryFileSystem
    private(set) var fileSystem: InMemoryFileSystem
    private var home: Descriptor

    init(identity: FuzzIdentity, observesAsSuperuser: Bool) throws {
        self.identity = identity
        self.observesAsSuperuser = observesAsSuperuser
        (superuser, fileSystem, home) = try Self.make(identity, observesAsSuperuser)
    }

    private static func make(
        _ identity: FuzzIdentity, _ observesAsSuperuser: Bool
    ) throws -> (InMemoryFileSystem, InMemoryFileSystem, Descriptor) {
        let superuser = InMemoryFileSystem()
        try superuser.setOwner(identity.user, group: identity.group, of: .path("/"))
        let fileSystem = process(of: superuser, identity)
        let observer = observesAsSuperuser ? superuser : fileSystem
        return (superuser, fileSystem, try observer.open("/", .readOnly, options: [.directory]))
    }

    private static func process(of tree: InMemoryFileSystem, _ identity: FuzzIdentity) -> InMemoryFileSystem {
        tree.process(user: identity.user, group: identity.group, groups: identity.groups, umask: identity.umask)
    }

    mutating func reset() throws {
        (superuser, fileSystem, home) = try Self.make(identity, observesAsSuperuser)
    }

    mutating func become(_ identity: FuzzIdentity) throws {
        fileSystem = Self.process(of: superuser, identity)
    }

    func enter(_ path: POSIXPath) throws(FileSystemError) {
        try fileSystem.changeDirectory(path)
    }

    func observing<Result>(_ body: (InMemoryFileSystem, Descriptor) throws -> Result) throws -> Result {
        try body(observesAsSuperuser ? superuser : fileSystem, home)
    }
}
