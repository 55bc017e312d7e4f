#if os(Linux)
import Dispatch
import ForgeFileSystem
import Glibc
import SystemPackage

/// The system's file system as another user: each call assumes that user's identity for its thread (`setfsuid(2)`),
/// which drops the privileges on files. Only root can do that.
struct ImpersonatingFileSystem: POSIXFileSystem {
    let user: UserID
    let group: GroupID
    private let system = SystemFileSystem()
    private let setUser: SetIdentity
    private let setGroup: SetIdentity

    private typealias SetIdentity = @convention(c) @Sendable (UInt32) -> CInt

    /// Whether this process may change its user.
    static var isPossible: Bool { geteuid() == 0 && dlsym(nil, "setfsuid") != nil }

    init?(user: UserID, group: GroupID) {
        // Glibc's module leaves sys/fsuid.h out.
        guard let setUser = dlsym(nil, "setfsuid"), let setGroup = dlsym(nil, "setfsgid") else { return nil }
        self.user = user
        self.group = group
        self.setUser = unsafeBitCast(setUser, to: SetIdentity.self)
        self.setGroup = unsafeBitCast(setGroup, to: SetIdentity.self)
    }

    private func acting<Result>(
        _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        // The group first: without the privileges of root it can't be changed.
        let ownGroup = setGroup(group.rawValue)
        let ownUser = setUser(user.rawValue)
        defer {
            _ = setUser(UInt32(bitPattern: ownUser))
            _ = setGroup(UInt32(bitPattern: ownGroup))
        }
        return try body()
    }
}

extension ImpersonatingFileSystem {
    var effectiveUser: UserID { user }

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try acting { () throws(FileSystemError) in
            try system.open(
                path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
        }
    }

    func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.close(descriptor) }
    }

    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try acting { () throws(FileSystemError) in try system.duplicate(descriptor) }
    }

    func read(_ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?)
        throws(FileSystemError) -> Int
    {
        try acting { () throws(FileSystemError) in try system.read(descriptor, into: buffer, at: offset) }
    }

    func write(_ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?) throws(FileSystemError)
        -> Int
    {
        try acting { () throws(FileSystemError) in try system.write(descriptor, from: buffer, at: offset) }
    }

    func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        try acting { () throws(FileSystemError) in
            try system.copyRange(from: source, at: sourceOffset, to: target, at: targetOffset, count: count)
        }
    }

    func seek(_ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin)
        throws(FileSystemError) -> Int64
    {
        try acting { () throws(FileSystemError) in try system.seek(descriptor, to: offset, from: origin) }
    }

    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.truncate(file, to: sizeInBytes) }
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        try acting { () throws(FileSystemError) in try system.map(descriptor, at: offset, count: count) }
    }

    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.allocate(descriptor, at: offset, length: length) }
    }

    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.synchronize(descriptor, level) }
    }

    func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try acting { () throws(FileSystemError) in try system.status(of: file) }
    }

    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.setPermissions(permissions, of: file) }
    }

    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.setOwner(owner, group: group, of: file) }
    }

    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.setTimes(accessed: accessed, modified: modified, of: file)
        }
    }

    func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try acting { () throws(FileSystemError) in try system.extendedAttributeNames(of: descriptor) }
    }

    func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try acting { () throws(FileSystemError) in try system.extendedAttribute(name, of: descriptor) }
    }

    func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.setExtendedAttribute(name, to: value, of: descriptor) }
    }

    func createDirectory(_ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions)
        throws(FileSystemError)
    {
        try acting { () throws(FileSystemError) in
            try system.createDirectory(path, at: directory, permissions: permissions)
        }
    }

    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in
            try system.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
        }
    }

    func createSymbolicLink(_ path: POSIXPath, at directory: Descriptor, to target: POSIXPath) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.createSymbolicLink(path, at: directory, to: target) }
    }

    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try acting { () throws(FileSystemError) in try system.readSymbolicLink(path, at: directory) }
    }

    func link(_ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor)
        throws(FileSystemError)
    {
        try acting { () throws(FileSystemError) in try system.link(path, at: directory, to: newPath, at: newDirectory) }
    }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in
            try system.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        }
    }

    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.unlink(path, at: directory) }
    }

    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.removeDirectory(path, at: directory) }
    }

    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try acting { () throws(FileSystemError) in try system.entries(of: descriptor) }
    }

    func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        try acting { () throws(FileSystemError) in
            try system.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
        }
    }

    func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        try acting { () throws(FileSystemError) in try system.makeSignal(of: descriptor) }
    }

    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try acting { () throws(FileSystemError) in try system.lock(descriptor, mode, waiting: waiting) }
    }
}
#endif
