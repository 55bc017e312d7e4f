#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Opens a path component by component, without following links or leaving the directory: what openat2(2) does in one
/// call with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, for systems without it. Stricter in one respect: `..` is always
/// refused.
func sysOpenWalking(_ directory: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t) -> CInt {
    let components = UnsafeRawBufferPointer(start: path, count: strlen(path))
        .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true)
    guard path[0] != 0 else {
        errno = ENOENT
        return -1
    }
    guard path[0] != CChar(bitPattern: UInt8(ascii: "/")), !components.contains(where: { $0.elementsEqual("..".utf8) })
    else {
        errno = EXDEV
        return -1
    }
    var current = directory
    for (index, component) in components.enumerated() {
        let isLast = index == components.count - 1
        let next = POSIXPath(component).withCString { name in
            let next =
                isLast
                ? openat(current, name, flags | O_NOFOLLOW, mode)
                : openat(current, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0)
            // With O_DIRECTORY a link yields ENOTDIR; openat2(2) reports ELOOP.
            var status = stat()
            if next < 0, errno == ENOTDIR {
                let isLink =
                    fstatat(current, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mode & S_IFMT == S_IFLNK
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
