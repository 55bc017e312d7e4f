package import Dispatch
package import ForgeFileSystem
import Foundation
package import SystemPackage

// Memory safety: Buffers are passed on for the time of the call.

/// Passes every call to a closure before forwarding it; an error of the closure replaces the call.
package struct InterceptedFileSystem<Base: POSIXFileSystem>: InterceptingFileSystem {
    package typealias Call = InterceptedCall

    package let base: Base
    private let interception: @Sendable (Call) throws(FileSystemError) -> Void

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
        interception = intercept
    }

    package var forwarded: any POSIXFileSystem { base }

    package func intercept(_ call: Call) throws(FileSystemError) { try interception(call) }

    package func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        try intercept(Call(operation: .copyRange, descriptor: target))
        guard let copyingRange else {
            return try base.copyRange(from: source, at: sourceOffset, to: target, at: targetOffset, count: count)
        }
        return try copyingRange(
            base,
            RangeCopy(
                source: source, sourceOffset: sourceOffset, target: target, targetOffset: targetOffset, count: count))
    }
}

/// A call to be forwarded.
package struct InterceptedCall: Sendable {
    package var operation: FileSystemOperation
    package var path: POSIXPath?
    package var destination: POSIXPath?
    package var descriptor: Descriptor?

    package init(
        operation: FileSystemOperation, path: POSIXPath? = nil, destination: POSIXPath? = nil,
        descriptor: Descriptor? = nil
    ) {
        self.operation = operation
        self.path = path
        self.destination = destination
        self.descriptor = descriptor
    }
}

/// A file system that forwards every call to another one; a type implements the calls in which it differs.
package protocol InterceptingFileSystem: POSIXFileSystem {
    /// The file system that makes the calls.
    var forwarded: any POSIXFileSystem { get }

    /// Called before each call; an error replaces the call, but a descriptor is closed all the same.
    func intercept(_ call: InterceptedCall) throws(FileSystemError)
}

extension InterceptingFileSystem {
    private func pass(
        _ operation: FileSystemOperation, _ path: POSIXPath? = nil, _ destination: POSIXPath? = nil
    ) throws(FileSystemError) {
        try intercept(InterceptedCall(operation: operation, path: path, destination: destination))
    }

    private func pass(_ operation: FileSystemOperation, _ descriptor: Descriptor) throws(FileSystemError) {
        try intercept(InterceptedCall(operation: operation, descriptor: descriptor))
    }

    private func pass(_ operation: FileSystemOperation, _ file: FileReference) throws(FileSystemError) {
        switch file {
        case .descriptor(let descriptor): try pass(operation, descriptor)
        case .path(let path, at: _, followsSymbolicLinks: _): try pass(operation, path)
        }
    }
}

extension InterceptingFileSystem {
    package func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try pass(.open, path)
        return try forwarded.open(
            path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
    }

    /// Releases the descriptor even if closing fails.
    package func close(_ descriptor: Descriptor) throws(FileSystemError) {
        do {
            try pass(.close, descriptor)
        } catch {
            try forwarded.close(descriptor)
            throw error
        }
        try forwarded.close(descriptor)
    }

    package func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try pass(.duplicate, descriptor)
        return try forwarded.duplicate(descriptor)
    }

    package func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try pass(.read, descriptor)
        return try unsafe forwarded.read(descriptor, into: buffer, at: offset)
    }

    package func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try pass(.write, descriptor)
        return try unsafe forwarded.write(descriptor, from: buffer, at: offset)
    }

    package func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        try pass(.copyRange, target)
        return try forwarded.copyRange(
            from: source, at: sourceOffset, to: target, at: targetOffset, count: count)
    }

    package func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try pass(.seek, descriptor)
        return try forwarded.seek(descriptor, to: offset, from: origin)
    }

    package func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try pass(.truncate, file)
        try forwarded.truncate(file, to: sizeInBytes)
    }

    package func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try pass(.allocate, descriptor)
        try forwarded.allocate(descriptor, at: offset, length: length)
    }

    package func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try pass(.synchronize, descriptor)
        try forwarded.synchronize(descriptor, level)
    }

    /// Intercepts writing back, but not stores, which cannot fail.
    package func map(
        _ descriptor: Descriptor, at offset: Int64, count: Int
    ) throws(FileSystemError) -> FileMapping {
        try pass(.map, descriptor)
        return unsafe FileMapping(
            watching: try forwarded.map(descriptor, at: offset, count: count),
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try pass(.writeBack, descriptor)
                try mapping.writeBack()
            })
    }

    package func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try pass(.lock, descriptor)
        try forwarded.lock(descriptor, mode, waiting: waiting)
    }

    /// Intercepts the watching of each directory too.
    package func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        try pass(.watch)
        let watch = try forwarded.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
        return ObservedWatch(watch) { [self] (directory, body) throws(FileSystemError) in
            try pass(.watch)
            return try body()
        }
    }

    package func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        try forwarded.makeSignal(of: descriptor)
    }

    package var effectiveUser: UserID { forwarded.effectiveUser }

    package var reportsErrorsOfMappings: Bool { forwarded.reportsErrorsOfMappings }

    package var preciseTime: FileTime? { forwarded.preciseTime }

    package func randomBits() -> UInt64 { forwarded.randomBits() }
}

extension InterceptingFileSystem {
    package func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try pass(.status, file)
        return try forwarded.status(of: file)
    }

    package func setPermissions(
        _ permissions: FilePermissions, of file: FileReference
    ) throws(FileSystemError) {
        try pass(.setPermissions, file)
        try forwarded.setPermissions(permissions, of: file)
    }

    package func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try pass(.setOwner, file)
        try forwarded.setOwner(owner, group: group, of: file)
    }

    package func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        try pass(.setTimes, file)
        try forwarded.setTimes(accessed: accessed, modified: modified, of: file)
    }

    package func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try pass(.listExtendedAttributes, descriptor)
        return try forwarded.extendedAttributeNames(of: descriptor)
    }

    package func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try pass(.readExtendedAttribute, descriptor)
        return try forwarded.extendedAttribute(name, of: descriptor)
    }

    package func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try pass(.setExtendedAttribute, descriptor)
        try forwarded.setExtendedAttribute(name, to: value, of: descriptor)
    }
}

extension InterceptingFileSystem {
    package func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try pass(.createDirectory, path)
        try forwarded.createDirectory(path, at: directory, permissions: permissions)
    }

    package func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions,
        deviceNumber: UInt64
    ) throws(FileSystemError) {
        try pass(.createNode, path)
        try forwarded.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
    }

    package func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try pass(.createSymbolicLink, path)
        try forwarded.createSymbolicLink(path, at: directory, to: target)
    }

    package func readSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> POSIXPath {
        try pass(.readSymbolicLink, path)
        return try forwarded.readSymbolicLink(path, at: directory)
    }

    package func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try pass(.link, path, newPath)
        try forwarded.link(path, at: directory, to: newPath, at: newDirectory)
    }

    package func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try pass(.rename, path, newPath)
        try forwarded.rename(path, at: directory, to: newPath, at: newDirectory, mode)
    }

    package func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try pass(.unlink, path)
        try forwarded.unlink(path, at: directory)
    }

    package func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try pass(.removeDirectory, path)
        try forwarded.removeDirectory(path, at: directory)
    }

    package func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try pass(.list, descriptor)
        return try forwarded.entries(of: descriptor)
    }
}
