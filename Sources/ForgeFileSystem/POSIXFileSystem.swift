public import Dispatch
public import SystemPackage

// Memory safety: An implementation of `read` writes at most `buffer.count` bytes to a buffer, and one of `write`
// reads no more than these. Neither keeps the address.

/// A complete POSIX file system: descriptors, names, links, attributes, locks and synchronisation.
///
/// Every store on disk uses this protocol, so the code that runs on ``SystemFileSystem`` in production is the code that
/// tests run, fail and crash on ``InMemoryFileSystem``.
///
/// A path is a string of bytes (``POSIXPath``), relative to an open directory, by default the working directory, unless
/// it is absolute. A path that contains a NUL is refused with `EINVAL` before any effect. An operation that throws has
/// changed nothing unless its comment says otherwise. `EINTR` is passed on, never retried here; conveniences such as
/// `readFully` and `writeFully` retry.
///
/// All calls are thread-safe. They block the calling thread while the device is busy.
public protocol POSIXFileSystem: FileSystemProtocol {
    // MARK: Descriptors

    /// Opens, and with `.create` creates, a file or directory (`openat(2)`).
    ///
    /// The descriptor is always closed on `exec`, regardless of `options`.
    ///
    /// - Parameters:
    ///   - path: The path to open.
    ///   - directory: The start of a relative path.
    ///   - mode: Reading, writing or both.
    ///   - options: Creation, truncation (which needs the permission to write, and empties the file for a reader too),
    ///     append and so on.
    ///   - permissions: The mode of a new file, before the umask is applied; ignored otherwise.
    ///   - resolution: Limits on path resolution; none by default.
    /// - Returns: The lowest free descriptor.
    /// - Throws: ``FileSystemError``; no file was created or truncated.
    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor

    /// Closes a descriptor (`close(2)`); it is released even if the call throws.
    func close(_ descriptor: Descriptor) throws(FileSystemError)

    /// A second descriptor of the same open file, which shares offset and lock (`dup(2)`).
    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor

    // MARK: Content

    /// Reads up to `buffer.count` bytes; 0 at the end of the file (`read(2)`, `pread(2)`).
    ///
    /// - Parameters:
    ///   - descriptor: The open file.
    ///   - buffer: The destination.
    ///   - offset: The offset to read at, without moving the file's own; nil to read at that and move it.
    /// - Returns: The number of bytes read; fewer than requested near the end, or after a signal.
    /// - Throws: ``FileSystemError``; the offset has not moved.
    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int

    /// Writes up to `buffer.count` bytes and returns how many were written (`write(2)`, `pwrite(2)`).
    ///
    /// - Parameters:
    ///   - descriptor: The open file.
    ///   - buffer: The bytes.
    ///   - offset: The offset to write at, without moving the file's own; nil to write at that and move it. On a file
    ///     opened with `.append`, Linux ignores it and appends.
    /// - Returns: The number of bytes written; fewer than given when the disk became full, or after a signal.
    /// - Throws: ``FileSystemError``; nothing was written.
    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int

    /// Copies bytes from one open file to another without passing them through the process (`copy_file_range(2)`);
    /// throws `ENOTSUP` by default, and on Darwin, where no call copies a range.
    ///
    /// The file system may let both files share the blocks instead of copying them. Offsets of the files do not move.
    ///
    /// - Parameters:
    ///   - source: A regular file open for reading.
    ///   - sourceOffset: The offset of the first byte in it.
    ///   - target: Another regular file, open for writing without `.append`.
    ///   - targetOffset: The offset of the first byte in it.
    ///   - count: The number of bytes to copy.
    /// - Returns: The number of bytes copied, maybe fewer; 0 at the end of the file, and for files whose content is
    ///   generated when it is read, such as those of `/proc`.
    /// - Throws: ``FileSystemError``; `EXDEV`, `EINVAL`, `ENOSYS`, `ENOTSUP` and `EPERM` if these two files cannot be
    ///   copied in this way, but by reading and writing.
    func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int

    /// Moves the open file's offset and returns the new one (`lseek(2)`).
    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64

    /// Truncates a file or extends it by zeros (`truncate(2)`, `ftruncate(2)`).
    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError)

    /// Reserves space, so that writing to the range cannot fail for lack of space; extends the file by zeros as needed
    /// (`posix_fallocate(3)`).
    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError)

    /// Flushes a file's content, or the names in a directory, to the device (`fsync(2)`).
    ///
    /// After a failure it is undetermined what has reached the device, and a later success does not change that: stop
    /// using the file and recover from the content that a new open finds.
    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError)

    /// Starts to write a file's content to the device and does not wait for it (`sync_file_range(2)`); nothing by
    /// default.
    ///
    /// Several files that are started first and synchronised afterwards share the device's flushes. It promises nothing
    /// and reports no error: ``synchronize(_:_:)`` does.
    func startWritingBack(_ descriptor: Descriptor)

    /// Maps part of a file into memory, for reading and writing, shared with all other users of the file (`mmap(2)`
    /// with `MAP_SHARED`).
    ///
    /// See ``FileMapping`` for its guarantees. The range may extend beyond the end of the file, but must not be
    /// accessed there.
    ///
    /// - Parameters:
    ///   - descriptor: A regular file open for reading and writing; it may be closed immediately afterwards.
    ///   - offset: The offset in the file at which the mapping starts: a multiple of the page size; multiples of 65 536
    ///     work everywhere.
    ///   - count: The number of bytes to map, at least one.
    /// - Returns: The mapping, which lasts as long as the object.
    /// - Throws: ``FileSystemError``: `EACCES` unless the file is open for reading and writing; `ENODEV` for a file
    ///   that is not regular (`EINVAL` on Darwin), on a file system without mapping, and on Darwin for a file of the
    ///   protection class `complete`, whose pages are removed when the device is locked; `EINVAL` for an invalid count
    ///   or offset; `EOVERFLOW` beyond the maximum file size; `ENOMEM`.
    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping

    // MARK: Attributes

    /// The status of a file (`fstatat(2)`).
    func status(of file: FileReference) throws(FileSystemError) -> FileStatus

    /// Inode, size and number of links of a file, without its times (`statx(2)`); by default those of its status.
    func briefStatus(of file: FileReference) throws(FileSystemError) -> BriefFileStatus

    /// Sets the permission bits (`fchmodat(2)`).
    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError)

    /// Sets owner and group; nil leaves either unchanged (`fchownat(2)`).
    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError)

    /// Sets the access and modification times; nil leaves either unchanged (`utimensat(2)`). `EINVAL` for nanoseconds
    /// outside of 0 to 999,999,999, also for those that are constants of the system (`UTIME_NOW`, `UTIME_OMIT`).
    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError)

    // MARK: Extended attributes

    /// The names of an open file's user attributes, in no particular order (`flistxattr(2)`); throws `ENOTSUP` by
    /// default.
    ///
    /// On Linux, user attributes are the extended attributes of the namespace `user.` (`xattr(7)`), a prefix that these
    /// three calls add and remove; on Darwin all extended attributes. A name that is not UTF-8 is omitted.
    ///
    /// - Throws: ``FileSystemError``: `ENOTSUP` if the file system has no such attributes.
    func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String]

    /// The value of a user attribute of an open file, or nil if the file has none of that name (`fgetxattr(2)`); throws
    /// `ENOTSUP` by default.
    ///
    /// - Parameters:
    ///   - name: The name, without the prefix `user.`.
    ///   - descriptor: A file that the process may read.
    /// - Returns: The value.
    /// - Throws: ``FileSystemError``: `E2BIG` for a value above 65,536 bytes; `ENOTSUP`; for an invalid name as
    ///   ``setExtendedAttribute(_:to:of:)``.
    func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]?

    /// Sets a user attribute of an open file, replacing an earlier value (`fsetxattr(2)`); throws `ENOTSUP` by default.
    ///
    /// The change is atomic, updates the change time and is made durable by ``synchronize(_:_:)`` with
    /// ``SyncLevel/full``. Hard links share the attributes, and a rename keeps them.
    ///
    /// - Parameters:
    ///   - name: The name, without the prefix `user.`: up to 250 bytes on Linux, 127 on Darwin, without a NUL.
    ///   - value: Any bytes. On ext4 all attributes of a file must fit into a block.
    ///   - descriptor: A regular file or a directory that the process may write to, however it was opened.
    /// - Throws: ``FileSystemError``: `EINVAL` for an empty name or one with a NUL, `ERANGE` (`ENAMETOOLONG` on Darwin)
    ///   for a longer name, `E2BIG` for a value above 65,536 bytes, `ENOSPC` or `EDQUOT` if the attributes do not fit,
    ///   `EPERM` for a file of another type, `ENOTSUP` if the file system has no such attributes.
    func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError)

    // MARK: Names

    /// Creates a directory (`mkdirat(2)`).
    func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError)

    /// Creates an empty file, a FIFO, a socket node or a device node (`mknodat(2)`); `deviceNumber` applies to devices
    /// only.
    ///
    /// - Throws: ``FileSystemError``: `EPERM`, or `EINVAL` on some systems, for a directory.
    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError)

    /// Creates a symbolic link with the bytes of `target`, which need not exist (`symlinkat(2)`).
    func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError)

    /// The target of a symbolic link (`readlinkat(2)`).
    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath

    /// Adds a hard link to a file; a symbolic link is linked itself, not followed (`linkat(2)`).
    func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError)

    /// Renames, atomically (`renameat2(2)`).
    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError)

    /// Removes the name of a file that is not a directory (`unlinkat(2)`); open descriptors stay usable.
    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError)

    /// Removes an empty directory (`unlinkat(2)` with `AT_REMOVEDIR`).
    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError)

    /// All names in an open directory except `.` and `..`, in no particular order (`readdir(3)`).
    ///
    /// A name that is added or removed meanwhile may be included or not; every other name is included exactly once.
    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry]

    // MARK: Locks

    /// Takes, changes or releases the lock of an open file (`flock(2)`).
    ///
    /// The locks of `fcntl(2)` are deliberately not supported. They belong to a process: two opens of a file in one
    /// process do not conflict, and closing either of them releases the locks of the other, so no store could rely on
    /// them.
    ///
    /// - Parameters:
    ///   - descriptor: The open file.
    ///   - mode: The requested lock.
    ///   - waiting: Whether to wait for it; otherwise `EAGAIN` if another open file holds a conflicting lock.
    /// - Throws: ``FileSystemError``; a lock that was to be changed may be lost.
    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError)

    // MARK: Watching

    /// Creates an empty watch of directories (`inotify(7)`); by default throws `ENOTSUP`.
    ///
    /// Call ``DirectoryWatching/cancel()`` at the end, or its resources are never released.
    ///
    /// - Parameters:
    ///   - queue: A serial queue. The handlers are called on it, and it must make the calls of the watch.
    ///   - onEvents: Gets the events in the order of the changes.
    ///   - onCancel: Called once after a cancellation, when all resources are released and no event can follow.
    /// - Returns: The watch.
    /// - Throws: ``FileSystemError``: `EMFILE` or `ENFILE` at the limit of watches or of descriptors; `ENOTSUP`.
    func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching

    /// The signal by which processes that have a file open wake each other; by default nil, for none.
    ///
    /// On the operating system's file system it is nil too: there a word of a mapping is the signal.
    ///
    /// - Parameter descriptor: An open file. All signals of one file are the same, whichever process makes them.
    /// - Returns: The signal; nil if the file system has none.
    /// - Throws: ``FileSystemError``: `EBADF` if the descriptor is not open.
    func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)?

    /// Whether ``FileMapping/writeBack()`` or the next ``synchronize(_:_:)`` fails if bytes stored into a mapping could
    /// not be written to the device; true by default. If it is false, write what must survive a power cut.
    var reportsErrorsOfMappings: Bool { get }

    // MARK: Identity

    /// The owner of the files that this process creates (`geteuid(2)`).
    var effectiveUser: UserID { get }

    // MARK: Time

    /// The present time, if the times that the file system assigns to files are too coarse to distinguish two writes in
    /// succession; nil by default.
    var preciseTime: FileTime? { get }

    // MARK: Chance

    /// 64 random bits, for the names of temporary files; by default from the system's generator.
    func randomBits() -> UInt64
}

extension POSIXFileSystem {
    /// Throws `ENODEV`, for file systems without mapping.
    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        throw FileSystemError(.map, .operationNotSupportedByDevice)
    }

    /// Throws `ENOTSUP`, for file systems without such a call.
    public func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        throw FileSystemError(.copyRange, .notSupported)
    }

    /// Throws `ENOTSUP`, for file systems without such attributes.
    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        throw FileSystemError(.listExtendedAttributes, .notSupported)
    }

    /// Throws `ENOTSUP`, for file systems without such attributes.
    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        throw FileSystemError(.readExtendedAttribute, .notSupported)
    }

    /// Throws `ENOTSUP`, for file systems without such attributes.
    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        throw FileSystemError(.setExtendedAttribute, .notSupported)
    }

    /// Throws `ENOTSUP`, for file systems that cannot watch.
    public func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        throw FileSystemError(.watch, .notSupported)
    }

    public func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? { nil }

    public func startWritingBack(_ descriptor: Descriptor) {}

    public var reportsErrorsOfMappings: Bool { true }

    public var preciseTime: FileTime? { nil }

    public func randomBits() -> UInt64 { .random(in: 0 ... .max) }
}

/// The same calls with default arguments.
extension POSIXFileSystem {
    /// Opens a file or directory; see the requirement of the same name.
    @inlinable public func open(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, _ mode: FileDescriptor.AccessMode = .readOnly,
        options: FileDescriptor.OpenOptions = [], permissions: FilePermissions = [.ownerReadWrite]
    ) throws(FileSystemError) -> Descriptor {
        try open(path, at: directory, mode, options: options, permissions: permissions, resolution: [])
    }

    /// Creates a directory that only its owner may enter, unless `permissions` is given.
    @inlinable public func createDirectory(
        _ path: POSIXPath, permissions: FilePermissions = [.ownerReadWriteExecute]
    ) throws(FileSystemError) {
        try createDirectory(path, at: .workingDirectory, permissions: permissions)
    }

    /// Renames, replacing an existing target unless `mode` is given.
    @inlinable public func rename(
        _ path: POSIXPath, to newPath: POSIXPath, _ mode: RenameMode = .replacing
    ) throws(FileSystemError) {
        try rename(path, at: .workingDirectory, to: newPath, at: .workingDirectory, mode)
    }

    /// Adds a hard link to a file.
    @inlinable public func link(_ path: POSIXPath, to newPath: POSIXPath) throws(FileSystemError) {
        try link(path, at: .workingDirectory, to: newPath, at: .workingDirectory)
    }

    /// Creates a symbolic link.
    @inlinable public func createSymbolicLink(_ path: POSIXPath, to target: POSIXPath) throws(FileSystemError) {
        try createSymbolicLink(path, at: .workingDirectory, to: target)
    }

    /// The target of a symbolic link.
    @inlinable public func readSymbolicLink(_ path: POSIXPath) throws(FileSystemError) -> POSIXPath {
        try readSymbolicLink(path, at: .workingDirectory)
    }

    /// Removes the name of a file that is not a directory.
    @inlinable public func unlink(_ path: POSIXPath) throws(FileSystemError) {
        try unlink(path, at: .workingDirectory)
    }

    /// Removes an empty directory.
    @inlinable public func removeDirectory(_ path: POSIXPath) throws(FileSystemError) {
        try removeDirectory(path, at: .workingDirectory)
    }

    /// Inode, size and number of links of a file, taken from its status.
    public func briefStatus(of file: FileReference) throws(FileSystemError) -> BriefFileStatus {
        BriefFileStatus(try status(of: file))
    }

    /// Whether a file exists at `path`; unlike `fileExists(atPath:)`, it throws if the lookup fails.
    public func exists(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true
    ) throws(FileSystemError) -> Bool {
        do {
            _ = try status(path, at: directory, followsSymbolicLinks: followsSymbolicLinks)
            return true
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// Opens a directory, for the caller to close.
    package func openDirectory(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = []
    ) throws(FileSystemError) -> Descriptor {
        try open(path, at: directory, .readOnly, options: [.directory], permissions: [], resolution: resolution)
    }

    /// The entries of a directory that is not open, except `.` and `..`.
    package func entries(
        ofDirectory path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = []
    ) throws(FileSystemError) -> [DirectoryEntry] {
        let descriptor = try openDirectory(path, at: directory, resolution: resolution)
        defer { discard(descriptor) }
        return try entries(of: descriptor)
    }

    /// Opens a directory, calls `body` with its descriptor and closes it again.
    public func withDirectory<Result>(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = [],
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let descriptor = try openDirectory(path, at: directory, resolution: resolution)
        defer { discard(descriptor) }
        return try body(descriptor)
    }

    /// Calls `body` and closes `descriptor`; an error of closing is thrown unless `body` has thrown.
    public func closing<Result>(
        _ descriptor: Descriptor, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let result: Result
        do {
            result = try body()
        } catch {
            // The first failure is the one to report; the descriptor is released in either case.
            do { try close(descriptor) } catch _ {}
            throw error
        }
        try close(descriptor)
        return result
    }
}
