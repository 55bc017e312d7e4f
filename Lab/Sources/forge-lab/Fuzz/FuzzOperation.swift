import ForgeFileSystem
import SystemPackage

/// One call with all its arguments. Slots name descriptors, so that a call keeps its meaning whatever earlier calls
/// returned, and when calls are left out of the sequence.
enum FuzzOperation: Equatable, Sendable {
    /// A path and the slot of the directory that it starts from, nil for the working directory.
    struct Place: Equatable, Sendable {
        var path: POSIXPath
        var base: Int?
    }

    enum Target: Equatable, Sendable {
        case slot(Int)
        case place(Place, followsLinks: Bool)
    }

    /// Opens a file into the slot and closes the slot's old descriptor if that succeeds.
    case open(
        slot: Int, Place, FileDescriptor.AccessMode, FileDescriptor.OpenOptions, FilePermissions, PathResolution)
    case close(Int)
    case duplicate(Int, into: Int)
    case read(Int, count: Int, at: Int64?)
    case write(Int, count: Int, byte: UInt8, at: Int64?)
    case seek(Int, to: Int64, from: FileDescriptor.SeekOrigin)
    case truncate(Target, to: Int64)
    case allocate(Int, at: Int64, length: Int64)
    case synchronize(Int, SyncLevel)
    /// Maps a part of an open file into a slot, replacing the slot's mapping.
    case map(Int, at: Int64, count: Int, into: Int)
    /// Stores bytes into a mapping, as far as the file reaches.
    case store(Int, count: Int, byte: UInt8, at: Int)
    /// Loads bytes from a mapping, as far as the file reaches.
    case load(Int, count: Int, at: Int)
    case writeBack(Int)
    case unmap(Int)
    case status(Target)
    case setPermissions(Target, FilePermissions)
    case setOwner(Target, UserID?, GroupID?)
    case setTimes(Target, accessed: FileTime?, modified: FileTime?)
    case createDirectory(Place, FilePermissions)
    case createNode(Place, FileType, FilePermissions)
    case createSymbolicLink(Place, to: POSIXPath)
    case readSymbolicLink(Place)
    case link(Place, to: Place)
    case rename(Place, to: Place, RenameMode)
    case unlink(Place)
    case removeDirectory(Place)
    case list(Int)
    case lock(Int, LockMode)
    /// Changes the working directory.
    case enter(POSIXPath)
    /// Closes all slots and continues as another process with another user.
    case become(FuzzIdentity)

    static let slotCount = 8
    static let mappingCount = 3

    /// The name of the call, without its arguments.
    var name: String {
        switch self {
        case .open: "open"
        case .close: "close"
        case .duplicate: "duplicate"
        case .read: "read"
        case .write: "write"
        case .seek: "seek"
        case .truncate: "truncate"
        case .allocate: "allocate"
        case .synchronize: "synchronize"
        case .map: "map"
        case .store: "store"
        case .load: "load"
        case .writeBack: "writeBack"
        case .unmap: "unmap"
        case .status: "status"
        case .setPermissions: "setPermissions"
        case .setOwner: "setOwner"
        case .setTimes: "setTimes"
        case .createDirectory: "createDirectory"
        case .createNode: "createNode"
        case .createSymbolicLink: "createSymbolicLink"
        case .readSymbolicLink: "readSymbolicLink"
        case .link: "link"
        case .rename: "rename"
        case .unlink: "unlink"
        case .removeDirectory: "removeDirectory"
        case .list: "list"
        case .lock: "lock"
        case .enter: "enter"
        case .become: "become"
        }
    }
}

/// The identity under which calls are made.
struct FuzzIdentity: Equatable, Sendable {
    var user: UserID
    var group: GroupID
    var groups: [GroupID]
    var umask: FilePermissions

    static let superuser = FuzzIdentity(
        user: UserID(0), group: GroupID(0), groups: [], umask: FilePermissions(rawValue: 0o022))

    /// The identities that a fuzzer with privileges uses.
    static let all = [
        superuser,
        FuzzIdentity(
            user: UserID(1234), group: GroupID(2345), groups: [GroupID(3456)], umask: FilePermissions(rawValue: 0o002)),
        FuzzIdentity(user: UserID(1235), group: GroupID(3456), groups: [], umask: FilePermissions(rawValue: 0o077)),
    ]
}
