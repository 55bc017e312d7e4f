import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage

/// Wraps a file system with a hook before every call, which may throw, and a record of all written bytes.
final class RecordingFileSystem: POSIXFileSystem {
    typealias Hook = @Sendable (FileSystemOperation, POSIXPath?) throws(FileSystemError) -> Void

    private let base: any POSIXFileSystem
    private let hook = Mutex<Hook?>(nil)
    private let writes = Mutex<[[UInt8]]>([])

    init(_ base: any POSIXFileSystem = InMemoryFileSystem()) {
        self.base = base
    }

    func onCall(_ hook: Hook?) {
        self.hook.withLock { $0 = hook }
    }

    /// Makes the call of an operation with this number, counted from now on, fail.
    func fail(_ operation: FileSystemOperation, _ errno: Errno, number: Int = 1) {
        let count = Counter()
        onCall { (called, path) throws(FileSystemError) in
            if called == operation, count.next() == number { throw FileSystemError(operation, errno, path: path) }
        }
    }

    /// All bytes written so far, by call.
    var written: [[UInt8]] { writes.withLock { $0 } }

    private func call(_ operation: FileSystemOperation, _ path: POSIXPath? = nil) throws(FileSystemError) {
        try hook.withLock { $0 }?(operation, path)
    }

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try call(.open, path)
        return try base.open(
            path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
    }

    func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try base.close(descriptor)
        try call(.close)
    }

    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try call(.duplicate)
        return try base.duplicate(descriptor)
    }

    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try call(.read)
        return try base.read(descriptor, into: buffer, at: offset)
    }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try call(.write)
        writes.withLock { $0.append([UInt8](buffer)) }
        return try base.write(descriptor, from: buffer, at: offset)
    }

    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try call(.seek)
        return try base.seek(descriptor, to: offset, from: origin)
    }

    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try call(.truncate)
        try base.truncate(file, to: sizeInBytes)
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        try call(.map)
        return FileMapping(
            watching: try base.map(descriptor, at: offset, count: count),
            store: { [self] mapping, bytes, place in
                writes.withLock { $0.append([UInt8](bytes)) }
                mapping.store(bytes, at: place)
            },
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try call(.writeBack)
                try mapping.writeBack()
            })
    }

    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try call(.allocate)
        try base.allocate(descriptor, at: offset, length: length)
    }

    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try call(.synchronize)
        try base.synchronize(descriptor, level)
    }

    func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        if case .path(let path, _, _) = file { try call(.status, path) } else { try call(.status) }
        return try base.status(of: file)
    }

    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try call(.setPermissions)
        try base.setPermissions(permissions, of: file)
    }

    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try call(.setOwner)
        try base.setOwner(owner, group: group, of: file)
    }

    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        try call(.setTimes)
        try base.setTimes(accessed: accessed, modified: modified, of: file)
    }

    func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try call(.listExtendedAttributes)
        return try base.extendedAttributeNames(of: descriptor)
    }

    func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try call(.readExtendedAttribute)
        return try base.extendedAttribute(name, of: descriptor)
    }

    func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try call(.setExtendedAttribute)
        try base.setExtendedAttribute(name, to: value, of: descriptor)
    }

    func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try call(.createDirectory, path)
        try base.createDirectory(path, at: directory, permissions: permissions)
    }

    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try call(.createNode, path)
        try base.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
    }

    func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try call(.createSymbolicLink, path)
        try base.createSymbolicLink(path, at: directory, to: target)
    }

    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try call(.readSymbolicLink, path)
        return try base.readSymbolicLink(path, at: directory)
    }

    func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try call(.link, path)
        try base.link(path, at: directory, to: newPath, at: newDirectory)
    }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try call(.rename, path)
        try base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
    }

    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try call(.unlink, path)
        try base.unlink(path, at: directory)
    }

    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try call(.removeDirectory, path)
        try base.removeDirectory(path, at: directory)
    }

    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try call(.list)
        return try base.entries(of: descriptor)
    }

    func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        try call(.watch)
        return try base.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
    }

    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try call(.lock)
        try base.lock(descriptor, mode, waiting: waiting)
    }

    var effectiveUser: UserID { base.effectiveUser }

    var preciseTime: FileTime? { base.preciseTime }

    func randomBits() -> UInt64 { base.randomBits() }
}

/// Counts from 1; thread-safe.
final class Counter: Sendable {
    private let value = Mutex(0)

    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}
