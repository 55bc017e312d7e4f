import ForgeFileSystem
import SystemPackage

/// The outcome of a call, reduced to what two file systems must agree on.
enum FuzzOutcome: Equatable, Sendable {
    case done
    case failed(Errno)
    case number(Int64)
    case content(count: Int, hash: UInt64)
    case status(FuzzStatus)
    case path(POSIXPath)
    case names([String])
    /// The call was not made: its result is file-system-specific.
    case skipped
}

/// The fields of a status that depend on the calls alone: no inode numbers, no clock times.
struct FuzzStatus: Equatable, Sendable {
    var type: FileType
    var permissions: FilePermissions
    /// Nil for a directory, whose size is file-system-specific.
    var sizeInBytes: Int64?
    var linkCount: UInt64
    var owner: UserID
    var group: GroupID
    /// Times set by a call; nil once the clock has set them since.
    var accessed: FileTime?
    var modified: FileTime?

    init(_ status: FileStatus, comparesAccess: Bool) {
        type = status.type
        permissions = status.permissions
        sizeInBytes = status.type == .directory ? nil : status.sizeInBytes
        linkCount = status.linkCount
        owner = status.owner
        group = status.group
        accessed = comparesAccess ? Self.setByCall(status.accessed) : nil
        modified = Self.setByCall(status.modified)
    }

    /// The fuzzer sets times that no clock shows: before 1998 and after 2093.
    private static func setByCall(_ time: FileTime) -> FileTime? {
        (900_000_000..<3_900_000_000).contains(time.seconds) ? nil : time
    }
}

extension FuzzOutcome: CustomStringConvertible {
    var description: String {
        switch self {
        case .done: "done"
        case .failed(let errno): errno.name
        case .number(let number): "\(number)"
        case .content(let count, let hash): "\(count) bytes with hash \(String(hash, radix: 16))"
        case .status(let status): "\(status)"
        case .path(let path): "\"\(path)\""
        case .names(let names): "\(names)"
        case .skipped: "skipped"
        }
    }
}

extension FuzzStatus: CustomStringConvertible {
    var description: String {
        func text(_ time: FileTime?) -> String { time.map { "\($0.seconds).\($0.nanoseconds)" } ?? "recent" }
        return "type \(String(type.rawValue, radix: 8)) mode \(String(permissions.rawValue, radix: 8)) "
            + "size \(sizeInBytes.map(String.init) ?? "-") links \(linkCount) owner \(owner.rawValue):\(group.rawValue) "
            + "accessed \(text(accessed)) modified \(text(modified))"
    }
}
