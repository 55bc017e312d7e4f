import ForgeFileSystem
import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

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

/// The side on disk: the directory that confines this process, by `chroot(2)` or by the form of its paths.
struct DiskSide: FuzzSide {
    let fileSystem = SystemFileSystem()
    /// Whether the process is confined by `chroot(2)`.
    let isLockedIn: Bool
    /// The identity of the first calls.
    let identity: FuzzIdentity
    /// The root directory, which stays open.
    private let home: Descriptor
    private var current: FuzzIdentity

    /// Confines the process to an empty directory permanently, if requested and permitted.
    ///
    /// Without confinement, the calls must avoid `..` and absolute paths.
    init(directory: String, locksIn: Bool = true) throws {
        umask(FuzzIdentity.superuser.umask.rawValue)
        isLockedIn = locksIn && geteuid() == 0
        if isLockedIn {
            try Self.check(chroot(directory), "chroot")
            try Self.check(chdir("/"), "chdir")
        } else {
            try Self.check(chdir(directory), "chdir")
        }
        home = try fileSystem.open(".", .readOnly, options: [.directory])
        identity =
            isLockedIn
            ? .superuser
            : FuzzIdentity(
                user: UserID(rawValue: geteuid()), group: GroupID(rawValue: getegid()),
                groups: Self.supplementaryGroups(), umask: FuzzIdentity.superuser.umask)
        current = identity
        if isLockedIn { try act(as: identity, goingTo: home) }
    }

    mutating func reset() throws {
        let root = FileReference.descriptor(home)
        if isLockedIn {
            try become(identity)
        } else {
            try fileSystem.setPermissions(.ownerReadWriteExecute, of: root)
            try Self.check(fchdir(home.rawValue), "fchdir")
        }
        try empty(home)
        // A call may have changed the attributes of the root directory itself.
        try fileSystem.setOwner(isLockedIn ? identity.user : nil, group: identity.group, of: root)
        try fileSystem.setPermissions(FilePermissions(rawValue: 0o755), of: root)
        let past = FileTime(seconds: 1_500_000_000)
        try fileSystem.setTimes(accessed: past, modified: past, of: root)
    }

    mutating func become(_ identity: FuzzIdentity) throws {
        try act(as: identity, goingTo: home)
        current = identity
    }

    func enter(_ path: POSIXPath) throws(FileSystemError) {
        guard !path.containsNUL else { throw FileSystemError(.resolve, .invalidArgument, path: path) }
        let result = (path.bytes + [0]).withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { name in name.baseAddress.map { chdir($0) } ?? -1 }
        }
        guard result == 0 else { throw FileSystemError(.resolve, Errno(rawValue: errno), path: path) }
    }

    func observing<Result>(_ body: (SystemFileSystem, Descriptor) throws -> Result) throws -> Result {
        guard isLockedIn, current != identity else { return try body(fileSystem, home) }
        try act(as: identity)
        let result = try body(fileSystem, home)
        try act(as: current)
        return result
    }

    /// Removes all entries of a directory, regardless of their permissions.
    private func empty(_ directory: Descriptor) throws(FileSystemError) {
        if !isLockedIn { try fileSystem.setPermissions(.ownerReadWriteExecute, of: .descriptor(directory)) }
        for entry in try fileSystem.entries(of: directory) {
            guard entry.type == .directory else {
                try fileSystem.unlink(entry.name, at: directory)
                continue
            }
            if !isLockedIn {
                try fileSystem.setPermissions(.ownerReadWriteExecute, of: .path(entry.name, at: directory))
            }
            try fileSystem.withDirectory(entry.name, at: directory) { (child) throws(FileSystemError) in
                try empty(child)
            }
            try fileSystem.removeDirectory(entry.name, at: directory)
        }
    }

    /// Switches the identity of the whole process, through the superuser, which can enter any directory.
    private func act(as identity: FuzzIdentity, goingTo directory: Descriptor? = nil) throws {
        try Self.check(seteuid(0), "seteuid")
        if let directory { try Self.check(fchdir(directory.rawValue), "fchdir") }
        let groups = identity.groups.map(\.rawValue)
        #if canImport(Darwin)
        try Self.check(setgroups(CInt(groups.count), groups), "setgroups")
        #else
        try Self.check(setgroups(groups.count, groups), "setgroups")
        #endif
        try Self.check(setegid(identity.group.rawValue), "setegid")
        umask(identity.umask.rawValue)
        try Self.check(seteuid(identity.user.rawValue), "seteuid")
    }

    private static func supplementaryGroups() -> [GroupID] {
        var groups = [gid_t](repeating: 0, count: 1024)
        let count = getgroups(CInt(groups.count), &groups)
        return groups.prefix(max(0, Int(count))).map { GroupID(rawValue: $0) }
    }

    private static func check(_ result: CInt, _ call: String) throws {
        guard result == 0 else { throw FuzzFailure("\(call): \(Errno(rawValue: errno))") }
    }
}

/// A failure outside the comparison.
struct FuzzFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
