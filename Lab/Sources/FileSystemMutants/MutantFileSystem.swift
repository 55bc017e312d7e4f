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
        /// The targets of removed links, by the inode of each, and the removed directories, by that of their parent.
        let removed = Mutex<[UInt64: [POSIXPath]]>([:])
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

/// Building blocks of mutations.
extension MutantFileSystem {
    func status(_ path: POSIXPath, _ directory: Descriptor, follows: Bool = false) -> FileStatus? {
        do {
            return try base.status(path, at: directory, followsSymbolicLinks: follows)
        } catch {
            return nil
        }
    }

    func type(_ path: POSIXPath, _ directory: Descriptor, follows: Bool = false) -> FileType? {
        status(path, directory, follows: follows)?.type
    }

    /// The recorded arguments of the `open` that made a descriptor.
    func call(of descriptor: Descriptor) -> OpenCall? { notes.opened.withLock { $0[descriptor] } }

    func isAppending(_ descriptor: Descriptor) -> Bool { call(of: descriptor)?.options.contains(.append) ?? false }

    func size(of descriptor: Descriptor) throws(FileSystemError) -> Int64 {
        try base.status(of: .descriptor(descriptor)).sizeInBytes
    }

    func position(of descriptor: Descriptor) throws(FileSystemError) -> Int64 {
        try base.seek(descriptor, to: 0, from: .current)
    }

    /// The offset at which a read or write starts: `offset`, or the descriptor's own.
    func start(_ descriptor: Descriptor, _ offset: Int64?) throws(FileSystemError) -> Int64 {
        if let offset { return offset }
        return try position(of: descriptor)
    }

    func move(_ descriptor: Descriptor, to offset: Int64) throws(FileSystemError) {
        _ = try base.seek(descriptor, to: offset, from: .start)
    }

    /// Opens the descriptor's file again, as an independent open file.
    func reopen(
        _ descriptor: Descriptor, _ change: (inout OpenCall) -> Void = { _ in }
    ) throws(FileSystemError) -> Descriptor {
        guard var call = call(of: descriptor) else { throw FileSystemError(.open, .badFileDescriptor) }
        call.options.subtract([.create, .exclusiveCreate, .truncate])
        change(&call)
        return try call(on: self)
    }

    func fill(_ file: FileReference, _ range: Range<Int64>, with byte: UInt8) throws(FileSystemError) {
        guard !range.isEmpty, range.count < 1 << 24 else { return }
        let descriptor: Descriptor
        switch file {
        case .descriptor(let open): descriptor = try base.duplicate(open)
        case .path(let path, let directory, _): descriptor = try base.open(path, at: directory, .readWrite)
        }
        try base.closing(descriptor) { () throws(FileSystemError) in
            try base.writeBytes(
                [UInt8](repeating: byte, count: range.count), to: descriptor, at: range.lowerBound)
        }
    }

    /// Makes a call and restores the times of the parent directory.
    func keepingTimesOfParent<Result>(
        _ path: POSIXPath, _ directory: Descriptor, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let (parent, _) = path.splitLast()
        let before = status(parent.isEmpty ? "." : parent, directory, follows: true)
        let result = try body()
        if let before { setModified(before.modified, of: .path(parent.isEmpty ? "." : parent, at: directory)) }
        return result
    }

    /// Sets a modification time if that is allowed.
    func setModified(_ time: FileTime, of file: FileReference) {
        do { try base.setTimes(accessed: nil, modified: time, of: file) } catch _ {}
    }

    /// Makes a call and restores the modification time of the file it changed.
    func keepingTimes(
        of file: FileReference, _ body: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let before = try base.status(of: file).modified
        try body()
        setModified(before, of: file)
    }

    /// Records the current change time; every later status shows it.
    func freezeChange(of file: FileReference) throws(FileSystemError) {
        let status = try base.status(of: file)
        notes.frozen.withLock { $0[status.inode] = $0[status.inode] ?? status.changed }
    }

    /// Removes whatever exists at a path.
    func clear(_ path: POSIXPath, _ directory: Descriptor) throws(FileSystemError) {
        guard type(path, directory) != nil else { return }
        try base.removeTree(path, at: directory)
    }
}

extension FileReference {
    /// The same file, with links at the end of its path followed or not.
    func following(_ followsLinks: Bool) -> FileReference {
        guard case .path(let path, let directory, _) = self else { return self }
        return .path(path, at: directory, followsSymbolicLinks: followsLinks)
    }
}

extension POSIXPath {
    var withoutTrailingSlashes: POSIXPath {
        var rest = bytes
        while rest.count > 1, rest.last == UInt8(ascii: "/") { rest.removeLast() }
        return POSIXPath(rest)
    }

    var hasTrailingSlash: Bool { count > 1 && bytes.last == UInt8(ascii: "/") }

    /// The path with each component transformed; nil drops a component.
    func mapComponents(_ change: (ArraySlice<UInt8>) -> [UInt8]?) -> POSIXPath {
        let slash = UInt8(ascii: "/")
        let parts = bytes.split(separator: slash, omittingEmptySubsequences: false)
        return POSIXPath(parts.compactMap { $0.isEmpty ? [] : change($0) }.joined(separator: [slash]))
    }
}
