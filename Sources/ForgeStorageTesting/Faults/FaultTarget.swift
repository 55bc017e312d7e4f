import ForgeFileSystem

/// The files that a fault affects.
public enum FaultTarget: Hashable, Sendable {
    /// Every file, and calls without a file.
    case anything

    /// Calls with a matching path, or with a descriptor opened by one; for a rename or link, either path. See
    /// ``FaultingFileSystem/path(of:)`` for the form of paths.
    case path(PathGlob)

    /// The file with this inode number, by any path or descriptor.
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
    /// Creates a target from a path pattern (``PathGlob``).
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

/// The properties of a call that rules match.
struct FaultCall: Sendable {
    var operation: FileSystemOperation
    var paths: [POSIXPath]
    var inode: UInt64?
    /// The number of bytes that the call would store.
    var storedByteCount = 0
    /// The number of bytes that the call would read.
    var readByteCount = 0
    /// The number of bytes that the call would transfer.
    var byteCount: Int { max(storedByteCount, readByteCount) }
    /// Whether the call would add a file, a directory or a name.
    var createsName = false
    /// Whether a read-only file system would reject the call.
    var mutates: Bool
    var thread: String?
}
