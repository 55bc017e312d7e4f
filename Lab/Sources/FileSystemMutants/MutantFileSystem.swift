package import Dispatch
package import ForgeFileSystem
import Synchronization
package import SystemPackage

/// An in-memory file system that breaks one rule, to test whether the checks detect it.
package struct MutantFileSystem: POSIXFileSystem {
    package let base: InMemoryFileSystem
    package let mutation: Mutation
    let notes: Notes

    /// State recorded for mutations that depend on earlier calls.
    final class Notes: Sendable {
        /// The `open` call of each open descriptor.
        let opened = Mutex<[Descriptor: OpenCall]>([:])
        /// Truncated bytes, by inode.
        let cut = Mutex<[UInt64: [UInt8]]>([:])
        /// Frozen change times, by inode.
        let frozen = Mutex<[UInt64: FileTime]>([:])
    }

    package init(_ base: InMemoryFileSystem, _ mutation: Mutation) {
        self.init(base, mutation, Notes())
    }

    private init(_ base: InMemoryFileSystem, _ mutation: Mutation, _ notes: Notes) {
        self.base = base
        self.mutation = mutation
        self.notes = notes
    }

    /// The same mutant as seen by another user.
    package func process(user: UserID, group: GroupID) -> MutantFileSystem {
        MutantFileSystem(base.process(user: user, group: group), mutation, notes)
    }

    private func taken(_ path: POSIXPath) -> POSIXPath { mutation.path?(path) ?? path }

    private func taken(_ file: FileReference) -> FileReference {
        guard case .path(let path, let directory, let followsLinks) = file else { return file }
        return .path(taken(path), at: directory, followsSymbolicLinks: followsLinks)
    }
}

// MARK: Descriptors and content

extension MutantFileSystem {
    package func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        let call = OpenCall(
            path: taken(path), directory: directory, mode: mode, options: options, permissions: permissions,
            resolution: resolution)
        let descriptor: Descriptor
        if let open = mutation.open {
            descriptor = try open(self, call)
        } else {
            descriptor = try call(on: self)
        }
        notes.opened.withLock { $0[descriptor] = call }
        return descriptor
    }

    package func close(_ descriptor: Descriptor) throws(FileSystemError) {
        defer { notes.opened.withLock { $0[descriptor] = nil } }
        guard let close = mutation.close else { return try base.close(descriptor) }
        try close(self, descriptor)
    }

    package func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        guard let duplicate = mutation.duplicate else { return try base.duplicate(descriptor) }
        return try duplicate(self, descriptor)
    }

    package func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        guard let read = mutation.read else { return try base.read(descriptor, into: buffer, at: offset) }
        return try read(self, descriptor, buffer, offset)
    }

    package func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        guard let write = mutation.write else { return try base.write(descriptor, from: buffer, at: offset) }
        return try write(self, descriptor, buffer, offset)
    }

    package func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        guard let seek = mutation.seek else { return try base.seek(descriptor, to: offset, from: origin) }
        return try seek(self, descriptor, offset, origin)
    }

    package func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        guard let truncate = mutation.truncate else { return try base.truncate(taken(file), to: sizeInBytes) }
        try truncate(self, taken(file), sizeInBytes)
    }

    package func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        guard let allocate = mutation.allocate else {
            return try base.allocate(descriptor, at: offset, length: length)
        }
        try allocate(self, descriptor, offset, length)
    }

    package func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        guard let synchronize = mutation.synchronize else { return try base.synchronize(descriptor, level) }
        try synchronize(self, descriptor)
    }

    package func map(
        _ descriptor: Descriptor, at offset: Int64, count: Int
    ) throws(FileSystemError) -> FileMapping {
        guard let map = mutation.map else { return try base.map(descriptor, at: offset, count: count) }
        return try map(self, descriptor, offset, count)
    }

    package func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        try base.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
    }

    package func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        try base.makeSignal(of: descriptor)
    }

    package func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        guard let lock = mutation.lock else { return try base.lock(descriptor, mode, waiting: waiting) }
        try lock(self, descriptor, mode, waiting)
    }

    package var effectiveUser: UserID { base.effectiveUser }

    package var reportsErrorsOfMappings: Bool { base.reportsErrorsOfMappings }

    package func randomBits() -> UInt64 { base.randomBits() }
}

// MARK: Attributes

extension MutantFileSystem {
    package func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        guard let status = mutation.status else { return try base.status(of: taken(file)) }
        return try status(self, taken(file))
    }

    package func setPermissions(
        _ permissions: FilePermissions, of file: FileReference
    ) throws(FileSystemError) {
        guard let setPermissions = mutation.setPermissions else {
            return try base.setPermissions(permissions, of: taken(file))
        }
        try setPermissions(self, permissions, taken(file))
    }

    package func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        guard let setOwner = mutation.setOwner else {
            return try base.setOwner(owner, group: group, of: taken(file))
        }
        try setOwner(self, owner, group, taken(file))
    }

    package func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        guard let setTimes = mutation.setTimes else {
            return try base.setTimes(accessed: accessed, modified: modified, of: taken(file))
        }
        try setTimes(self, accessed, modified, taken(file))
    }

    package func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        guard let names = mutation.extendedAttributeNames else {
            return try base.extendedAttributeNames(of: descriptor)
        }
        return try names(self, descriptor)
    }

    package func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        guard let extendedAttribute = mutation.extendedAttribute else {
            return try base.extendedAttribute(name, of: descriptor)
        }
        return try extendedAttribute(self, name, descriptor)
    }

    package func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        guard let setExtendedAttribute = mutation.setExtendedAttribute else {
            return try base.setExtendedAttribute(name, to: value, of: descriptor)
        }
        try setExtendedAttribute(self, name, value, descriptor)
    }
}

// MARK: Names

extension MutantFileSystem {
    package func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        guard let createDirectory = mutation.createDirectory else {
            return try base.createDirectory(taken(path), at: directory, permissions: permissions)
        }
        try createDirectory(self, taken(path), directory, permissions)
    }

    package func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions,
        deviceNumber: UInt64
    ) throws(FileSystemError) {
        guard let createNode = mutation.createNode else {
            return try base.createNode(
                taken(path), at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
        }
        try createNode(self, taken(path), directory, type, permissions)
    }

    package func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        guard let createSymbolicLink = mutation.createSymbolicLink else {
            return try base.createSymbolicLink(taken(path), at: directory, to: target)
        }
        try createSymbolicLink(self, taken(path), directory, target)
    }

    package func readSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> POSIXPath {
        guard let readSymbolicLink = mutation.readSymbolicLink else {
            return try base.readSymbolicLink(taken(path), at: directory)
        }
        return try readSymbolicLink(self, taken(path), directory)
    }

    package func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        let call = MoveCall(
            path: taken(path), directory: directory, newPath: taken(newPath), newDirectory: newDirectory)
        guard let link = mutation.link else { return try call.link(on: self) }
        try link(self, call)
    }

    package func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        let call = MoveCall(
            path: taken(path), directory: directory, newPath: taken(newPath), newDirectory: newDirectory, mode: mode)
        guard let rename = mutation.rename else { return try call.rename(on: self) }
        try rename(self, call)
    }

    package func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        guard let unlink = mutation.unlink else { return try base.unlink(taken(path), at: directory) }
        try unlink(self, taken(path), directory)
    }

    package func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        guard let removeDirectory = mutation.removeDirectory else {
            return try base.removeDirectory(taken(path), at: directory)
        }
        try removeDirectory(self, taken(path), directory)
    }

    package func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        guard let entries = mutation.entries else { return try base.entries(of: descriptor) }
        return try entries(self, descriptor)
    }
}
