package import SystemPackage

/// An open file, owned by one scope or one object, which closes it at the end of its life.
///
/// Its calls go on after interruptions by signals and short transfers, and their errors have the path of the file.
package struct OpenFile: ~Copyable, Sendable {
    package let fileSystem: any POSIXFileSystem

    /// The path of the file in errors.
    package let path: POSIXPath

    /// The status of the file when it was opened.
    package let status: FileStatus

    private let descriptor: Descriptor

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - directory: The start of a relative path.
    ///   - options: Links, waiting and so on.
    ///   - resolution: Limits on path resolution.
    ///   - name: The path in errors; nil for `path`.
    ///   - fileSystem: The file system.
    /// - Throws: ``FileSystemError`` as ``POSIXFileSystem/open(_:at:_:options:permissions:resolution:)``.
    package init(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, options: FileDescriptor.OpenOptions,
        resolution: PathResolution = [], named name: POSIXPath? = nil, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let descriptor: Descriptor
        do throws(FileSystemError) {
            descriptor = try fileSystem.openRetrying(path, at: directory, options: options, resolution: resolution)
        } catch {
            var named = error
            named.path = name ?? path
            throw named
        }
        try self.init(owning: descriptor, named: name ?? path, on: fileSystem)
    }

    /// Takes ownership of an open file, which is closed even if this throws.
    package init(
        owning descriptor: Descriptor, named path: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let status: FileStatus
        do throws(FileSystemError) {
            status = try fileSystem.status(of: descriptor, named: path)
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
        self.init(owning: descriptor, status, named: path, on: fileSystem)
    }

    /// Takes ownership of an open file with a known status.
    init(
        owning descriptor: Descriptor, _ status: FileStatus, named path: POSIXPath,
        on fileSystem: any POSIXFileSystem
    ) {
        self.descriptor = descriptor
        self.status = status
        self.path = path
        self.fileSystem = fileSystem
    }

    deinit {
        fileSystem.discard(descriptor)
    }

    /// Calls `body` with the descriptor, which it must not keep.
    package func use<Result, Failure: Error>(
        _ body: (Descriptor) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(descriptor)
    }
}

extension OpenFile {
    // MARK: Content

    /// Appends bytes of the file to a buffer, until it is full or the file ends.
    ///
    /// - Parameters:
    ///   - buffer: The destination.
    ///   - offset: The offset in the file.
    ///   - expected: The number of bytes after which the file should end; a read that has returned just these is not
    ///     followed by another one that finds the end. Nil if that is unknown.
    /// - Returns: The number of bytes.
    /// - Throws: ``FileSystemError`` of the read that failed.
    @discardableResult
    package func read(
        into buffer: inout OutputRawSpan, at offset: Int64, expecting expected: Int? = nil
    ) throws(FileSystemError) -> Int {
        do throws(FileSystemError) {
            return try fileSystem.readFully(descriptor, into: &buffer, at: offset, expecting: expected)
        } catch {
            throw error.named(path)
        }
    }

    /// Appends bytes that are in memory to a buffer, without waiting (`RWF_NOWAIT` of `preadv2(2)`).
    ///
    /// - Returns: The number of bytes, fewer than the buffer holds where the file ends or a part is not in memory; nil
    ///   if the first is not, or the file system cannot tell.
    package func readCached(into buffer: inout OutputRawSpan, at offset: Int64) -> Int? {
        let done = sysReadCached(descriptor.rawValue, &buffer, offset)
        return done >= 0 ? done : nil
    }

    /// The whole content if it is in memory and has up to `limit` bytes, read without waiting; nil otherwise.
    package func cachedContents(upTo limit: Int) -> [UInt8]? {
        guard let size = Int(exactly: status.sizeInBytes), size <= limit else { return nil }
        let content = [UInt8](capacity: size + 1) { buffer in _ = sysReadCached(descriptor.rawValue, &buffer, 0) }
        // Otherwise a part is not in memory, or the file has grown.
        return content.count == size ? content : nil
    }

    /// Up to `count` bytes from `offset` on; fewer only at the end of the file.
    package func bytes(at offset: Int64, count: Int) throws(FileSystemError) -> [UInt8] {
        do throws(FileSystemError) {
            return try fileSystem.readBytes(of: descriptor, at: offset, count: count)
        } catch {
            throw error.named(path)
        }
    }

    /// The whole content; see ``POSIXFileSystem/readContents(of:maximumSizeInBytes:)``.
    package func contents(maximumSizeInBytes: Int = .max) throws(FileSystemError) -> [UInt8] {
        do throws(FileSystemError) {
            return try fileSystem.readContents(of: descriptor, maximumSizeInBytes: maximumSizeInBytes)
        } catch {
            throw error.named(path)
        }
    }

    /// Flushes the file.
    package func synchronize(_ level: SyncLevel) throws(FileSystemError) {
        do throws(FileSystemError) { try fileSystem.synchronize(descriptor, level) } catch { throw error.named(path) }
    }

    // MARK: Status

    /// The present status.
    package func currentStatus() throws(FileSystemError) -> FileStatus {
        try fileSystem.status(of: descriptor, named: path)
    }

    /// Whether a path with this status still leads to the file, and nothing has written to it since it was opened.
    ///
    /// While the file is open, its inode number is not reused.
    package func isStill(_ now: FileStatus) -> Bool {
        now.inode == status.inode && now.device == status.device && now.sizeInBytes == status.sizeInBytes
            && now.modified == status.modified && now.changed == status.changed
    }

    /// The attributes that a store has given the file; see ``FileAttributes``.
    package func attributes() throws(FileSystemError) -> [String: [UInt8]] {
        do throws(FileSystemError) {
            return try fileSystem.fileAttributes(of: descriptor)
        } catch {
            throw error.named(path)
        }
    }
}

extension POSIXFileSystem {
    /// The status of an open file, with the path in errors.
    func status(of descriptor: Descriptor, named path: POSIXPath) throws(FileSystemError) -> FileStatus {
        do throws(FileSystemError) { return try status(of: .descriptor(descriptor)) } catch { throw error.named(path) }
    }

    /// Opens for reading, again after an interruption by a signal.
    func openRetrying(
        _ path: POSIXPath, at directory: Descriptor, options: FileDescriptor.OpenOptions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try retryingInterrupts { () throws(FileSystemError) in
            try open(path, at: directory, .readOnly, options: options, permissions: [], resolution: resolution)
        }
    }
}

/// An open directory, which is closed with its last reference.
///
/// The descriptor does not leave the methods: an object may be released after its last use, and a descriptor that is
/// still used then could be that of another file.
package final class OpenDirectory: Sendable {
    package let fileSystem: any POSIXFileSystem

    /// The path of the directory in errors.
    package let path: POSIXPath

    /// The status of the directory when it was opened.
    package let status: FileStatus

    private let descriptor: Descriptor

    /// Opens a directory.
    ///
    /// - Parameters:
    ///   - path: The path of the directory.
    ///   - directory: The start of a relative path.
    ///   - resolution: Limits on path resolution.
    ///   - fileSystem: The file system.
    /// - Throws: ``FileSystemError`` as ``POSIXFileSystem/open(_:at:_:options:permissions:resolution:)``.
    package init(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = [],
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let descriptor = try fileSystem.openRetrying(
            path, at: directory, options: [.directory], resolution: resolution)
        do throws(FileSystemError) {
            status = try fileSystem.status(of: descriptor, named: path)
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.path = path
        self.fileSystem = fileSystem
    }

    deinit {
        fileSystem.discard(descriptor)
    }

    /// The identity of the directory, which no other has while it is open.
    package var identity: DirectoryIdentity { DirectoryIdentity(status) }

    /// Calls `body` with the descriptor, which it must not keep.
    package func use<Result: ~Copyable>(
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try body(descriptor)
    }

    /// The status of an entry, or of a link itself; nil if there is none.
    package func statusIfPresent(_ name: POSIXPath) throws(FileSystemError) -> FileStatus? {
        do throws(FileSystemError) {
            return try fileSystem.status(name, at: descriptor, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// All names except `.` and `..`, in no particular order.
    package func entries() throws(FileSystemError) -> [DirectoryEntry] { try fileSystem.entries(of: descriptor) }

    /// Removes the name of a file that is not a directory.
    package func unlink(_ name: POSIXPath) throws(FileSystemError) { try fileSystem.unlink(name, at: descriptor) }

    /// Makes the names in the directory durable, where the file system can do that.
    package func synchronize() throws(FileSystemError) { try fileSystem.synchronizeDirectory(descriptor) }
}
