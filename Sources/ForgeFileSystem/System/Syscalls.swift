// The system calls that Linux and Darwin share, named `sys…` so that methods of the same name do not shadow them.

import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

typealias SysStatus = stat

func sysEmptyStatus() -> SysStatus { stat() }

func sysDirectory(_ directory: Descriptor) -> CInt {
    directory == .workingDirectory ? AT_FDCWD : directory.rawValue
}

func sysFlags(_ followsSymbolicLinks: Bool) -> CInt {
    followsSymbolicLinks ? 0 : AT_SYMLINK_NOFOLLOW
}

func sysOpen(_ directory: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t) -> CInt {
    openat(directory, path, flags, mode)
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
    guard let offset else { return read(descriptor, buffer.baseAddress, buffer.count) }
    return pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
}

func sysWrite(_ descriptor: CInt, _ buffer: UnsafeRawBufferPointer, _ offset: Int64?) -> Int {
    guard let offset else { return write(descriptor, buffer.baseAddress, buffer.count) }
    return pwrite(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
}

func sysSeek(_ descriptor: CInt, _ offset: Int64, _ origin: CInt) -> Int64 {
    Int64(lseek(descriptor, off_t(offset), origin))
}

func sysTruncate(_ descriptor: CInt, _ size: Int64) -> CInt {
    ftruncate(descriptor, off_t(size))
}

func sysTruncate(_ path: UnsafePointer<CChar>, _ size: Int64) -> CInt {
    truncate(path, off_t(size))
}

func sysPageSize() -> Int64 { Int64(getpagesize()) }

/// An anonymous, zero-filled mapping whose pages are allocated on first use; nil if it fails.
func sysMapAnonymous(_ count: Int) -> UnsafeMutableRawPointer? {
    let base = mmap(nil, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0)
    guard let base, Int(bitPattern: base) != -1 else { return nil }
    return base
}

func sysUnmap(_ base: UnsafeMutableRawPointer, _ count: Int) -> CInt {
    munmap(base, count)
}

func sysStatus(_ descriptor: CInt, _ status: inout SysStatus) -> CInt {
    fstat(descriptor, &status)
}

func sysStatus(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ status: inout SysStatus, _ flags: CInt
) -> CInt {
    fstatat(directory, path, &status, flags)
}

func sysSetMode(_ descriptor: CInt, _ mode: mode_t) -> CInt {
    fchmod(descriptor, mode)
}

func sysSetMode(_ directory: CInt, _ path: UnsafePointer<CChar>, _ mode: mode_t, _ flags: CInt) -> CInt {
    fchmodat(directory, path, mode, flags)
}

func sysSetOwner(_ descriptor: CInt, _ user: uid_t, _ group: gid_t) -> CInt {
    fchown(descriptor, user, group)
}

func sysSetOwner(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ user: uid_t, _ group: gid_t, _ flags: CInt
) -> CInt {
    fchownat(directory, path, user, group, flags)
}

func sysSetTimes(_ descriptor: CInt, _ accessed: FileTime?, _ modified: FileTime?) -> CInt {
    futimens(descriptor, [timespec(accessed), timespec(modified)])
}

func sysSetTimes(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ accessed: FileTime?, _ modified: FileTime?, _ flags: CInt
) -> CInt {
    utimensat(directory, path, [timespec(accessed), timespec(modified)], flags)
}

func sysMakeDirectory(_ directory: CInt, _ path: UnsafePointer<CChar>, _ mode: mode_t) -> CInt {
    mkdirat(directory, path, mode)
}

func sysMakeNode(_ directory: CInt, _ path: UnsafePointer<CChar>, _ mode: mode_t, _ device: UInt64) -> CInt {
    mknodat(directory, path, mode, dev_t(truncatingIfNeeded: device))
}

func sysMakeSymbolicLink(_ target: UnsafePointer<CChar>, _ directory: CInt, _ path: UnsafePointer<CChar>) -> CInt {
    symlinkat(target, directory, path)
}

func sysReadLink(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ target: UnsafeMutableRawBufferPointer
) -> Int {
    target.withMemoryRebound(to: CChar.self) { buffer in
        guard let start = buffer.baseAddress else { return 0 }
        return readlinkat(directory, path, start, buffer.count)
    }
}

func sysMakeHardLink(
    _ directory: CInt, _ path: UnsafePointer<CChar>, _ newDirectory: CInt, _ newPath: UnsafePointer<CChar>
) -> CInt {
    linkat(directory, path, newDirectory, newPath, 0)
}

func sysUnlink(_ directory: CInt, _ path: UnsafePointer<CChar>) -> CInt {
    unlinkat(directory, path, 0)
}

func sysRemoveDirectory(_ directory: CInt, _ path: UnsafePointer<CChar>) -> CInt {
    unlinkat(directory, path, AT_REMOVEDIR)
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
