#if canImport(Darwin)
import Darwin
import SystemPackage

// Memory safety: As in `Syscalls.swift`: an address is valid during the call, and passed with its size.

func sysOpenRestricted(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t, _ resolution: PathResolution
) -> CInt {
    switch resolution {
    case [.beneath, .noSymbolicLinks]:
        return unsafe sysOpenWalking(directory, path, flags, mode)
    case [.noSymbolicLinks]:
        return unsafe openat(directory, path, sysFlags(flags, replacing: O_NOFOLLOW, by: O_NOFOLLOW_ANY), mode)
    default:
        // No system call confines a path resolution that follows links.
        errno = ENOTSUP
        return -1
    }
}

/// Reads the times too: that has no side effect on Darwin, unlike on Linux (``BriefFileStatus``).
func sysBriefStatus(_ descriptor: CInt, _ status: inout BriefFileStatus) -> CInt {
    var full = sysEmptyStatus()
    let result = sysStatus(descriptor, &full)
    if result == 0 { status = BriefFileStatus(FileStatus(full)) }
    return result
}

func sysBriefStatus(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ status: inout BriefFileStatus, _ flags: CInt
) -> CInt {
    var full = sysEmptyStatus()
    let result = unsafe sysStatus(directory, path, &full, flags)
    if result == 0 { status = BriefFileStatus(FileStatus(full)) }
    return result
}

/// There are no bind mounts: a mount point always has another device number.
func sysIsMountPoint(_ directory: CInt, _ name: UnsafePointer<CChar>) -> Bool { false }

/// There is no such call.
func sysOpenCached(
    _ directory: CInt, _ path: POSIXPath, isForStatus: Bool, _ resolution: PathResolution
) -> CInt {
    errno = ENOSYS
    return -1
}

func sysReadCached(_ descriptor: CInt, _ buffer: inout OutputRawSpan, _ offset: Int64) -> Int {
    errno = ENOSYS
    return -1
}

func sysIsLocal(_ descriptor: CInt) -> Bool { false }

func sysRename(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ newDirectory: CInt, _ newPath: UnsafePointer<CChar>,
    _ mode: RenameMode
) -> CInt {
    switch mode {
    case .replacing: unsafe renameat(directory, path, newDirectory, newPath)
    case .exclusive: unsafe renameatx_np(directory, path, newDirectory, newPath, UInt32(RENAME_EXCL))
    case .exchanging: unsafe renameatx_np(directory, path, newDirectory, newPath, UInt32(RENAME_SWAP))
    }
}

/// Nil: APFS assigns times to the nanosecond and never reuses inode numbers.
func sysPreciseTime() -> FileTime? { nil }

/// Clones are made of whole files and by name (fclonefileat(2)); fcopyfile(3) reads and writes in the process.
func sysCopyRange(_ source: CInt, _ sourceOffset: Int64, _ target: CInt, _ targetOffset: Int64, _ count: Int) -> Int {
    errno = ENOTSUP
    return -1
}

func sysStartWritingBack(_ descriptor: CInt) {}

/// fsync(2) on Darwin leaves data in the device's cache; F_FULLFSYNC flushes that too, if the file system supports it.
func sysSynchronize(_ descriptor: CInt, _ level: SyncLevel) -> CInt {
    let result = fcntl(descriptor, level == .barrier ? F_BARRIERFSYNC : F_FULLFSYNC)
    guard result == -1, errno == ENOTSUP || errno == ENOTTY || errno == EINVAL else { return result }
    return fsync(descriptor)
}

/// msync(2) drops the error of a page that the pager could not write (`vm_map_msync` in osfmk/vm/vm_map.c of xnu), and
/// F_FULLFSYNC does not see the page any more.
let sysReportsErrorsOfMappings = false

/// fsync(2) and F_FULLFSYNC flush only pages known to be modified; stores become known through msync(2).
func sysWriteBack(_ base: UnsafeMutableRawPointer, _ count: Int) -> CInt {
    unsafe msync(base, count, MS_SYNC)
}

/// None: there are no namespaces of attributes.
let sysAttributePrefix = ""

func sysListAttributes(_ descriptor: CInt, _ names: UnsafeMutableRawBufferPointer) -> Int {
    unsafe flistxattr(descriptor, names.baseAddress?.assumingMemoryBound(to: CChar.self), names.count, 0)
}

func sysGetAttribute(
    _ descriptor: CInt, _ name: UnsafePointer<CChar>, _ value: UnsafeMutableRawBufferPointer
) -> Int {
    unsafe fgetxattr(descriptor, name, value.baseAddress, value.count, 0, 0)
}

func sysSetAttribute(_ descriptor: CInt, _ name: UnsafePointer<CChar>, _ value: UnsafeRawBufferPointer) -> CInt {
    unsafe fsetxattr(descriptor, name, value.baseAddress, value.count, 0, 0)
}

/// The error number for an attribute that a file does not have.
let sysNoAttribute = ENOATTR

func sysMayLosePages(_ descriptor: CInt) -> Bool {
    sysLosesPages(protectionClass: fcntl(descriptor, F_GETPROTECTIONCLASS))
}

/// Returns the error number, like posix_fallocate(3), which Darwin lacks.
func sysAllocate(_ descriptor: CInt, _ offset: Int64, _ length: Int64) -> CInt {
    guard offset >= 0, length > 0 else { return EINVAL }
    let (end, overflow) = offset.addingReportingOverflow(length)
    guard !overflow else { return EFBIG }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return errno }
    guard end > status.st_size else { return 0 }
    var store = fstore_t(
        fst_flags: UInt32(F_ALLOCATEALL), fst_posmode: F_PEOFPOSMODE, fst_offset: 0,
        fst_length: end - status.st_size, fst_bytesalloc: 0)
    guard unsafe fcntl(descriptor, F_PREALLOCATE, &store) != -1 else { return errno }
    return ftruncate(descriptor, end) == 0 ? 0 : errno
}

func sysEntries(_ descriptor: CInt) throws(FileSystemError) -> [DirectoryEntry] {
    // A separate open file, because fdopendir(3) takes ownership of the descriptor.
    let copy = unsafe openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard copy >= 0 else { throw FileSystemError(.list, Errno(rawValue: errno)) }
    guard let stream = unsafe fdopendir(copy) else {
        let number = errno
        close(copy)
        throw FileSystemError(.list, Errno(rawValue: number))
    }
    defer { unsafe closedir(stream) }
    var entries: [DirectoryEntry] = []
    while true {
        errno = 0
        guard let record = unsafe readdir(stream) else {
            if errno != 0 { throw FileSystemError(.list, Errno(rawValue: errno)) }
            return entries
        }
        let name = unsafe withUnsafeBytes(of: &record.pointee.d_name) { bytes in
            unsafe POSIXPath(bytes.prefix(Int(record.pointee.d_namlen)))
        }
        if name == "." || name == ".." { continue }
        unsafe entries.append(
            DirectoryEntry(
                name: name, type: try sysType(record.pointee.d_type, of: name, in: descriptor),
                inode: record.pointee.d_ino))
    }
}

extension timespec {
    /// The time, or the constant that leaves a time unchanged (UTIME_OMIT).
    init(_ time: FileTime?) {
        self.init(tv_sec: time.map { Int($0.seconds) } ?? 0, tv_nsec: time.map { Int($0.nanoseconds) } ?? -2)
    }
}

extension FileStatus {
    init(_ status: SysStatus) {
        let mode = FileMode(rawValue: status.st_mode)
        self.init(
            type: mode.type, permissions: mode.permissions, sizeInBytes: Int64(status.st_size),
            allocatedSizeInBytes: Int64(status.st_blocks) * 512, inode: UInt64(status.st_ino),
            device: UInt64(UInt32(bitPattern: status.st_dev)), linkCount: UInt64(status.st_nlink),
            owner: UserID(status.st_uid), group: GroupID(status.st_gid), accessed: FileTime(status.st_atimespec),
            modified: FileTime(status.st_mtimespec), changed: FileTime(status.st_ctimespec))
    }
}

extension FileTime {
    fileprivate init(_ time: timespec) {
        self.init(seconds: Int64(time.tv_sec), nanoseconds: Int32(truncatingIfNeeded: time.tv_nsec))
    }
}

extension ProtectionPlatform {
    #if os(macOS) || targetEnvironment(macCatalyst)
    static let current = macOS
    #elseif os(tvOS)
    static let current = tvOS
    #elseif os(watchOS)
    static let current = watchOS
    #elseif os(visionOS)
    static let current = visionOS
    #else
    static let current = iOS
    #endif
}
#endif
