import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import SystemPackage

/// A file system whose operations fail according to a rule, before they have any effect.
final class FailingFileSystem: POSIXFileSystem {
    typealias Rule = @Sendable (FileSystemOperation, _ path: POSIXPath?) -> Errno?

    let base: any POSIXFileSystem
    private let rule = Mutex<Rule?>(nil)
    private let paths = Mutex<[Descriptor: POSIXPath]>([:])

    init(_ base: any POSIXFileSystem = InMemoryFileSystem()) {
        self.base = base
    }

    /// Sets the rule for later calls; nil lets all calls succeed.
    func fail(_ newRule: Rule?) { rule.withLock { $0 = newRule } }

    /// Fails every operation of a kind.
    func fail(_ operation: FileSystemOperation, _ errno: Errno = .ioError) {
        fail { candidate, _ in candidate == operation ? errno : nil }
    }

    private func path(_ descriptor: Descriptor) -> POSIXPath? { paths.withLock { $0[descriptor] } }

    private func check(_ operation: FileSystemOperation, _ path: POSIXPath?) throws(FileSystemError) {
        if let errno = rule.withLock({ $0 })?(operation, path) { throw FileSystemError(operation, errno, path: path) }
    }

    private func check(_ operation: FileSystemOperation, _ file: FileReference) throws(FileSystemError) {
        switch file {
        case .descriptor(let descriptor): try check(operation, path(descriptor))
        case .path(let path, at: _, followsSymbolicLinks: _): try check(operation, path)
        }
    }

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try check(.open, path)
        let descriptor = try base.open(
            path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
        paths.withLock { $0[descriptor] = path }
        return descriptor
    }

    func close(_ descriptor: Descriptor) throws(FileSystemError) { try base.close(descriptor) }

    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try check(.duplicate, path(descriptor))
        let duplicate = try base.duplicate(descriptor)
        paths.withLock { $0[duplicate] = $0[descriptor] }
        return duplicate
    }

    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try check(.read, path(descriptor))
        return try base.read(descriptor, into: buffer, at: offset)
    }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try check(.write, path(descriptor))
        return try base.write(descriptor, from: buffer, at: offset)
    }

    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 { try base.seek(descriptor, to: offset, from: origin) }

    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try check(.truncate, file)
        try base.truncate(file, to: sizeInBytes)
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        let path = path(descriptor)
        try check(.map, path)
        return FileMapping(
            watching: try base.map(descriptor, at: offset, count: count),
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try check(.writeBack, path)
                try mapping.writeBack()
            })
    }

    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try check(.allocate, path(descriptor))
        try base.allocate(descriptor, at: offset, length: length)
    }

    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try check(.synchronize, path(descriptor))
        try base.synchronize(descriptor, level)
    }

    func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try check(.status, file)
        return try base.status(of: file)
    }

    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try base.setPermissions(permissions, of: file)
    }

    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try base.setOwner(owner, group: group, of: file)
    }

    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        try base.setTimes(accessed: accessed, modified: modified, of: file)
    }

    func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try base.extendedAttributeNames(of: descriptor)
    }

    func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try base.extendedAttribute(name, of: descriptor)
    }

    func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try base.setExtendedAttribute(name, to: value, of: descriptor)
    }

    func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try check(.createDirectory, path)
        try base.createDirectory(path, at: directory, permissions: permissions)
    }

    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try base.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
    }

    func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) { try base.createSymbolicLink(path, at: directory, to: target) }

    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try base.readSymbolicLink(path, at: directory)
    }

    func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) { try base.link(path, at: directory, to: newPath, at: newDirectory) }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try check(.rename, path)
        try base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        paths.withLock { paths in paths = paths.mapValues { $0 == path ? newPath : $0 } }
    }

    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try check(.unlink, path)
        try base.unlink(path, at: directory)
    }

    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try base.removeDirectory(path, at: directory)
    }

    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try check(.list, path(descriptor))
        return try base.entries(of: descriptor)
    }

    func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        try check(.watch, nil)
        return try base.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
    }

    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try check(.lock, path(descriptor))
        try base.lock(descriptor, mode, waiting: waiting)
    }

    var effectiveUser: UserID { base.effectiveUser }

    var reportsErrorsOfMappings: Bool { base.reportsErrorsOfMappings }

    func randomBits() -> UInt64 { base.randomBits() }
}
