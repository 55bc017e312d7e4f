import ForgeFileSystem
import SystemPackage

/// One of the two file systems that get the same calls, with what lies outside of `POSIXFileSystem`.
protocol FuzzSide {
    associatedtype FileSystem: POSIXFileSystem

    /// As whom the calls are made.
    var fileSystem: FileSystem { get }

    /// Starts over with an empty root directory, as the first user and in the root directory.
    mutating func reset() throws

    /// Goes on as another process, in the root directory.
    mutating func become(_ identity: FuzzIdentity) throws

    /// Changes the working directory (`chdir(2)`).
    func enter(_ path: POSIXPath) throws(FileSystemError)

    /// Calls `body` as somebody who may see everything, if there is such a user, with the open root directory.
    func observing<Result>(_ body: (FileSystem, Descriptor) throws -> Result) throws -> Result
}

/// The side in memory.
struct MemorySide: FuzzSide {
    /// Who owns the root directory and acts first.
    let identity: FuzzIdentity
    /// Whether the tree is looked at with all privileges.
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
