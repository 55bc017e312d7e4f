package import Dispatch
package import ForgeFileSystem
import Foundation
package import SystemPackage

/// Passes every call to a closure before forwarding it; an error of the closure replaces the call.
package struct InterceptedFileSystem<Base: POSIXFileSystem>: POSIXFileSystem {
    /// A call to be forwarded.
    package struct Call: Sendable {
        package var operation: FileSystemOperation
        package var path: POSIXPath?
        package var destination: POSIXPath?
    }

    package let base: Base
    private let intercept: @Sendable (Call) throws(FileSystemError) -> Void

    /// The arguments of `copyRange`.
    package struct RangeCopy: Sendable {
        package var source: Descriptor
        package var sourceOffset: Int64
        package var target: Descriptor
        package var targetOffset: Int64
        package var count: Int
    }

    /// Replaces `copyRange`, which a file system in memory does not have; nil forwards it.
    package var copyingRange: (@Sendable (Base, RangeCopy) throws(FileSystemError) -> Int)?

    package init(_ base: Base, _ intercept: @escaping @Sendable (Call) throws(FileSystemError) -> Void) {
        self.base = base
        self.intercept = intercept
    }

    private func pass(
        _ operation: FileSystemOperation, _ path: POSIXPath? = nil, _ destination: POSIXPath? = nil
    ) throws(FileSystemError) {
        try intercept(Call(operation: operation, path: path, destination: destination))
    }

    private func pass(_ operation: FileSystemOperation, _ file: FileReference) throws(FileSystemError) {
        switch file {
        case .descriptor: try pass(operation)
        case .path(let path, at: _, followsSymbolicLinks: _): try pass(operation, path)
        }
    }
}

extension InterceptedFileSystem {
    package func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try pass(.open, path)
        return try base.open(
            path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
    }

    /// Releases the descriptor even if closing fails.
    package func close(_ descriptor: Descriptor) throws(FileSystemError) {
        do {
            try pass(.close)
        } catch {
            try base.close(descriptor)
            throw error
        }
        try base.close(descriptor)
    }

    package func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try pass(.duplicate)
        return try base.duplicate(descriptor)
    }

    package func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try pass(.read)
        return try base.read(descriptor, into: buffer, at: offset)
    }

    package func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try pass(.write)
        return try base.write(descriptor, from: buffer, at: offset)
    }

    package func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        try pass(.copyRange)
        guard let copyingRange else {
            return try base.copyRange(from: source, at: sourceOffset, to: target, at: targetOffset, count: count)
        }
        return try copyingRange(
            base,
            RangeCopy(
                source: source, sourceOffset: sourceOffset, target: target, targetOffset: targetOffset, count: count))
    }

    package func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try pass(.seek)
        return try base.seek(descriptor, to: offset, from: origin)
    }

    package func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try pass(.truncate, file)
        try base.truncate(file, to: sizeInBytes)
    }

    package func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try pass(.allocate)
        try base.allocate(descriptor, at: offset, length: length)
    }

    package func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try pass(.synchronize)
        try base.synchronize(descriptor, level)
    }

    /// Intercepts writing back, but not stores, which cannot fail.
    package func map(
        _ descriptor: Descriptor, at offset: Int64, count: Int
    ) throws(FileSystemError) -> FileMapping {
        try pass(.map)
        return FileMapping(
            watching: try base.map(descriptor, at: offset, count: count),
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try pass(.writeBack)
                try mapping.writeBack()
            })
    }

    package func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try pass(.lock)
        try base.lock(descriptor, mode, waiting: waiting)
    }

    /// Intercepts the watching of each directory too.
    package func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        try pass(.watch)
        let watch = try base.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
        return ObservedWatch(watch) { (directory, body) throws(FileSystemError) in
            try pass(.watch)
            return try body()
        }
    }

    package var effectiveUser: UserID { base.effectiveUser }

    package var reportsErrorsOfMappings: Bool { base.reportsErrorsOfMappings }

    package var preciseTime: FileTime? { base.preciseTime }

    package func randomBits() -> UInt64 { base.randomBits() }
}

extension InterceptedFileSystem {
    package func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try pass(.status, file)
        return try base.status(of: file)
    }

    package func setPermissions(
        _ permissions: FilePermissions, of file: FileReference
    ) throws(FileSystemError) {
        try pass(.setPermissions, file)
        try base.setPermissions(permissions, of: file)
    }

    package func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try pass(.setOwner, file)
        try base.setOwner(owner, group: group, of: file)
    }

    package func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        try pass(.setTimes, file)
        try base.setTimes(accessed: accessed, modified: modified, of: file)
    }

    package func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try pass(.listExtendedAttributes, .descriptor(descriptor))
        return try base.extendedAttributeNames(of: descriptor)
    }

    package func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try pass(.readExtendedAttribute, .descriptor(descriptor))
        return try base.extendedAttribute(name, of: descriptor)
    }

    package func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try pass(.setExtendedAttribute, .descriptor(descriptor))
        try base.setExtendedAttribute(name, to: value, of: descriptor)
    }
}

extension InterceptedFileSystem {
    package func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try pass(.createDirectory, path)
        try base.createDirectory(path, at: directory, permissions: permissions)
    }

    package func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions,
        deviceNumber: UInt64
    ) throws(FileSystemError) {
        try pass(.createNode, path)
        try base.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
    }

    package func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try pass(.createSymbolicLink, path)
        try base.createSymbolicLink(path, at: directory, to: target)
    }

    package func readSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> POSIXPath {
        try pass(.readSymbolicLink, path)
        return try base.readSymbolicLink(path, at: directory)
    }

    package func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try pass(.link, path, newPath)
        try base.link(path, at: directory, to: newPath, at: newDirectory)
    }

    package func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try pass(.rename, path, newPath)
        try base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
    }

    package func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try pass(.unlink, path)
        try base.unlink(path, at: directory)
    }

    package func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try pass(.removeDirectory, path)
        try base.removeDirectory(path, at: directory)
    }

    package func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try pass(.list)
        return try base.entries(of: descriptor)
    }
}
