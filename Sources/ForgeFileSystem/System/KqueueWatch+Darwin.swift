#if canImport(Darwin)
import Darwin
public import Dispatch
import Synchronization
import SystemPackage

// Memory safety: The kernel reads and writes the events of an array and a structure during the call.

extension SystemFileSystem {
    /// Creates a watch by `kqueue(2)`, whose only event is ``DirectoryEvent/lost``, for every change of the names in a
    /// watched directory. A write to an existing file has no event.
    public func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        let descriptor = try calling(.watch) { kqueue() }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return KqueueWatch(descriptor, queue, onEvents, onCancel)
    }
}

/// A kernel queue, read by a dispatch source, and an open descriptor for each directory.
///
/// `@unchecked Sendable`: the descriptor is constant, and dispatch sources are thread-safe. The descriptors are closed
/// by the source on its queue, on which all other calls are made.
private final class KqueueWatch: DirectoryWatching, @unchecked Sendable {
    private struct Directory {
        var descriptor: CInt
        var includesEntries: Bool
    }

    /// The watched directories by their identities.
    private final class Directories: Sendable {
        let descriptors = Mutex<[DirectoryIdentity: Directory]>([:])
    }

    private let descriptor: CInt
    private let source: any DispatchSourceRead
    private let directories = Directories()

    init(
        _ descriptor: CInt, _ queue: DispatchQueue, _ onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        _ onCancel: @escaping @Sendable () -> Void
    ) {
        self.descriptor = descriptor
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler {
            var events = [kevent64_s](repeating: kevent64_s(), count: 64)
            var now = timespec(tv_sec: 0, tv_nsec: 0)
            var isChanged = false
            while unsafe kevent64(descriptor, nil, 0, &events, CInt(events.count), 0, &now) > 0 { isChanged = true }
            if isChanged { onEvents([.lost]) }
        }
        source.setCancelHandler { [directories] in
            directories.descriptors.withLock { descriptors in
                for directory in descriptors.values { close(directory.descriptor) }
                descriptors = [:]
            }
            close(descriptor)
            onCancel()
        }
        source.resume()
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        try watch(directory, includesEntries: true)
    }

    /// A new name in the directory is no event.
    func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int {
        try watch(directory, includesEntries: false)
    }

    private func watch(_ directory: Descriptor, includesEntries: Bool) throws(FileSystemError) -> Int {
        guard !source.isCancelled else { throw FileSystemError(.watch, .badFileDescriptor) }
        let system = SystemFileSystem()
        do throws(FileSystemError) {
            let identity = DirectoryIdentity(try system.status(of: .descriptor(directory)))
            return try directories.descriptors.withLock { (descriptors) throws(FileSystemError) in
                let known = descriptors[identity]
                if let known, known.includesEntries || !includesEntries { return Int(known.descriptor) }
                let opened =
                    if let known {
                        known.descriptor
                    } else {
                        try system.calling(.watch) {
                            unsafe openat(directory.rawValue, ".", O_EVTONLY | O_DIRECTORY | O_CLOEXEC)
                        }
                    }
                var change = kevent64_s()
                change.ident = UInt64(opened)
                change.filter = Int16(EVFILT_VNODE)
                change.flags = UInt16(EV_ADD | EV_CLEAR)
                change.fflags = UInt32(NOTE_DELETE | NOTE_RENAME) | UInt32(NOTE_REVOKE)
                // Added again, an event has the new flags.
                if includesEntries { change.fflags |= UInt32(NOTE_WRITE) }
                guard unsafe kevent64(descriptor, &change, 1, nil, 0, 0, nil) >= 0 else {
                    let error = Errno(rawValue: errno)
                    if known == nil { close(opened) }
                    throw FileSystemError(.watch, error)
                }
                descriptors[identity] = Directory(descriptor: opened, includesEntries: includesEntries)
                return Int(opened)
            }
        } catch {
            throw FileSystemError(.watch, error.errno)
        }
    }

    func unwatch(_ number: Int) {
        directories.descriptors.withLock { descriptors in
            guard let entry = descriptors.first(where: { Int($0.value.descriptor) == number }) else { return }
            descriptors[entry.key] = nil
            // This removes it from the queue.
            close(entry.value.descriptor)
        }
    }

    func cancel() { source.cancel() }
}
#endif
