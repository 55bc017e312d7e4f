import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

extension SystemFileSystem {
    /// Whether a file system is one on which opening and closing files never waits for a server.
    func isLocal(_ descriptor: Descriptor) -> Bool { sysIsLocal(descriptor.rawValue) }
}

/// Files that are opened without waiting for a device, because the kernel has their names and inodes in memory
/// (`RESOLVE_CACHED` of `openat2(2)`).
///
/// So calls can read on the caller's thread, which must not wait. There are none on file systems that may ask a server
/// when a file is opened or closed, nor on systems without such calls.
extension LazyStoreDirectory {
    /// Opens a key's file if that needs no waiting; nil if it has to be opened otherwise, or that reports an error.
    ///
    /// - Throws: `ENOENT` if there is no such file.
    package func openCachedFile(_ key: RelativeKey) throws(FileSystemError) -> OpenFile? {
        guard let (descriptor, status) = try openCached(key, isForStatus: false) else { return nil }
        guard status.type == .regular, status.linkCount <= 1 else {
            fileSystem.discard(descriptor)
            return nil
        }
        return OpenFile(owning: descriptor, status, named: key.path, on: fileSystem)
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
