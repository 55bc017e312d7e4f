import CForgeFileSystem
import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

// Memory safety: A system call gets an address with the size of the memory there, and uses it only during the call. A
// path is a C string for that time. Memory that a call fills counts as initialised up to the number that it returns.

// The system calls that Linux and Darwin share, named `sys…` so that methods of the same name do not shadow them.

typealias SysStatus = stat

func sysEmptyStatus() -> SysStatus { stat() }

func sysDirectory(_ directory: Descriptor) -> CInt {
    directory == .workingDirectory ? AT_FDCWD : directory.rawValue
}

func sysFlags(_ followsSymbolicLinks: Bool) -> CInt {
    followsSymbolicLinks ? 0 : AT_SYMLINK_NOFOLLOW
}

func sysOpen(_ directory: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t) -> CInt {
    unsafe openat(directory, path, flags, mode)
}

func sysEffectiveUser() -> uid_t {
    geteuid()
}

func sysClose(_ descriptor: CInt) -> CInt {
    close(descriptor)
}

func sysDuplicate(_ descriptor: CInt) -> CInt {
    fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
}

func sysRead(_ descriptor: CInt, _ buffer: UnsafeMutableRawBufferPointer, _ offset: Int64?) -> Int {
    guard let offset else { return unsafe read(descriptor, buffer.baseAddress, buffer.count) }
    return unsafe pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
}

func sysWrite(_ descriptor: CInt, _ buffer: UnsafeRawBufferPointer, _ offset: Int64?) -> Int {
    guard let offset else { return unsafe write(descriptor, buffer.baseAddress, buffer.count) }
    return unsafe pwrite(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
}

/// Appends bytes with a call that fills memory and returns their number, -1 for an error.
func sysAppend(to buffer: inout OutputRawSpan, _ read: (UnsafeMutableRawBufferPointer) -> Int) -> Int {
    unsafe buffer.withUnsafeMutableBytes { memory, count in
        let done = unsafe read(UnsafeMutableRawBufferPointer(rebasing: memory[count...]))
        count += max(done, 0)
        return done
    }
}

/// The bytes of one read from the descriptor's own offset; none at the end, and after an error.
func sysReadBytes(_ descriptor: CInt, upTo limit: Int) -> [UInt8] {
    [UInt8](capacity: limit) { buffer in _ = unsafe sysAppend(to: &buffer) { unsafe sysRead(descriptor, $0, nil) } }
}

func sysSeek(_ descriptor: CInt, _ offset: Int64, _ origin: CInt) -> Int64 {
    Int64(lseek(descriptor, off_t(offset), origin))
}

func sysTruncate(_ descriptor: CInt, _ size: Int64) -> CInt {
    ftruncate(descriptor, off_t(size))
}

func sysTruncate(_ path: UnsafePointer<CChar>, _ size: Int64) -> CInt {
    unsafe truncate(path, off_t(size))
}

func sysPageSize() -> Int64 { Int64(getpagesize()) }

/// An anonymous, zero-filled mapping whose pages are allocated on first use; nil if it fails.
func sysMapAnonymous(_ count: Int) -> UnsafeMutableRawPointer? {
    let base = unsafe mmap(nil, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0)
    guard let base = unsafe base, Int(bitPattern: base) != -1 else { return nil }
    return unsafe base
}

func sysUnmap(_ base: UnsafeMutableRawPointer, _ count: Int) -> CInt {
    unsafe munmap(base, count)
}

func sysStatus(_ descriptor: CInt, _ status: inout SysStatus) -> CInt {
    unsafe fstat(descriptor, &status)
}

func sysStatus(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ status: inout SysStatus, _ flags: CInt
) -> CInt {
    unsafe fstatat(directory, path, &status, flags)
}

func sysSetMode(_ descriptor: CInt, _ mode: mode_t) -> CInt {
    fchmod(descriptor, mode)
}

func sysSetMode(_ directory: CInt, _ path: UnsafePointer<CChar>, _ mode: mode_t, _ flags: CInt) -> CInt {
    unsafe fchmodat(directory, path, mode, flags)
}

func sysSetOwner(_ descriptor: CInt, _ user: uid_t, _ group: gid_t) -> CInt {
    fchown(descriptor, user, group)
}

func sysSetOwner(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ user: uid_t, _ group: gid_t, _ flags: CInt
) -> CInt {
    unsafe fchownat(directory, path, user, group, flags)
}

/// Whether the nanoseconds of times are in range. The system takes some others as constants (`UTIME_NOW`, `UTIME_OMIT`),
/// and Darwin passes the rest on to the file system.
private func areValid(_ times: FileTime?...) -> Bool {
    times.allSatisfy { $0.map { (0..<1_000_000_000).contains($0.nanoseconds) } ?? true }
}

func sysSetTimes(_ descriptor: CInt, _ accessed: FileTime?, _ modified: FileTime?) -> CInt {
    guard areValid(accessed, modified) else {
        var status = stat()
        if unsafe fstat(descriptor, &status) == 0 { errno = EINVAL }
        return -1
    }
    return unsafe futimens(descriptor, [timespec(accessed), timespec(modified)])
}

func sysSetTimes(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ accessed: FileTime?, _ modified: FileTime?, _ flags: CInt
) -> CInt {
    guard areValid(accessed, modified) else {
        // A missing file is reported first, as by the system.
        var status = stat()
        if unsafe fstatat(directory, path, &status, flags) == 0 { errno = EINVAL }
        return -1
    }
    return unsafe utimensat(directory, path, [timespec(accessed), timespec(modified)], flags)
}

func sysMakeDirectory(_ directory: CInt, _ path: UnsafePointer<CChar>, _ mode: mode_t) -> CInt {
    unsafe mkdirat(directory, path, mode)
}

func sysMakeNode(_ directory: CInt, _ path: UnsafePointer<CChar>, _ mode: mode_t, _ device: UInt64) -> CInt {
    unsafe mknodat(directory, path, mode, dev_t(truncatingIfNeeded: device))
}

func sysMakeSymbolicLink(_ target: UnsafePointer<CChar>, _ directory: CInt, _ path: UnsafePointer<CChar>) -> CInt {
    unsafe symlinkat(target, directory, path)
}

func sysReadLink(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ target: UnsafeMutableRawBufferPointer
) -> Int {
    unsafe target.withMemoryRebound(to: CChar.self) { buffer in
        guard let start = buffer.baseAddress else { return 0 }
        return unsafe readlinkat(directory, path, start, buffer.count)
    }
}

func sysMakeHardLink(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ newDirectory: CInt, _ newPath: UnsafePointer<CChar>
) -> CInt {
    unsafe linkat(directory, path, newDirectory, newPath, 0)
}

func sysUnlink(_ directory: CInt, _ path: UnsafePointer<CChar>) -> CInt {
    unsafe unlinkat(directory, path, 0)
}

func sysRemoveDirectory(_ directory: CInt, _ path: UnsafePointer<CChar>) -> CInt {
    unsafe unlinkat(directory, path, AT_REMOVEDIR)
}

func sysLock(_ descriptor: CInt, _ mode: LockMode, _ waiting: Bool) -> CInt {
    let operation =
        switch mode {
        case .shared: LOCK_SH
        case .exclusive: LOCK_EX
        case .unlocked: LOCK_UN
        }
    return flock(descriptor, waiting ? operation : operation | LOCK_NB)
}

extension SystemFileSystem {
    /// Makes a system call and throws its error number if it returns -1.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ call: () -> Number
    ) throws(FileSystemError) -> Number {
        let result = call()
        guard result >= 0 else { throw FileSystemError(operation, Errno(rawValue: errno)) }
        return result
    }

    /// Makes a system call with a path; a path that contains a NUL is refused before.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ path: POSIXPath, _ call: (UnsafePointer<CChar>) -> Number
    ) throws(FileSystemError) -> Number {
        guard !path.containsNUL else { throw FileSystemError(operation, .invalidArgument, path: path) }
        let result = unsafe path.withCString(call)
        guard result >= 0 else { throw FileSystemError(operation, Errno(rawValue: errno), path: path) }
        return result
    }

    /// Makes a system call with two paths.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ path: POSIXPath, _ destination: POSIXPath,
        _ call: (UnsafePointer<CChar>, UnsafePointer<CChar>) -> Number
    ) throws(FileSystemError) -> Number {
        guard !path.containsNUL, !destination.containsNUL else {
            throw FileSystemError(operation, .invalidArgument, path: path, destination: destination)
        }
        let result = unsafe path.withCString { first in
            unsafe destination.withCString { second in unsafe call(first, second) }
        }
        guard result >= 0 else {
            throw FileSystemError(operation, Errno(rawValue: errno), path: path, destination: destination)
        }
        return result
    }
}

extension POSIXPath {
    /// Calls `body` with the bytes as a C string.
    func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        unsafe terminated.withUnsafeBytes { bytes in
            // The array contains at least the terminating NUL, so it has a base address.
            unsafe body(bytes.assumingMemoryBound(to: CChar.self).baseAddress.unsafelyUnwrapped)
        }
    }
}

/// The path of the working directory; nil if it was removed, or cannot be reached from the root (`getcwd(3)`).
func sysWorkingDirectory() -> POSIXPath? {
    var buffer = [CChar](repeating: 0, count: 4096)
    while unsafe getcwd(&buffer, buffer.count) == nil {
        guard errno == ERANGE else { return nil }
        buffer = [CChar](repeating: 0, count: buffer.count * 2)
    }
    let path = POSIXPath(buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) })
    return path.isAbsolute ? path : nil
}

extension FixedWidthInteger {
    func map<Result>(_ transform: (Self) -> Result) -> Result { transform(self) }
}

/// Opens a path component by component, without following links or leaving the directory: what openat2(2) does in one
/// call with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, for systems without it. Stricter in one respect: `..` is always
/// refused.
func sysOpenWalking(_ directory: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t) -> CInt {
    let components = unsafe UnsafeRawBufferPointer(start: path, count: strlen(path))
        .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true).map { unsafe POSIXPath($0) }
    guard unsafe path[0] != 0 else {
        errno = ENOENT
        return -1
    }
    let slash = CChar(bitPattern: UInt8(ascii: "/"))
    guard unsafe path[0] != slash, !components.contains("..") else {
        errno = EXDEV
        return -1
    }
    // A slash at the end asks for a directory, which open(2) does not create.
    let isDirectory = unsafe path[strlen(path) - 1] == slash
    var current = directory
    for index in components.indices {
        let isLast = index == components.count - 1
        if isLast, isDirectory, flags & O_CREAT != 0 {
            if current != directory { close(current) }
            errno = EISDIR
            return -1
        }
        let next = unsafe components[index].withCString { name in
            let next =
                unsafe isLast
                ? openat(current, name, flags | O_NOFOLLOW | (isDirectory ? O_DIRECTORY : 0), mode)
                : openat(current, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0)
            // With O_DIRECTORY a link yields ENOTDIR; openat2(2) reports ELOOP.
            var status = stat()
            if next < 0, errno == ENOTDIR {
                let isLink =
                    unsafe fstatat(current, name, &status, AT_SYMLINK_NOFOLLOW) == 0
                    && status.st_mode & S_IFMT == S_IFLNK
                errno = isLink ? ELOOP : ENOTDIR
            }
            return next
        }
        let number = errno
        if current != directory { close(current) }
        guard next >= 0 else {
            errno = number
            return -1
        }
        current = next
    }
    return current
}

/// The file type of a directory record; some file systems, such as NFS, omit it there.
func sysType(
    _ recorded: UInt8, of name: POSIXPath, in directory: CInt
) throws(FileSystemError) -> FileType {
    if recorded != 0 { return FileType(rawValue: CInterop.Mode(recorded) << 12) }
    do {
        return try SystemFileSystem().status(
            name, at: Descriptor(rawValue: directory), followsSymbolicLinks: false
        ).type
    } catch  where error.errno == .noSuchFileOrDirectory {
        return FileType(rawValue: 0)  // Removed since; the caller's next call reports that.
    }
}

/// Whether the pages of a mapped file are removed when the device is locked: class A, `NSFileProtectionComplete`, and
/// class 7, complete when the user is inactive.
func sysLosesPages(protectionClass: CInt) -> Bool { protectionClass == 1 || protectionClass == 7 }

/// Flags of open(2) with one that includes another in its place: Darwin refuses both together (`EINVAL` since macOS 15).
func sysFlags(_ flags: CInt, replacing weaker: CInt, by stronger: CInt) -> CInt { flags & ~weaker | stronger }

/// Starts a thread that calls `body` and ends with it; false if the system has none.
///
/// It handles only signals that it raises itself.
package func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    let context = unsafe Unmanaged.passRetained(ThreadBody(run: body))
    let error = unsafe forge_start_thread(
        { context in
            guard let context = unsafe context else { return }
            unsafe Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
        }, context.toOpaque())
    if error != 0 { unsafe context.release() }
    return error == 0
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void

    init(run: @escaping @Sendable () -> Void) { self.run = run }
}
