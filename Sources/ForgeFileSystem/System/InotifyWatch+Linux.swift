#if os(Linux)
public import Dispatch
import SystemPackage

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

extension SystemFileSystem {
    public func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        let descriptor = try calling(.watch) { inotify_init1(CInt(IN_NONBLOCK) | CInt(IN_CLOEXEC)) }
        return InotifyWatch(descriptor, queue, onEvents, onCancel)
    }
}

/// An inotify instance, read by a dispatch source.
///
/// `@unchecked Sendable`: the descriptor is constant, and dispatch sources are thread-safe. The descriptor is closed by
/// the source on its queue, on which all other calls are made.
private final class InotifyWatch: DirectoryWatching, @unchecked Sendable {
    private let descriptor: CInt
    private let source: any DispatchSourceRead

    init(
        _ descriptor: CInt, _ queue: DispatchQueue, _ onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        _ onCancel: @escaping @Sendable () -> Void
    ) {
        self.descriptor = descriptor
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler {
            let events = inotifyEvents(in: descriptor)
            if !events.isEmpty { onEvents(events) }
        }
        source.setCancelHandler {
            close(descriptor)
            onCancel()
        }
        source.resume()
    }

    /// Links are not followed: the path is that of a descriptor.
    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        guard !source.isCancelled else { throw FileSystemError(.watch, .badFileDescriptor) }
        guard fcntl(directory.rawValue, F_GETFD) >= 0 else { throw FileSystemError(.watch, .badFileDescriptor) }
        let mask =
            IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | (includesWrites ? IN_CLOSE_WRITE : 0) | IN_ONLYDIR
        let number = sysWatch(descriptor, directory, UInt32(mask))
        if number >= 0 { return Int(number) }
        let error = Errno(rawValue: errno)
        // The descriptor is open, so that /proc is what is missing.
        throw FileSystemError(.watch, error == .noSuchFileOrDirectory ? .notSupported : error)
    }

    func unwatch(_ number: Int) {
        guard !source.isCancelled else { return }
        // EINVAL: the directory was removed, which ended its watch.
        inotify_rm_watch(descriptor, CInt(number))
    }

    func cancel() { source.cancel() }
}

/// The events of one read; if more are waiting, the source calls its handler again.
private func inotifyEvents(in descriptor: CInt) -> [DirectoryEvent] {
    let buffer = sysReadBytes(descriptor, upTo: 1 << 16)
    var events: [DirectoryEvent] = []
    func hostInteger(at offset: Int) -> UInt32 {
        buffer.littleEndian(at: offset, as: UInt32.self).littleEndian
    }
    // struct inotify_event: s32 watch, u32 mask, u32 cookie, u32 length of the name, name with its NULs.
    var position = 0
    while position < buffer.count {
        let number = Int(Int32(bitPattern: hostInteger(at: position)))
        let mask = hostInteger(at: position + 4)
        let length = Int(hostInteger(at: position + 12))
        let name = POSIXPath(buffer[position + 16..<position + 16 + length].prefix { $0 != 0 })
        position += 16 + length
        if let event = DirectoryEvent(mask: Int(mask), name, number) { events.append(event) }
    }
    return events
}

extension DirectoryEvent {
    /// Nil for the end of a watch, of which the directory above has an event.
    fileprivate init?(mask: Int, _ name: POSIXPath, _ number: Int) {
        if mask & Int(IN_Q_OVERFLOW | IN_UNMOUNT) != 0 {
            self = .lost
        } else if mask & Int(IN_CREATE | IN_MOVED_TO) != 0 {
            self = .added(name, in: number)
        } else if mask & Int(IN_DELETE | IN_MOVED_FROM) != 0 {
            self = .removed(name, in: number)
        } else if mask & Int(IN_CLOSE_WRITE) != 0, !name.isEmpty {
            self = .written(name, in: number)
        } else {
            return nil
        }
    }
}
#endif
