import ForgeFileSystem

/// Which files a fault is for.
public enum FaultTarget: Hashable, Sendable {
    /// Every file, and calls that concern none.
    case anything

    /// What a call names by a path that matches, or has open as a descriptor that was opened by such a path; of a rename
    /// or a link, either path. See ``FaultingFileSystem/path(of:)`` for how paths are told.
    case path(PathGlob)

    /// The file with this number (`FileStatus.inode`), whatever path or descriptor leads to it.
    case inode(UInt64)

    func matches(_ call: FaultCall) -> Bool {
        switch self {
        case .anything: true
        case .path(let glob): call.paths.contains { glob.matches($0) }
        case .inode(let inode): call.inode == inode
        }
    }
}

extension FaultTarget: ExpressibleByStringLiteral {
    /// The files whose paths match a pattern (``PathGlob``).
    public init(stringLiteral value: String) {
        self = .path(PathGlob(value))
    }
}

extension FaultTarget: CustomStringConvertible {
    public var description: String {
        switch self {
        case .anything: "anything"
        case .path(let glob): glob.description
        case .inode(let inode): "inode \(inode)"
        }
    }
}

/// A call as the rules of a plan see it.
struct FaultCall: Sendable {
    var operation: FileSystemOperation
    var paths: [POSIXPath]
    var inode: UInt64?
    /// How many bytes the call would store.
    var storedByteCount = 0
    /// Whether the call would add a file, a directory or a name.
    var createsName = false
    /// Whether a file system that can only be read would refuse it.
    var mutates: Bool
    var thread: String?
}
