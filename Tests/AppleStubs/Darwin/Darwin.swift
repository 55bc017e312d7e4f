// The symbols of Apple's C library that the package uses, with the types that Swift imports them with.
// `Scripts/check-apple.py` compares them with Apple's headers. Nothing here is ever run.

public import Dispatch

public typealias mode_t = UInt16
public typealias off_t = Int64
public typealias uid_t = UInt32
public typealias gid_t = UInt32
public typealias dev_t = Int32
public typealias ino_t = UInt64
public typealias nlink_t = UInt16
public typealias blkcnt_t = Int64

public var errno: Int32 {
    get { 0 }
    set {}
}

public struct timespec {
    public var tv_sec: Int
    public var tv_nsec: Int
    public init() { (tv_sec, tv_nsec) = (0, 0) }
    public init(tv_sec: Int, tv_nsec: Int) { (self.tv_sec, self.tv_nsec) = (tv_sec, tv_nsec) }
}

public struct stat {
    public var st_dev: dev_t = 0
    public var st_mode: mode_t = 0
    public var st_nlink: nlink_t = 0
    public var st_ino: ino_t = 0
    public var st_uid: uid_t = 0
    public var st_gid: gid_t = 0
    public var st_rdev: dev_t = 0
    public var st_atimespec: timespec = timespec()
    public var st_mtimespec: timespec = timespec()
    public var st_ctimespec: timespec = timespec()
    public var st_birthtimespec: timespec = timespec()
    public var st_size: off_t = 0
    public var st_blocks: blkcnt_t = 0
    public var st_blksize: Int32 = 0
    public var st_flags: UInt32 = 0
    public var st_gen: UInt32 = 0
    public var st_lspare: Int32 = 0
    public var st_qspare: (Int64, Int64) = (0, 0)
    public init() {}
}

public struct fstore_t {
    public var fst_flags: UInt32
    public var fst_posmode: Int32
    public var fst_offset: off_t
    public var fst_length: off_t
    public var fst_bytesalloc: off_t
    public init(
        fst_flags: UInt32, fst_posmode: Int32, fst_offset: off_t, fst_length: off_t, fst_bytesalloc: off_t
    ) {
        (self.fst_flags, self.fst_posmode) = (fst_flags, fst_posmode)
        (self.fst_offset, self.fst_length, self.fst_bytesalloc) = (fst_offset, fst_length, fst_bytesalloc)
    }
}

public struct dirent {
    public var d_ino: UInt64
    public var d_seekoff: UInt64
    public var d_reclen: UInt16
    public var d_namlen: UInt16
    public var d_type: UInt8
    public var d_name: CChar1024
}

public struct kevent64_s {
    public var ident: UInt64 = 0
    public var filter: Int16 = 0
    public var flags: UInt16 = 0
    public var fflags: UInt32 = 0
    public var data: Int64 = 0
    public var udata: UInt64 = 0
    public var ext: (UInt64, UInt64) = (0, 0)
    public init() {}
}

public struct DIR {}

public var AT_FDCWD: Int32 { -2 }
public var AT_SYMLINK_NOFOLLOW: Int32 { 0x20 }
public var AT_REMOVEDIR: Int32 { 0x80 }
public var O_RDONLY: Int32 { 0 }
public var O_CREAT: Int32 { 0x200 }
public var O_DIRECTORY: Int32 { 0x100000 }
public var O_NOFOLLOW: Int32 { 0x100 }
public var O_NOFOLLOW_ANY: Int32 { 0x2000_0000 }
public var O_CLOEXEC: Int32 { 0x100_0000 }
public var S_IFMT: mode_t { 0o170000 }
public var S_IFLNK: mode_t { 0o120000 }
public var SEEK_SET: Int32 { 0 }
public var PROT_READ: Int32 { 1 }
public var PROT_WRITE: Int32 { 2 }
public var MAP_SHARED: Int32 { 0x1 }
public var MAP_PRIVATE: Int32 { 0x2 }
public var MAP_NORESERVE: Int32 { 0x40 }
public var MAP_ANON: Int32 { 0x1000 }
public var MS_SYNC: Int32 { 0x10 }
public var LOCK_SH: Int32 { 1 }
public var LOCK_EX: Int32 { 2 }
public var LOCK_NB: Int32 { 4 }
public var LOCK_UN: Int32 { 8 }
public var F_DUPFD_CLOEXEC: Int32 { 67 }
public var F_SETFD: Int32 { 2 }
public var FD_CLOEXEC: Int32 { 1 }
public var O_EVTONLY: Int32 { 0x8000 }
public var EVFILT_VNODE: Int32 { -4 }
public var EV_ADD: Int32 { 0x1 }
public var EV_CLEAR: Int32 { 0x20 }
public var NOTE_DELETE: Int32 { 0x1 }
public var NOTE_WRITE: Int32 { 0x2 }
public var NOTE_RENAME: Int32 { 0x20 }
public var NOTE_REVOKE: Int32 { 0x40 }
public var F_FULLFSYNC: Int32 { 51 }
public var F_GETPROTECTIONCLASS: Int32 { 63 }
public var F_BARRIERFSYNC: Int32 { 85 }
public var F_PREALLOCATE: Int32 { 42 }
public var F_ALLOCATEALL: Int32 { 4 }
public var F_PEOFPOSMODE: Int32 { 3 }
public var RENAME_SWAP: Int32 { 2 }
public var RENAME_EXCL: Int32 { 4 }
public var ENOENT: Int32 { 2 }
public var EINTR: Int32 { 4 }
public var EXDEV: Int32 { 18 }
public var ENOTDIR: Int32 { 20 }
public var EISDIR: Int32 { 21 }
public var EPERM: Int32 { 1 }
public var EINVAL: Int32 { 22 }
public var ENOTTY: Int32 { 25 }
public var EFBIG: Int32 { 27 }
public var ERANGE: Int32 { 34 }
public var EAGAIN: Int32 { 35 }
public var ENOTSUP: Int32 { 45 }
public var ENOSYS: Int32 { 78 }
public var ENOATTR: Int32 { 93 }
public var ELOOP: Int32 { 62 }

public func openat(_ directory: Int32, _ path: UnsafePointer<CChar>!, _ flags: Int32) -> Int32 { 0 }
public func openat(_ directory: Int32, _ path: UnsafePointer<CChar>!, _ flags: Int32, _ mode: mode_t) -> Int32 { 0 }
@discardableResult public func close(_ descriptor: Int32) -> Int32 { 0 }
public func fcntl(_ descriptor: Int32, _ command: Int32) -> Int32 { 0 }
public func fcntl(_ descriptor: Int32, _ command: Int32, _ value: Int32) -> Int32 { 0 }
public func fcntl(_ descriptor: Int32, _ command: Int32, _ pointer: UnsafeMutableRawPointer) -> Int32 { 0 }
public func kqueue() -> Int32 { 0 }
public func kevent64(
    _ queue: Int32, _ changes: UnsafePointer<kevent64_s>!, _ changeCount: Int32,
    _ events: UnsafeMutablePointer<kevent64_s>!, _ eventCount: Int32, _ flags: UInt32,
    _ timeout: UnsafePointer<timespec>!
) -> Int32 { 0 }
public func read(_ descriptor: Int32, _ buffer: UnsafeMutableRawPointer!, _ count: Int) -> Int { 0 }
public func pread(_ descriptor: Int32, _ buffer: UnsafeMutableRawPointer!, _ count: Int, _ offset: off_t) -> Int { 0 }
public func write(_ descriptor: Int32, _ buffer: UnsafeRawPointer!, _ count: Int) -> Int { 0 }
public func pwrite(_ descriptor: Int32, _ buffer: UnsafeRawPointer!, _ count: Int, _ offset: off_t) -> Int { 0 }
public func lseek(_ descriptor: Int32, _ offset: off_t, _ origin: Int32) -> off_t { 0 }
public func ftruncate(_ descriptor: Int32, _ size: off_t) -> Int32 { 0 }
public func truncate(_ path: UnsafePointer<CChar>!, _ size: off_t) -> Int32 { 0 }
public func fsync(_ descriptor: Int32) -> Int32 { 0 }
public func fstat(_ descriptor: Int32, _ status: UnsafeMutablePointer<stat>!) -> Int32 { 0 }
public func fstatat(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ status: UnsafeMutablePointer<stat>!, _ flags: Int32
) -> Int32 { 0 }
public func fchmod(_ descriptor: Int32, _ mode: mode_t) -> Int32 { 0 }
public func fchmodat(_ directory: Int32, _ path: UnsafePointer<CChar>!, _ mode: mode_t, _ flags: Int32) -> Int32 { 0 }
public func geteuid() -> uid_t { 0 }
public func getcwd(_ buffer: UnsafeMutablePointer<CChar>!, _ size: Int) -> UnsafeMutablePointer<CChar>! { nil }
public func fchown(_ descriptor: Int32, _ user: uid_t, _ group: gid_t) -> Int32 { 0 }
public func fchownat(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ user: uid_t, _ group: gid_t, _ flags: Int32
) -> Int32 { 0 }
public func futimens(_ descriptor: Int32, _ times: UnsafePointer<timespec>!) -> Int32 { 0 }
public func utimensat(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ times: UnsafePointer<timespec>!, _ flags: Int32
) -> Int32 { 0 }
public func flistxattr(
    _ descriptor: Int32, _ names: UnsafeMutablePointer<CChar>!, _ size: Int, _ options: Int32
) -> Int { 0 }
public func fgetxattr(
    _ descriptor: Int32, _ name: UnsafePointer<CChar>!, _ value: UnsafeMutableRawPointer!, _ size: Int,
    _ position: UInt32, _ options: Int32
) -> Int { 0 }
public func fsetxattr(
    _ descriptor: Int32, _ name: UnsafePointer<CChar>!, _ value: UnsafeRawPointer!, _ size: Int, _ position: UInt32,
    _ options: Int32
) -> Int32 { 0 }
public func mkdirat(_ directory: Int32, _ path: UnsafePointer<CChar>!, _ mode: mode_t) -> Int32 { 0 }
public func mknodat(_ directory: Int32, _ path: UnsafePointer<CChar>!, _ mode: mode_t, _ device: dev_t) -> Int32 { 0 }
public func symlinkat(_ target: UnsafePointer<CChar>!, _ directory: Int32, _ path: UnsafePointer<CChar>!) -> Int32 { 0 }
public func readlinkat(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ buffer: UnsafeMutablePointer<CChar>!, _ count: Int
) -> Int { 0 }
public func linkat(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ newDirectory: Int32, _ newPath: UnsafePointer<CChar>!,
    _ flags: Int32
) -> Int32 { 0 }
public func unlinkat(_ directory: Int32, _ path: UnsafePointer<CChar>!, _ flags: Int32) -> Int32 { 0 }
public func renameat(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ newDirectory: Int32, _ newPath: UnsafePointer<CChar>!
) -> Int32 { 0 }
public func renameatx_np(
    _ directory: Int32, _ path: UnsafePointer<CChar>!, _ newDirectory: Int32, _ newPath: UnsafePointer<CChar>!,
    _ flags: UInt32
) -> Int32 { 0 }
public func flock(_ descriptor: Int32, _ operation: Int32) -> Int32 { 0 }
public func fdopendir(_ descriptor: Int32) -> UnsafeMutablePointer<DIR>! { nil }
public func readdir(_ stream: UnsafeMutablePointer<DIR>!) -> UnsafeMutablePointer<dirent>! { nil }
@discardableResult public func closedir(_ stream: UnsafeMutablePointer<DIR>!) -> Int32 { 0 }
public func strlen(_ string: UnsafePointer<CChar>!) -> Int { 0 }
public func memset_s(_ memory: UnsafeMutableRawPointer!, _ size: Int, _ value: Int32, _ count: Int) -> Int32 { 0 }

public func mmap(
    _ address: UnsafeMutableRawPointer!, _ count: Int, _ protection: Int32, _ flags: Int32, _ descriptor: Int32,
    _ offset: off_t
) -> UnsafeMutableRawPointer! { nil }
public func getpagesize() -> Int32 { 16_384 }
public func munmap(_ address: UnsafeMutableRawPointer!, _ count: Int) -> Int32 { 0 }
public func msync(_ address: UnsafeMutableRawPointer!, _ count: Int, _ flags: Int32) -> Int32 { 0 }

// Dispatch has these on Apple's platforms only.

public protocol DispatchSourceMemoryPressure: DispatchSourceProtocol {}

extension DispatchSource {
    public struct MemoryPressureEvent: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let warning = MemoryPressureEvent(rawValue: 2)
        public static let critical = MemoryPressureEvent(rawValue: 4)
    }

    public class func makeMemoryPressureSource(
        eventMask: MemoryPressureEvent, queue: DispatchQueue? = nil
    ) -> any DispatchSourceMemoryPressure { fatalError() }
}
