#if os(Linux)
import CForgeFileSystem
import Synchronization
import SystemPackage

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

// Memory safety: As in `Syscalls.swift`: an address is valid during the call, and passed with its size.

/// RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS and RESOLVE_BENEATH of openat2(2).
private let resolveNoMounts: UInt64 = 0x01
private let resolveNoMagicLinks: UInt64 = 0x02
private let resolveNoSymlinks: UInt64 = 0x04
private let resolveBeneath: UInt64 = 0x08

/// AT_EMPTY_PATH of statx(2).
private let emptyPath: CInt = 0x1000

/// RENAME_NOREPLACE and RENAME_EXCHANGE of renameat2(2).
private let renameNoReplace: UInt32 = 1
private let renameExchange: UInt32 = 2

func sysOpenRestricted(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t, _ resolution: PathResolution
) -> CInt {
    var resolve = resolveNoMagicLinks
    if resolution.contains(.beneath) { resolve |= resolveBeneath }
    if resolution.contains(.noSymbolicLinks) { resolve |= resolveNoSymlinks }
    // openat2, unlike open, refuses a mode if nothing can be created.
    let mode = flags & O_CREAT == 0 ? 0 : UInt64(mode & 0o7777)
    for _ in 0..<4096 {
        let descriptor = unsafe forge_openat2(directory, path, UInt64(UInt32(bitPattern: flags)), mode, resolve)
        if descriptor >= 0 { return descriptor }
        // EAGAIN: a concurrent rename interfered with the check. ENOSYS, EPERM: an old kernel, or a sandbox.
        if errno == EAGAIN { continue }
        let isMissing = errno == ENOSYS || errno == EPERM
        guard isMissing, resolution == [.beneath, .noSymbolicLinks] else { return descriptor }
        return unsafe sysOpenWalking(directory, path, flags, mode_t(mode))
    }
    errno = EAGAIN
    return -1
}

/// RESOLVE_CACHED of openat2(2), Linux 5.12: only what is in memory.
private let resolveCached: UInt64 = 0x20

/// O_PATH of open(2), which the C libraries define for C alone.
private let statusOnly: CInt = 0o10_000_000

/// Opens a file whose name and inode are in memory, for reading, or only for its status; otherwise EAGAIN.
func sysOpenCached(
    _ directory: CInt, _ path: POSIXPath, isForStatus: Bool, _ resolution: PathResolution
) -> CInt {
    let flags = O_NOFOLLOW | O_CLOEXEC | (isForStatus ? statusOnly : O_RDONLY | O_NONBLOCK)
    var resolve = resolveCached | resolveNoMagicLinks
    if resolution.contains(.beneath) { resolve |= resolveBeneath }
    if resolution.contains(.noSymbolicLinks) { resolve |= resolveNoSymlinks }
    return unsafe path.withCString {
        unsafe forge_openat2(directory, $0, UInt64(UInt32(bitPattern: flags)), 0, resolve)
    }
}

func sysReadCached(_ descriptor: CInt, _ buffer: inout OutputRawSpan, _ offset: Int64) -> Int {
    unsafe sysAppend(to: &buffer) { unsafe forge_read_cached(descriptor, $0.baseAddress, $0.count, offset) }
}

/// Watches an open directory, by the path of its descriptor.
func sysWatch(_ inotify: CInt, _ directory: Descriptor, _ mask: UInt32) -> CInt {
    unsafe inotify_add_watch(inotify, "/proc/self/fd/\(directory.rawValue)", mask)
}

func sysIsLocal(_ descriptor: CInt) -> Bool { forge_is_on_local_file_system(descriptor) != 0 }

/// openat2(2) refuses to cross a mount point with EXDEV.
func sysIsMountPoint(_ directory: CInt, _ name: UnsafePointer<CChar>) -> Bool {
    let flags = UInt64(UInt32(bitPattern: O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC))
    let descriptor = unsafe forge_openat2(directory, name, flags, 0, resolveNoMounts)
    guard descriptor >= 0 else { return errno == EXDEV }
    _ = sysClose(descriptor)
    return false
}

func sysRename(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ newDirectory: CInt, _ newPath: UnsafePointer<CChar>,
    _ mode: RenameMode
) -> CInt {
    switch mode {
    case .replacing: unsafe renameat(directory, path, newDirectory, newPath)
    case .exclusive: unsafe forge_renameat2(directory, path, newDirectory, newPath, renameNoReplace)
    case .exchanging: unsafe forge_renameat2(directory, path, newDirectory, newPath, renameExchange)
    }
}

/// The kernel takes modification times from a clock that advances every few milliseconds.
func sysPreciseTime() -> FileTime? {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    return FileTime(seconds: Int64(now.tv_sec), nanoseconds: Int32(now.tv_nsec))
}

/// copy_file_range(2) shares the blocks where the file system can (FICLONERANGE of ioctl_ficlonerange(2)).
func sysCopyRange(_ source: CInt, _ sourceOffset: Int64, _ target: CInt, _ targetOffset: Int64, _ count: Int) -> Int {
    forge_copy_file_range(source, sourceOffset, target, targetOffset, count)
}

/// statx(2) without times, of a name or, with an empty one, of a descriptor; fstat(2) and fstatat(2) where a kernel
/// before 4.11 or a sandbox refuses it.
func sysBriefStatus(_ descriptor: CInt, _ status: inout BriefFileStatus) -> CInt {
    if let result = unsafe sysStatusWithoutTimes(descriptor, "", &status, emptyPath) { return result }
    var full = sysEmptyStatus()
    let result = sysStatus(descriptor, &full)
    if result == 0 { status = BriefFileStatus(FileStatus(full)) }
    return result
}

func sysBriefStatus(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ status: inout BriefFileStatus, _ flags: CInt
) -> CInt {
    if let result = unsafe sysStatusWithoutTimes(directory, path, &status, flags) { return result }
    var full = sysEmptyStatus()
    let result = unsafe sysStatus(directory, path, &full, flags)
    if result == 0 { status = BriefFileStatus(FileStatus(full)) }
    return result
}

/// Nil where the system does not provide it.
private func sysStatusWithoutTimes(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ status: inout BriefFileStatus, _ flags: CInt
) -> CInt? {
    var found = forge_brief_status()
    let result = unsafe forge_status_without_times(directory, path, flags, &found)
    guard result == 0 else { return errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP ? nil : result }
    status = BriefFileStatus(inode: found.inode, sizeInBytes: Int64(found.size), linkCount: found.link_count)
    return 0
}

func sysStartWritingBack(_ descriptor: CInt) {
    forge_start_writing_back(descriptor)
}

/// The namespace of the attributes that the owner of a file may define (xattr(7)).
let sysAttributePrefix = "user."

func sysListAttributes(_ descriptor: CInt, _ names: UnsafeMutableRawBufferPointer) -> Int {
    unsafe forge_list_attributes(descriptor, names.baseAddress?.assumingMemoryBound(to: CChar.self), names.count)
}

func sysGetAttribute(
    _ descriptor: CInt, _ name: UnsafePointer<CChar>, _ value: UnsafeMutableRawBufferPointer
) -> Int {
    unsafe forge_get_attribute(descriptor, name, value.baseAddress, value.count)
}

func sysSetAttribute(_ descriptor: CInt, _ name: UnsafePointer<CChar>, _ value: UnsafeRawBufferPointer) -> CInt {
    unsafe forge_set_attribute(descriptor, name, value.baseAddress, value.count)
}

/// The error number for an attribute that a file does not have.
let sysNoAttribute = ENODATA

/// Always false: device locks do not remove pages.
func sysMayLosePages(_ descriptor: CInt) -> Bool { false }

func sysSynchronize(_ descriptor: CInt, _ level: SyncLevel) -> CInt {
    switch level {
    case .full: fsync(descriptor)
    case .data, .barrier: fdatasync(descriptor)
    }
}

extension SystemFileSystem {
    /// Flushes all files and names of the file system that holds an open file, and waits for the device (`syncfs(2)`).
    ///
    /// - Throws: ``FileSystemError``, also if the system could not write anything of this file system since the
    ///   descriptor was opened (Linux 5.8).
    package func synchronizeFileSystem(of descriptor: Descriptor) throws(FileSystemError) {
        try calling(.synchronize) { forge_synchronize_file_system(descriptor.rawValue) }
    }
}

/// fsync(2) and fdatasync(2) report pages that could not be written, however they were modified (Linux 4.13).
let sysReportsErrorsOfMappings = true

/// No operation: fsync(2) and fdatasync(2) flush every modified page of a file, however it was modified, because a page
/// that was written back is write-protected until the next store into it is noticed (mm/page-writeback.c,
/// folio_clear_dirty_for_io; msync(2) on MS_ASYNC).
func sysWriteBack(_ base: UnsafeMutableRawPointer, _ count: Int) -> CInt { 0 }

/// Returns the error number, like posix_fallocate(3).
func sysAllocate(_ descriptor: CInt, _ offset: Int64, _ length: Int64) -> CInt {
    posix_fallocate(descriptor, off_t(offset), off_t(length))
}

/// Serialises listings that share the offset of a descriptor.
private let sharedPosition = Mutex(())

func sysEntries(_ directory: CInt) throws(FileSystemError) -> [DirectoryEntry] {
    // A separate open file: all users of a descriptor share its offset.
    let descriptor = unsafe openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor < 0 else {
        defer { close(descriptor) }
        return try sysReadEntries(descriptor)
    }
    let error = Errno(rawValue: errno)
    guard error == .permissionDenied else { throw FileSystemError(.list, error) }
    // The directory is readable but not searchable: "." cannot be resolved in it.
    return try sharedPosition.withLock { (_) throws(FileSystemError) in
        guard lseek(directory, 0, SEEK_SET) == 0 else { throw FileSystemError(.list, Errno(rawValue: errno)) }
        // read(2) of a directory fails with another error beyond the offset of the last entry.
        defer { lseek(directory, 0, SEEK_SET) }
        return try sysReadEntries(directory)
    }
}

private func sysReadEntries(_ descriptor: CInt) throws(FileSystemError) -> [DirectoryEntry] {
    var entries: [DirectoryEntry] = []
    let dot = UInt8(ascii: ".")
    let capacity = 1 << 16
    let buffer = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
    defer { unsafe buffer.deallocate() }
    while true {
        let used = unsafe forge_getdents64(descriptor, buffer, capacity)
        guard used >= 0 else { throw FileSystemError(.list, Errno(rawValue: errno)) }
        if used == 0 { return entries }
        // struct linux_dirent64: u64 inode, s64 offset, u16 record length, u8 type, name with its NUL.
        var position = 0
        while position < used {
            let record = unsafe UnsafeRawPointer(buffer + position)
            unsafe position += Int(record.loadUnaligned(fromByteOffset: 16, as: UInt16.self))
            let start = unsafe record + 19
            let bytes = unsafe UnsafeRawBufferPointer(
                start: start, count: strlen(start.assumingMemoryBound(to: CChar.self)))
            if bytes.count <= 2, unsafe bytes.allSatisfy({ $0 == dot }) { continue }
            let name = unsafe POSIXPath(bytes)
            unsafe entries.append(
                DirectoryEntry(
                    name: name,
                    type: try sysType(record.load(fromByteOffset: 18, as: UInt8.self), of: name, in: descriptor),
                    inode: record.loadUnaligned(as: UInt64.self)))
        }
    }
}

extension timespec {
    /// The time, or the constant that leaves a time unchanged (UTIME_OMIT).
    init(_ time: FileTime?) {
        self.init(tv_sec: time.map { Int($0.seconds) } ?? 0, tv_nsec: time.map { Int($0.nanoseconds) } ?? 0x3fff_fffe)
    }
}

extension FileStatus {
    init(_ status: SysStatus) {
        let mode = FileMode(rawValue: status.st_mode)
        self.init(
            type: mode.type, permissions: mode.permissions, sizeInBytes: Int64(status.st_size),
            allocatedSizeInBytes: Int64(status.st_blocks) * 512, inode: UInt64(status.st_ino),
            device: UInt64(status.st_dev), linkCount: UInt64(status.st_nlink), owner: UserID(status.st_uid),
            group: GroupID(status.st_gid), accessed: FileTime(status.st_atim), modified: FileTime(status.st_mtim),
            changed: FileTime(status.st_ctim))
    }
}

extension FileTime {
    fileprivate init(_ time: timespec) {
        self.init(seconds: Int64(time.tv_sec), nanoseconds: Int32(truncatingIfNeeded: time.tv_nsec))
    }
}

extension ProtectionPlatform {
    static let current = linux
}
#endif
