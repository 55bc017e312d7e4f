import Dispatch
import Synchronization
public import SystemPackage

// Memory safety: A buffer is the caller's for the time of the call, and is passed on as a span.

extension InMemoryFileSystem {
    public func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try perform(.open, path) { (state) throws(Errno) in
            try state.open(path, at: directory, mode, options, permissions, resolution)
        }
    }

    public func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try perform(.close) { (state) throws(Errno) in try state.close(descriptor) }
    }

    public func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try perform(.duplicate) { (state) throws(Errno) in try state.duplicate(descriptor) }
    }

    /// Takes, changes or releases the lock of an open file (`flock(2)`).
    ///
    /// A waiting call blocks its thread until the lock is free; waiters are not served in order. A change from shared
    /// to exclusive or back first releases the old lock, as on Linux, so it is lost if the call throws.
    public func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        while true {
            let answer = try perform(.lock) { (state) throws(Errno) in
                try state.lock(descriptor, mode, waiting: waiting)
            }
            switch answer {
            case .done: return
            case .wait(let semaphore): semaphore.wait()
            }
        }
    }
}

extension InMemoryFileSystem {
    public func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        var output = unsafe OutputRawSpan(buffer: buffer, initializedCount: 0)
        return try perform(.read) { (state) throws(Errno) in try state.read(descriptor, into: &output, at: offset) }
    }

    public func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try perform(.write) { (state) throws(Errno) in
            try unsafe state.write(descriptor, from: buffer.bytes, at: offset)
        }
    }

    public func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try perform(.seek) { (state) throws(Errno) in try state.seek(descriptor, to: offset, from: origin) }
    }

    public func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try perform(.truncate, file.path) { (state) throws(Errno) in try state.truncate(file, to: sizeInBytes) }
    }

    public func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try perform(.allocate) { (state) throws(Errno) in
            try state.allocate(descriptor, at: offset, length: length)
        }
    }

    public func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try perform(.synchronize) { (state) throws(Errno) in try state.synchronize(descriptor, level) }
    }
}

extension InMemoryFileSystem {
    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        let pages = try perform(.map) { (state) throws(Errno) in
            try state.map(descriptor, at: offset, count: count)
        }
        return FileMapping(Memory(pages, of: self), count: count)
    }

    /// The memory of a mapping. It retains the process, whose end would remove its mappings.
    private final class Memory: MappedMemory {
        private let pages: Pages
        private let fileSystem: InMemoryFileSystem

        init(_ pages: Pages, of fileSystem: InMemoryFileSystem) {
            self.pages = pages
            self.fileSystem = fileSystem
        }

        deinit {
            fileSystem.tree.state.withLock { $0.unmap(pages) }
        }

        func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
            fileSystem.tree.state.withLock { $0.load(range, of: pages) }
            return unsafe UnsafeRawBufferPointer(rebasing: pages.memory[range])
        }

        func store(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
            fileSystem.tree.state.withLock { unsafe $0.store(bytes.bytes, at: offset, in: pages) }
        }

        var hasFaulted: Bool { fileSystem.tree.state.withLock { $0.hasFaulted(pages) } }

        func writeBack() throws(FileSystemError) {
            try fileSystem.perform(.writeBack) { (state) throws(Errno) in try state.writeBack(pages) }
        }
    }
}

extension InMemoryFileSystem {
    public func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try perform(.status, file.path) { (state) throws(Errno) in try state.status(of: file) }
    }

    public func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try perform(.setPermissions, file.path) { (state) throws(Errno) in
            try state.setPermissions(permissions, of: file)
        }
    }

    public func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try perform(.setOwner, file.path) { (state) throws(Errno) in
            try state.setOwner(owner, group: group, of: file)
        }
    }

    public func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        try perform(.setTimes, file.path) { (state) throws(Errno) in
            try state.setTimes(accessed: accessed, modified: modified, of: file)
        }
    }
}

extension FileReference {
    /// The path, if the reference has one.
    var path: POSIXPath? {
        guard case .path(let path, _, _) = self else { return nil }
        return path
    }
}

extension InMemoryFileSystem {
    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try perform(.listExtendedAttributes) { (state) throws(Errno) in
            try state.extendedAttributes(of: descriptor).names.compactMap { String(validating: $0, as: UTF8.self) }
        }
    }

    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try perform(.readExtendedAttribute) { (state) throws(Errno) in
            try state.extendedAttribute(Array(name.utf8), of: descriptor)
        }
    }

    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try perform(.setExtendedAttribute) { (state) throws(Errno) in
            try state.setExtendedAttribute(Array(name.utf8), to: value, of: descriptor)
        }
    }
}

extension InMemoryFileSystem.State {
    mutating func extendedAttributes(of descriptor: Descriptor) throws(Errno) -> ExtendedAttributes {
        extendedAttributes[try inode(of: .descriptor(descriptor))] ?? ExtendedAttributes()
    }

    mutating func extendedAttribute(_ name: [UInt8], of descriptor: Descriptor) throws(Errno) -> [UInt8]? {
        let index = try inode(of: .descriptor(descriptor))
        try requireValidAttributeName(name)
        guard isRegular(index) || isDirectory(index) else { return nil }
        try require(.read, to: index)
        return extendedAttributes[index]?[name]
    }

    mutating func setExtendedAttribute(
        _ name: [UInt8], to value: [UInt8], of descriptor: Descriptor
    ) throws(Errno) {
        let index = try inode(of: .descriptor(descriptor))
        try requireValidAttributeName(name)
        guard value.count <= ExtendedAttributes.maximumValueSizeInBytes else { throw .argListTooLong }
        try requireWritableDevice(index)
        guard isRegular(index) || isDirectory(index) else { throw .notPermitted }
        if isDirectory(index), inodes[index].permissions.contains(.saveText), !isOwner(of: index) {
            throw .notPermitted
        }
        try require(.write, to: index)
        let old = extendedAttributes[index] ?? ExtendedAttributes()
        guard let new = old.setting(name, to: value) else { throw .noSpace }
        extendedAttributes[index] = new
        // Updates the change time, and records the attributes.
        setAttributes(of: index) { _ in }
    }

    /// On Linux, 255 bytes include the prefix `user.`.
    private func requireValidAttributeName(_ name: [UInt8]) throws(Errno) {
        guard !name.isEmpty, !name.contains(0) else { throw .invalidArgument }
        switch options.profile {
        case .linux: guard name.count <= 250 else { throw .outOfRange }
        case .darwin: guard name.count <= 127 else { throw .fileNameTooLong }
        }
    }
}

extension InMemoryFileSystem {
    public func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try perform(.createDirectory, path) { (state) throws(Errno) in
            try state.createDirectory(path, at: directory, permissions)
        }
    }

    public func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try perform(.createNode, path) { (state) throws(Errno) in
            try state.createNode(path, at: directory, type, permissions, deviceNumber)
        }
    }

    public func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try perform(.createSymbolicLink, path, to: target) { (state) throws(Errno) in
            try state.createSymbolicLink(path, at: directory, to: target)
        }
    }

    public func readSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> POSIXPath {
        try perform(.readSymbolicLink, path) { (state) throws(Errno) in
            try state.readSymbolicLink(path, at: directory)
        }
    }

    public func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try perform(.link, path, to: newPath) { (state) throws(Errno) in
            try state.link(path, at: directory, to: newPath, at: newDirectory)
        }
    }

    public func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try perform(.rename, path, to: newPath) { (state) throws(Errno) in
            try state.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        }
    }

    public func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try perform(.unlink, path) { (state) throws(Errno) in try state.unlink(path, at: directory) }
    }

    public func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try perform(.removeDirectory, path) { (state) throws(Errno) in
            try state.removeDirectory(path, at: directory)
        }
    }

    public func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try perform(.list) { (state) throws(Errno) in try state.entries(of: descriptor) }
    }
}
