public import SystemPackage

/// A whole file system in the terms of POSIX: descriptors, names, links, attributes, locks and synchronisation.
///
/// Every store on disk is written against this protocol, so the code that runs on ``SystemFileSystem`` in production is
/// the same that tests run, break and crash on ``InMemoryFileSystem``.
///
/// A path is a string of bytes (``POSIXPath``) that starts from an open directory, by default the working directory,
/// unless it is absolute. A path with a NUL inside is refused with `EINVAL` before anything happens. An operation that
/// throws has changed nothing unless its comment says otherwise. `EINTR` is passed on, never retried here; the
/// conveniences `readFully`, `writeFully` and their like retry.
///
/// All calls may come from any thread at once. They block the calling thread for as long as the device takes.
public protocol POSIXFileSystem: FileSystemProtocol {
    // MARK: Descriptors

    /// Opens, and with `.create` creates, a file or directory (`openat(2)`).
    ///
    /// The descriptor is always closed on `exec`, whether `options` says so or not.
    ///
    /// - Parameters:
    ///   - path: What to open.
    ///   - directory: Where a relative path starts.
    ///   - mode: Reading, writing or both.
    ///   - options: Creation, truncation, append and so on.
    ///   - permissions: The mode of a file that is created, less the umask; ignored otherwise.
    ///   - resolution: Limits on path resolution; none by default.
    /// - Returns: The lowest descriptor that is free.
    /// - Throws: ``FileSystemError``; no file was created or cut short.
    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor

    /// Gives a descriptor back (`close(2)`); it is gone even if the call throws.
    func close(_ descriptor: Descriptor) throws(FileSystemError)

    /// A second descriptor of the same open file: offset and lock are shared (`dup(2)`).
    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor

    // MARK: Content

    /// Reads up to `buffer.count` bytes; 0 at the end of the file (`read(2)`, `pread(2)`).
    ///
    /// - Parameters:
    ///   - descriptor: The open file.
    ///   - buffer: Where the bytes go.
    ///   - offset: Where to read, leaving the file's own offset alone; nil to read there and move it.
    /// - Returns: How many bytes were read; fewer than asked for near the end, or when a signal came.
    /// - Throws: ``FileSystemError``; the offset has not moved.
    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int

    /// Writes up to `buffer.count` bytes and returns how many were taken (`write(2)`, `pwrite(2)`).
    ///
    /// - Parameters:
    ///   - descriptor: The open file.
    ///   - buffer: The bytes.
    ///   - offset: Where to write, leaving the file's own offset alone; nil to write there and move it. On a file
    ///     opened with `.append`, Linux appends whatever the offset says.
    /// - Returns: How many bytes were taken; fewer than given when the disk filled up, or a signal came.
    /// - Throws: ``FileSystemError``; nothing was written.
    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int

    /// Moves the open file's offset and returns the new one (`lseek(2)`).
    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64

    /// Cuts a file short or extends it by zeros (`truncate(2)`, `ftruncate(2)`).
    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError)

    /// Reserves space, so that writing to the range cannot fail for lack of it; extends the file by zeros as needed
    /// (`posix_fallocate(3)`).
    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError)

    /// Pushes what was written to a file, or the names in a directory, to the device (`fsync(2)`).
    ///
    /// After a failure it is undecided what has reached the device, and a later success says nothing about it: give the
    /// file up and recover from what a new open finds.
    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError)

    /// Maps part of a file into memory, for reading and writing, shared with everyone who maps, reads or writes the
    /// file (`mmap(2)` with `MAP_SHARED`).
    ///
    /// ``FileMapping`` says what may be relied on. The range may reach beyond the end of the file, but not be used
    /// there.
    ///
    /// - Parameters:
    ///   - descriptor: A regular file that is open for reading and writing; it may be closed right after.
    ///   - offset: Where in the file the mapping starts: a multiple of the size of a page, such as 65 536 everywhere.
    ///   - count: How many bytes to map, at least one.
    /// - Returns: The mapping, which lasts as long as the object does.
    /// - Throws: ``FileSystemError``: `EACCES` unless the file is open for reading and writing, `ENODEV` for what can
    ///   be so opened but is no regular file (`EINVAL` on Darwin), on a file system that cannot map, and on Darwin for
    ///   a file of the class of protection `complete`, whose pages are taken away when the device is locked; `EINVAL`
    ///   for a count or an offset that is none, `EOVERFLOW` behind the end of the largest file, `ENOMEM`.
    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping

    // MARK: Attributes

    /// What there is to know of a file (`fstatat(2)`).
    func status(of file: FileReference) throws(FileSystemError) -> FileStatus

    /// Sets the permission bits (`fchmodat(2)`).
    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError)

    /// Sets owner and group, each left alone where nil (`fchownat(2)`).
    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError)

    /// Sets the times of last access and modification, each left alone where nil (`utimensat(2)`).
    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError)

    // MARK: Names

    /// Creates a directory (`mkdirat(2)`).
    func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError)

    /// Creates an empty file, a FIFO, a socket's name or a device node (`mknodat(2)`); `deviceNumber` counts for
    /// devices.
    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError)

    /// Creates a symbolic link that holds the bytes of `target`, whatever they lead to (`symlinkat(2)`).
    func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError)

    /// The bytes that a symbolic link holds (`readlinkat(2)`).
    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath

    /// Gives a file one more name; a symbolic link is linked itself, not followed (`linkat(2)`).
    func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError)

    /// Moves a name, atomically (`renameat2(2)`).
    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError)

    /// Removes the name of anything but a directory (`unlinkat(2)`); open descriptors go on reading and writing.
    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError)

    /// Removes an empty directory (`unlinkat(2)` with `AT_REMOVEDIR`).
    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError)

    /// All names in an open directory but `.` and `..`, in no particular order (`readdir(3)`).
    ///
    /// A name that is added or removed meanwhile may be there or not; every other name is there exactly once.
    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry]

    // MARK: Locks

    /// Takes, changes or gives back the lock of an open file (`flock(2)`).
    ///
    /// The locks of `fcntl(2)` are left out on purpose. They belong to a process: two opens of a file in one process
    /// are not in each other's way, and closing either of them gives up what the other has locked, so that no store
    /// could rely on them.
    ///
    /// - Parameters:
    ///   - descriptor: The open file.
    ///   - mode: The lock wanted.
    ///   - waiting: Whether to wait for it; if not, `EAGAIN` when another open file is in the way.
    /// - Throws: ``FileSystemError``; a lock that was to be changed may be lost.
    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError)

    // MARK: Identity

    /// The user who owns what this process creates (`geteuid(2)`).
    var effectiveUser: UserID { get }

    // MARK: Chance

    /// 64 random bits, for the names of temporary files; the system's generator unless the file system has its own.
    func randomBits() -> UInt64
}

extension POSIXFileSystem {
    /// Refuses with `ENODEV`, as a file system does that cannot map.
    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        throw FileSystemError(.map, .operationNotSupportedByDevice)
    }

    public func randomBits() -> UInt64 { .random(in: 0 ... .max) }
}
