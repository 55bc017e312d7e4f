#if os(Linux)
import Glibc
import SystemPackage

/// The descriptor of `/dev/fuse` that connects one mounted file system to the kernel.
final class FUSEDevice: Sendable {
    /// The maximum number of bytes in one write request.
    static let maximumWriteSize = 1 << 20

    let descriptor: CInt
    /// A pipe that wakes the loop so that it ends.
    private let stop: (reader: CInt, writer: CInt)

    init() throws(Errno) {
        descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        var ends: [CInt] = [-1, -1]
        guard pipe(&ends) == 0 else {
            let error = Errno(rawValue: errno)
            close(descriptor)
            throw error
        }
        stop = (ends[0], ends[1])
    }

    deinit {
        close(descriptor)
        close(stop.reader)
        close(stop.writer)
    }

    /// Ends ``serve(_:)`` from any thread. Once the device is closed, the kernel answers pending requests with
    /// `ENOTCONN`.
    func endServing() {
        var byte: UInt8 = 0
        _ = Glibc.write(stop.writer, &byte, 1)
    }

    /// Passes every request to the server until the file system is unmounted or ``endServing()`` is called.
    func serve(_ server: FUSEServer) throws(Errno) {
        let size = Self.maximumWriteSize + 65_536
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
        defer { buffer.deallocate() }
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, size)
            guard count < 0 else {
                let request = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                for reply in server.answer(request) { try send(reply) }
                continue
            }
            switch errno {
            // Unmounted, or aborted by an administrator.
            case ENODEV, ECONNABORTED: return
            case EAGAIN: if try !waitForRequest() { return }
            // ENOENT: the request was withdrawn while it was read.
            case EINTR, ENOENT: continue
            default: throw Errno(rawValue: errno)
            }
        }
    }

    /// Waits for a request; returns false if the loop is to end.
    private func waitForRequest() throws(Errno) -> Bool {
        var descriptors = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: stop.reader, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&descriptors, 2, -1) >= 0 || errno == EINTR else { throw Errno(rawValue: errno) }
        return descriptors[1].revents == 0
    }

    private func send(_ reply: FUSEReply) throws(Errno) {
        let count = reply.bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        guard count < 0 else { return }
        switch errno {
        // The request was withdrawn, or the file system is unmounted, which the next read reports.
        case ENOENT, ENODEV, ECONNABORTED: return
        default: throw Errno(rawValue: errno)
        }
    }
}
#endif
