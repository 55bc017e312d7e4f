import ForgeFileSystem
import SystemPackage

/// Calls on attributes.
extension CallSession {
    /// Makes the call if it is one of these; returns whether it printed its result.
    mutating func callAttributes(
        _ name: String, _ arguments: CallArguments, _ fileSystem: InMemoryFileSystem
    ) throws -> Bool? {
        switch name {
        case "chmod", "fchmod", "lchmod", "fchmodat":
            let (file, next) = try reference(name, arguments, flags: 3)
            try fileSystem.setPermissions(arguments.permissions(next), of: file)
        case "chown", "fchown", "lchown", "fchownat":
            let (file, next) = try reference(name, arguments, flags: 4)
            try fileSystem.setOwner(arguments.user(next), group: arguments.group(next + 1), of: file)
        case "stat", "fstat", "lstat", "fstatat":
            let (file, next) = try reference(name, arguments, flags: 2)
            let status = try fileSystem.nodeStatus(of: file)
            let fields = try arguments.text(name == "fstatat" ? 3 : next)
            print(fields.split(separator: ",").map { status.field($0) }.joined(separator: ","))
            return true
        case "access":
            let file = FileReference.path(try arguments.path(0))
            try fileSystem.checkAccess(UInt8(truncatingIfNeeded: arguments.number(1) & 7), to: file)
        case "pathconf", "fpathconf":
            let file: FileReference =
                name == "pathconf" ? .path(try arguments.path(0)) : .descriptor(arguments.descriptor(0))
            guard let limit = Self.limits[try arguments.text(1)] else {
                throw Misuse(description: "unknown name \(try arguments.text(1))")
            }
            _ = try fileSystem.status(of: file)
            print(limit)
            return true
        case "utimensat":
            try setTimes(arguments, fileSystem)
        default: return nil
        }
        return false
    }

    /// The limits that `pathconf(3)` reports on Linux.
    private static let limits = [
        "_PC_LINK_MAX": "65000", "_PC_NAME_MAX": "255", "_PC_PATH_MAX": "4096", "_PC_SYMLINK_MAX": "unlimited",
    ]

    /// The file that a call operates on, according to the call's name, and the index of the next argument.
    private func reference(
        _ name: String, _ arguments: CallArguments, flags: Int
    ) throws -> (FileReference, Int) {
        if name.hasSuffix("at"), name.count > "lstat".count {
            let noFollow = try Self.flag("AT_SYMLINK_NOFOLLOW", in: arguments.text(flags))
            let path = try arguments.path(1)
            return (.path(path, at: arguments.descriptor(0), followsSymbolicLinks: !noFollow), 2)
        }
        switch name.first {
        case "f": return (.descriptor(arguments.descriptor(0)), 1)
        case "l": return (.path(try arguments.path(0), followsSymbolicLinks: false), 1)
        default: return (.path(try arguments.path(0)), 1)
        }
    }

    private func setTimes(_ arguments: CallArguments, _ fileSystem: InMemoryFileSystem) throws {
        let follows = try arguments.text(6) != "AT_SYMLINK_NOFOLLOW"
        let file = FileReference.path(
            try arguments.path(1), at: arguments.descriptor(0), followsSymbolicLinks: follows)
        try fileSystem.setTimes(
            accessed: Self.time(arguments.number(2), arguments.text(3)),
            modified: Self.time(arguments.number(4), arguments.text(5)), of: file)
    }

    private static func time(_ seconds: Int64, _ nanoseconds: String) -> InMemoryFileSystem.TimeChange {
        switch nanoseconds {
        case "UTIME_NOW": .now
        case "UTIME_OMIT": .unchanged
        default: .to(FileTime(seconds: seconds, nanoseconds: Int32(nanoseconds) ?? -1))
        }
    }
}

extension InMemoryFileSystem.NodeStatus {
    /// One field of a status as the helper prints it.
    fileprivate func field(_ name: Substring) -> String {
        switch name {
        case "mode": "0" + String(status.permissions.rawValue, radix: 8)
        case "inode": String(status.inode)
        case "nlink": String(status.linkCount)
        case "uid": String(status.owner.rawValue)
        case "gid": String(status.group.rawValue)
        case "size": String(status.sizeInBytes)
        case "blocks": String(status.allocatedSizeInBytes / 512)
        case "atime": String(status.accessed.seconds)
        case "atime_ns": String(status.accessed.nanoseconds)
        case "mtime": String(status.modified.seconds)
        case "mtime_ns": String(status.modified.nanoseconds)
        case "ctime": String(status.changed.seconds)
        case "ctime_ns": String(status.changed.nanoseconds)
        case "major": String(DeviceNumber(encoded: deviceNumber).major)
        case "minor": String(DeviceNumber(encoded: deviceNumber).minor)
        case "type": typeName
        default: "unknown"
        }
    }

    private var typeName: String {
        switch status.type {
        case .fifo: "fifo"
        case .characterSpecial: "char"
        case .directory: "dir"
        case .blockSpecial: "block"
        case .regular: "regular"
        case .symbolicLink: "symlink"
        case .socket: "socket"
        default: "unknown"
        }
    }
}
