import CForgeFileSystem
public import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

// Memory safety: Each address goes to one system call, during which its owner keeps it: a path's array, the caller's
// buffer, or an array of this file. `calling` passes C strings that end with a NUL.

/// The file system of the operating system: one system call per call, with the kernel's error numbers unchanged.
///
/// It has no state: all values of this type are the same file system.
public struct SystemFileSystem: POSIXFileSystem {
    /// The file system of this process.
    public init() {}

    public var effectiveUser: UserID { UserID(sysEffectiveUser()) }

    public var reportsErrorsOfMappings: Bool { sysReportsErrorsOfMappings }

    public var preciseTime: FileTime? { sysPreciseTime() }
}

extension SystemFileSystem {
    /// Whether something is mounted at an entry of a directory, of the same device too; always false where the system
    /// cannot tell that.
    package func isMountPoint(_ name: POSIXPath, at directory: Descriptor) -> Bool {
        unsafe name.withCString { unsafe sysIsMountPoint(directory.rawValue, $0) }
    }
}

// MARK: Descriptors

extension SystemFileSystem {
    public func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        let flags = mode.rawValue | options.rawValue | FileDescriptor.OpenOptions.closeOnExec.rawValue
        return try unsafe calling(.open, path) { pointer in
            unsafe resolution.isEmpty
                ? sysOpen(sysDirectory(directory), pointer, flags, permissions.rawValue)
                : sysOpenRestricted(sysDirectory(directory), pointer, flags, permissions.rawValue, resolution)
        }.map(Descriptor.init(rawValue:))
    }

    public func close(_ descriptor: Descriptor) throws(FileSystemError) {
        // The descriptor is released even after EINTR on Linux and Darwin, so a retry could close another file's.
        do {
            try calling(.close) { sysClose(descriptor.rawValue) }
        } catch  where error.errno == .interrupted {
            return
        }
    }

    public func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try calling(.duplicate) { sysDuplicate(descriptor.rawValue) }.map(Descriptor.init(rawValue:))
    }

    public func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try sysEntries(descriptor.rawValue)
    }

    public func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try calling(.lock) { sysLock(descriptor.rawValue, mode, waiting) }
    }
}

// MARK: Content

extension SystemFileSystem {
    public func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try calling(.read) { unsafe sysRead(descriptor.rawValue, buffer, offset) }
    }

    public func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try calling(.write) { unsafe sysWrite(descriptor.rawValue, buffer, offset) }
    }

    public func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        try calling(.copyRange) {
            sysCopyRange(source.rawValue, sourceOffset, target.rawValue, targetOffset, count)
        }
    }

    public func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try calling(.seek) { sysSeek(descriptor.rawValue, offset, origin.rawValue) }
    }

    public func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        switch file {
        case .descriptor(let descriptor):
            try calling(.truncate) { sysTruncate(descriptor.rawValue, sizeInBytes) }
        case .path(let path, at: .workingDirectory, followsSymbolicLinks: true):
            try unsafe calling(.truncate, path) { unsafe sysTruncate($0, sizeInBytes) }
        case .path(let path, at: let directory, followsSymbolicLinks: let followsLinks):
            // There is no truncateat(2); this checks the size first, as truncate(2) does.
            guard sizeInBytes >= 0 else { throw FileSystemError(.truncate, .invalidArgument, path: path) }
            do throws(FileSystemError) {
                let descriptor = try openForTruncation(path, at: directory, followsLinks: followsLinks)
                try closing(descriptor) { () throws(FileSystemError) in
                    try truncate(.descriptor(descriptor), to: sizeInBytes)
                }
            } catch {
                throw FileSystemError(.truncate, error.errno, path: path)
            }
        }
    }

    /// Opens a file for writing; a file that is not regular is refused with `EINVAL`, as truncate(2) does.
    private func openForTruncation(
        _ path: POSIXPath, at directory: Descriptor, followsLinks: Bool
    ) throws(FileSystemError) -> Descriptor {
        do {
            let options: FileDescriptor.OpenOptions = followsLinks ? [.nonBlocking] : [.nonBlocking, .noFollow]
            return try open(path, at: directory, .writeOnly, options: options)
        } catch  where error.errno == .noSuchAddressOrDevice || error.errno == .permissionDenied {
            var failure = error
            do {
                let type = try status(path, at: directory, followsSymbolicLinks: followsLinks).type
                if type != .regular, type != .directory { failure.errno = .invalidArgument }
            } catch _ {}  // The first failure is the one to report.
            throw failure
        }
    }

    public func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        let number = sysAllocate(descriptor.rawValue, offset, length)
        if number != 0 { throw FileSystemError(.allocate, Errno(rawValue: number)) }
    }

    public func startWritingBack(_ descriptor: Descriptor) {
        sysStartWritingBack(descriptor.rawValue)
    }

    public func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try calling(.synchronize) { sysSynchronize(descriptor.rawValue, level) }
    }

    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        // Not every system refuses an unaligned offset; some start the mapping before it.
        guard count >= 0, offset % sysPageSize() == 0 else { throw FileSystemError(.map, .invalidArgument) }
        guard !sysMayLosePages(descriptor.rawValue) else { throw FileSystemError(.map, .operationNotSupportedByDevice) }
        guard let mapping = unsafe forge_map(descriptor.rawValue, offset, count) else {
            throw FileSystemError(.map, Errno(rawValue: errno))
        }
        return unsafe FileMapping(mapping, count: count)
    }

    /// Maps the first bytes of a file, at least one, privately; the file may be closed immediately afterwards.
    ///
    /// - Throws: `ENODEV` for a file that is not regular, on a file system without mapping, and for a protected file of
    ///   Darwin as ``map(_:at:count:)``; `ENOMEM`.
    package func mapPrivately(_ descriptor: Descriptor, count: Int) throws(FileSystemError) -> PrivateMapping {
        guard !sysMayLosePages(descriptor.rawValue) else { throw FileSystemError(.map, .operationNotSupportedByDevice) }
        guard let mapping = unsafe forge_map_privately(descriptor.rawValue, count) else {
            throw FileSystemError(.map, Errno(rawValue: errno))
        }
        return unsafe PrivateMapping(mapping, count: count)
    }
}

// MARK: Attributes

extension SystemFileSystem {
    public func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        var status = sysEmptyStatus()
        switch file {
        case .descriptor(let descriptor):
            try calling(.status) { sysStatus(descriptor.rawValue, &status) }
        case .path(let path, at: let directory, followsSymbolicLinks: let followsLinks):
            try unsafe calling(.status, path) {
                unsafe sysStatus(sysDirectory(directory), $0, &status, sysFlags(followsLinks))
            }
        }
        return FileStatus(status)
    }

    public func briefStatus(of file: FileReference) throws(FileSystemError) -> BriefFileStatus {
        var status = BriefFileStatus(inode: 0, sizeInBytes: 0, linkCount: 0)
        switch file {
        case .descriptor(let descriptor):
            try calling(.status) { sysBriefStatus(descriptor.rawValue, &status) }
        case .path(let path, at: let directory, followsSymbolicLinks: let followsLinks):
            try unsafe calling(.status, path) {
                unsafe sysBriefStatus(sysDirectory(directory), $0, &status, sysFlags(followsLinks))
            }
        }
        return status
    }

    public func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        switch file {
        case .descriptor(let descriptor):
            try calling(.setPermissions) { sysSetMode(descriptor.rawValue, permissions.rawValue) }
        case .path(let path, at: let directory, followsSymbolicLinks: let followsLinks):
            try unsafe calling(.setPermissions, path) {
                unsafe sysSetMode(sysDirectory(directory), $0, permissions.rawValue, sysFlags(followsLinks))
            }
        }
    }

    public func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        // -1 leaves an owner unchanged (chown(2)).
        let user = owner?.rawValue ?? .max
        let group = group?.rawValue ?? .max
        switch file {
        case .descriptor(let descriptor):
            try calling(.setOwner) { sysSetOwner(descriptor.rawValue, user, group) }
        case .path(let path, at: let directory, followsSymbolicLinks: let followsLinks):
            try unsafe calling(.setOwner, path) {
                unsafe sysSetOwner(sysDirectory(directory), $0, user, group, sysFlags(followsLinks))
            }
        }
    }

    public func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        switch file {
        case .descriptor(let descriptor):
            try calling(.setTimes) { sysSetTimes(descriptor.rawValue, accessed, modified) }
        case .path(let path, at: let directory, followsSymbolicLinks: let followsLinks):
            try unsafe calling(.setTimes, path) {
                unsafe sysSetTimes(sysDirectory(directory), $0, accessed, modified, sysFlags(followsLinks))
            }
        }
    }
}

// MARK: Names

extension SystemFileSystem {
    public func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try unsafe calling(.createDirectory, path) {
            unsafe sysMakeDirectory(sysDirectory(directory), $0, permissions.rawValue)
        }
    }

    public func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        let mode = FileMode(type: type, permissions: permissions).rawValue
        try unsafe calling(.createNode, path) { unsafe sysMakeNode(sysDirectory(directory), $0, mode, deviceNumber) }
    }

    public func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try unsafe calling(.createSymbolicLink, path, target) {
            unsafe sysMakeSymbolicLink($1, sysDirectory(directory), $0)
        }
    }

    public func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        // The kernel's limit for a target is one page, including its NUL.
        var target = [UInt8](repeating: 0, count: 4096)
        let count = try unsafe calling(.readSymbolicLink, path) { pointer in
            unsafe target.withUnsafeMutableBytes { unsafe sysReadLink(sysDirectory(directory), pointer, $0) }
        }
        return POSIXPath(target[..<count])
    }

    public func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try unsafe calling(.link, path, newPath) {
            unsafe sysMakeHardLink(sysDirectory(directory), $0, sysDirectory(newDirectory), $1)
        }
    }

    public func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try unsafe calling(.rename, path, newPath) {
            unsafe sysRename(sysDirectory(directory), $0, sysDirectory(newDirectory), $1, mode)
        }
    }

    public func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try unsafe calling(.unlink, path) { unsafe sysUnlink(sysDirectory(directory), $0) }
    }

    public func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try unsafe calling(.removeDirectory, path) { unsafe sysRemoveDirectory(sysDirectory(directory), $0) }
    }
}

extension SystemFileSystem {
    /// The maximum size of a value, and of the list of names, on Linux (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
    static let maximumAttributeSizeInBytes = 65_536

    /// How often a size is asked for that another process keeps changing.
    private static let attemptLimit = 32

    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        let list = try unsafe readingAttribute(.listExtendedAttributes, expecting: 1_024) {
            unsafe sysListAttributes(descriptor.rawValue, $0)
        }
        let prefix = Array(sysAttributePrefix.utf8)
        return list.split(separator: 0).compactMap { name in
            guard name.starts(with: prefix) else { return nil }
            return String(validating: name.dropFirst(prefix.count), as: UTF8.self)
        }
    }

    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        let name = try attributeName(name, for: .readExtendedAttribute)
        do throws(FileSystemError) {
            return try unsafe readingAttribute(.readExtendedAttribute, expecting: 256) { buffer in
                unsafe name.withCString { unsafe sysGetAttribute(descriptor.rawValue, $0, buffer) }
            }
        } catch  where error.errno.rawValue == sysNoAttribute {
            return nil
        }
    }

    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        let name = try attributeName(name, for: .setExtendedAttribute)
        guard value.count <= Self.maximumAttributeSizeInBytes else {
            throw FileSystemError(.setExtendedAttribute, .argListTooLong)
        }
        try calling(.setExtendedAttribute) {
            unsafe value.withUnsafeBytes { bytes in
                unsafe name.withCString { unsafe sysSetAttribute(descriptor.rawValue, $0, bytes) }
            }
        }
    }

    /// The name that the kernel uses, as a C string would truncate it at a NUL.
    private func attributeName(
        _ name: String, for operation: FileSystemOperation
    ) throws(FileSystemError) -> POSIXPath {
        let path = POSIXPath(sysAttributePrefix + name)
        guard !name.isEmpty, !path.containsNUL else { throw FileSystemError(operation, .invalidArgument) }
        return path
    }

    /// The bytes that `read` puts into a buffer and counts; their number may change between two calls.
    private func readingAttribute(
        _ operation: FileSystemOperation, expecting expected: Int, _ read: (UnsafeMutableRawBufferPointer) -> Int
    ) throws(FileSystemError) -> [UInt8] {
        var size = expected
        for _ in 0..<Self.attemptLimit {
            var bytes = [UInt8](repeating: 0, count: size)
            do throws(FileSystemError) {
                let count = try calling(operation) { unsafe bytes.withUnsafeMutableBytes(read) }
                bytes.removeLast(size - count)
                return bytes
            } catch  where error.errno == .outOfRange {
                // Without a buffer the call returns the size.
                size = try calling(operation) { unsafe read(UnsafeMutableRawBufferPointer(start: nil, count: 0)) }
                guard size <= Self.maximumAttributeSizeInBytes else {
                    throw FileSystemError(operation, .argListTooLong)
                }
                // An empty buffer would ask for the size again.
                size = max(size, 1)
            }
        }
        throw FileSystemError(operation, .outOfRange)
    }
}
