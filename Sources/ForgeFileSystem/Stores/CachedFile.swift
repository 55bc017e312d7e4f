import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A file of a store that was opened without waiting for a device, because the kernel had its name and inode in memory
/// (`RESOLVE_CACHED` of `openat2(2)`); closed at the end of its life unless it is kept.
///
/// So calls can read on the caller's thread, which must not wait. There are none on file systems that may ask a server
/// when a file is opened or closed, nor on systems without such calls.
package struct CachedFile: ~Copyable {
    private let descriptor: Descriptor

    /// The status when the file was opened.
    package let status: FileStatus

    fileprivate init(_ descriptor: Descriptor, _ status: FileStatus) {
        self.descriptor = descriptor
        self.status = status
    }

    deinit {
        SystemFileSystem().discard(descriptor)
    }

    /// Reads like ``SystemFileSystem/readCached(_:into:at:)``.
    package func readCached(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int? {
        SystemFileSystem().readCached(descriptor, into: buffer, at: offset)
    }

    /// Ends the life of this value with the file open; the caller closes it.
    package consuming func keep() -> Descriptor {
        let descriptor = descriptor
        discard self
        return descriptor
    }
}

extension SystemFileSystem {
    /// Reads bytes that are in memory without waiting (`RWF_NOWAIT` of `preadv2(2)`).
    ///
    /// - Returns: The number of bytes read, fewer than asked for where the file ends or a part is not in memory; nil if
    ///   the first is not, or the file system cannot tell.
    package func readCached(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) -> Int? {
        let count = sysReadCached(descriptor.rawValue, buffer, offset)
        return count < 0 ? nil : count
    }

    /// Whether a file system is one on which opening and closing files never waits for a server.
    func isLocal(_ descriptor: Descriptor) -> Bool { sysIsLocal(descriptor.rawValue) }
}

extension LazyStoreDirectory {
    /// Opens a key's file if that needs no waiting; nil if it has to be opened otherwise, or that reports an error.
    ///
    /// - Throws: `ENOENT` if there is no such file.
    package func openCachedFile(_ key: RelativeKey) throws(FileSystemError) -> CachedFile? {
        guard let (descriptor, status) = try openCached(key, isForStatus: false) else { return nil }
        guard status.type == .regular, status.linkCount <= 1 else {
            SystemFileSystem().discard(descriptor)
            return nil
        }
        return CachedFile(descriptor, status)
    }

    /// The status of a key's file or directory, or of a link itself, if that needs no waiting; otherwise as
    /// ``openCachedFile(_:)``.
    package func cachedStatus(of key: RelativeKey) throws(FileSystemError) -> FileStatus? {
        guard let (descriptor, status) = try openCached(key, isForStatus: true) else { return nil }
        SystemFileSystem().discard(descriptor)
        return status
    }

    private func openCached(
        _ key: RelativeKey, isForStatus: Bool
    ) throws(FileSystemError) -> (Descriptor, FileStatus)? {
        guard let directory = openedLocally, let location = directory.wholePath(of: key),
            !location.path.containsNUL
        else { return nil }
        let descriptor = location.path.withCString {
            sysOpenCached(sysDirectory(location.directory), $0, isForStatus: isForStatus, location.resolution)
        }
        guard descriptor >= 0 else {
            switch errno {
            case ENOENT: throw FileSystemError(.open, .noSuchFileOrDirectory, path: key.path)
            case ENOSYS, EINVAL, EPERM: directory.isReadCached = false
            default: break
            }
            return nil
        }
        let file = Descriptor(rawValue: descriptor)
        do {
            let status = try fileSystem.status(of: .descriptor(file))
            if directory.isOnSameDevice(status) { return (file, status) }
            // Something is mounted below the root: maybe a file system on which opening waits.
            directory.isReadCached = false
        } catch _ {}  // The other way reports the problem.
        fileSystem.discard(file)
        return nil
    }
}
