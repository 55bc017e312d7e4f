#if os(Linux)
import ForgeFileSystem
import Glibc
import SystemPackage

/// Constants of the protocol of `/dev/fuse` (`linux/fuse.h`, version 7.31 and later).
enum FUSEProtocol {
    static let majorVersion: UInt32 = 7
    static let minorVersion: UInt32 = 38
    static let rootNode: UInt64 = 1
    static let requestHeaderSize = 40
    static let replyHeaderSize = 16
    static let attributesSize = 88
    static let entrySize = 40 + attributesSize
    static let directoryEntryHeaderSize = 24

    /// The operation of a request.
    enum Operation: UInt32 {
        case lookUp = 1
        case forget, getAttributes, setAttributes, readLink, symbolicLink
        case makeNode = 8
        case makeDirectory, unlink, removeDirectory, rename, link, open, read, write, fileSystemStatus, release
        case synchronize = 20
        case flush = 25
        case initialize, openDirectory, readDirectory, releaseDirectory, synchronizeDirectory
        case getLock, setLock, setLockWaiting, access, create, interrupt
        case destroy = 38
        case batchForget = 42
        case allocate, readDirectoryPlus, rename2
    }

    /// Features negotiated by `FUSE_INIT`.
    struct Features: OptionSet {
        let rawValue: UInt64
        static let atomicTruncation = Features(rawValue: 1 << 3)
        static let bigWrites = Features(rawValue: 1 << 5)
        static let fileLocks = Features(rawValue: 1 << 10)
        static let readDirectoryPlus = Features(rawValue: 1 << 13)
        /// The server, not the kernel, clears set-user-id and set-group-id bits when content or owner changes.
        static let dropsPrivilegeBits = Features(rawValue: 1 << 19)
        static let maximumPages = Features(rawValue: 1 << 22)
        static let extended = Features(rawValue: 1 << 30)
        /// Files that bypass the page cache for reads and writes can still be mapped (7.39).
        static let directMapping = Features(rawValue: 1 << 36)
    }

    /// The attributes to set.
    struct AttributeChanges: OptionSet {
        let rawValue: UInt32
        static let mode = AttributeChanges(rawValue: 1 << 0)
        static let user = AttributeChanges(rawValue: 1 << 1)
        static let group = AttributeChanges(rawValue: 1 << 2)
        static let size = AttributeChanges(rawValue: 1 << 3)
        static let accessed = AttributeChanges(rawValue: 1 << 4)
        static let modified = AttributeChanges(rawValue: 1 << 5)
        static let byHandle = AttributeChanges(rawValue: 1 << 6)
        static let accessedNow = AttributeChanges(rawValue: 1 << 7)
        static let modifiedNow = AttributeChanges(rawValue: 1 << 8)
    }

    /// `FOPEN_DIRECT_IO`: every read and write reaches the server.
    static let directIO: UInt32 = 1
    /// `FUSE_GETATTR_FH`.
    static let attributesByHandle: UInt32 = 1
    /// `FUSE_LK_FLOCK`.
    static let wholeFileLock: UInt32 = 1
    /// `FUSE_FSYNC_FDATASYNC`.
    static let dataOnly: UInt32 = 1
    /// `FUSE_WRITE_CACHE`: write-back of a mapping's pages, whichever process changed them.
    static let fromCache: UInt32 = 1
}

/// One request of the kernel: a header, and a body that is read in order.
struct FUSERequest {
    let operation: UInt32
    let unique: UInt64
    let node: UInt64
    let user: UserID
    let group: GroupID
    let processID: UInt32
    private let body: UnsafeRawBufferPointer
    private var position = 0

    /// A request in `bytes`, which must outlive it; nil if they are not a request.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= FUSEProtocol.requestHeaderSize,
            Int(bytes.loadUnaligned(fromByteOffset: 0, as: UInt32.self)) == bytes.count
        else { return nil }
        operation = bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
        unique = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        node = bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        user = UserID(rawValue: bytes.loadUnaligned(fromByteOffset: 24, as: UInt32.self))
        group = GroupID(rawValue: bytes.loadUnaligned(fromByteOffset: 28, as: UInt32.self))
        processID = bytes.loadUnaligned(fromByteOffset: 32, as: UInt32.self)
        body = UnsafeRawBufferPointer(rebasing: bytes[FUSEProtocol.requestHeaderSize...])
    }

    mutating func u32() throws(FileSystemError) -> UInt32 { try integer() }

    mutating func u64() throws(FileSystemError) -> UInt64 { try integer() }

    /// A 64-bit integer interpreted as signed, such as an offset.
    mutating func offset() throws(FileSystemError) -> Int64 { Int64(bitPattern: try integer()) }

    mutating func skip(_ count: Int) throws(FileSystemError) { _ = try bytes(count) }

    mutating func bytes(_ count: Int) throws(FileSystemError) -> UnsafeRawBufferPointer {
        guard count >= 0, count <= body.count - position else { throw Self.malformed }
        defer { position += count }
        return UnsafeRawBufferPointer(rebasing: body[position..<position + count])
    }

    /// Bytes up to a NUL.
    mutating func path() throws(FileSystemError) -> POSIXPath {
        guard let end = body[position...].firstIndex(of: 0) else { throw Self.malformed }
        defer { position = end + 1 }
        return POSIXPath(body[position..<end])
    }

    private mutating func integer<Value: FixedWidthInteger & BitwiseCopyable>() throws(FileSystemError) -> Value {
        try bytes(MemoryLayout<Value>.size).loadUnaligned(as: Value.self)
    }

    private static let malformed = FileSystemError(.resolve, .ioError)
}

extension FUSERequest: CustomStringConvertible {
    /// Operation, node and caller; for a call that opens, also the flags.
    var description: String {
        let operation = FUSEProtocol.Operation(rawValue: operation)
        let name = operation.map { "\($0)" } ?? "operation \(self.operation)"
        var text = "\(name) node \(node) user \(user.rawValue) group \(group.rawValue)"
        guard operation == .open || operation == .create, body.count >= 4 else { return text }
        text += " flags 0\(String(body.loadUnaligned(as: UInt32.self), radix: 8))"
        return text
    }
}

/// A reply to the kernel: space for the header, then the body, appended in order.
struct FUSEReply {
    private(set) var bytes: [UInt8]

    init(capacity: Int = 144) {
        bytes = []
        bytes.reserveCapacity(FUSEProtocol.replyHeaderSize + capacity)
        bytes.append(contentsOf: repeatElement(0, count: FUSEProtocol.replyHeaderSize))
    }

    /// A reply whose body `body` fills with up to `count` bytes; it returns their number.
    init(
        count: Int, _ body: (UnsafeMutableRawBufferPointer) throws(FileSystemError) -> Int
    ) throws(FileSystemError) {
        bytes = [UInt8](repeating: 0, count: FUSEProtocol.replyHeaderSize + count)
        var filled = 0
        var failure: FileSystemError?
        bytes.withUnsafeMutableBytes { bytes in
            do throws(FileSystemError) {
                filled = try body(UnsafeMutableRawBufferPointer(rebasing: bytes[FUSEProtocol.replyHeaderSize...]))
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        bytes.removeLast(count - filled)
    }

    /// The size of the body in bytes.
    var bodyCount: Int { bytes.count - FUSEProtocol.replyHeaderSize }

    mutating func append(_ value: UInt32) { appendInteger(value) }

    mutating func append(_ value: UInt64) { appendInteger(value) }

    mutating func append(_ value: UInt16) { appendInteger(value) }

    mutating func append(_ other: some Sequence<UInt8>) { bytes.append(contentsOf: other) }

    mutating func appendZeros(_ count: Int) { bytes.append(contentsOf: repeatElement(0, count: count)) }

    /// `struct fuse_attr`.
    mutating func append(_ node: InMemoryFileSystem.NodeStatus) {
        let status = node.status
        append(status.inode)
        append(UInt64(bitPattern: status.sizeInBytes))
        append(UInt64(bitPattern: status.allocatedSizeInBytes / 512))
        for time in [status.accessed, status.modified, status.changed] { append(UInt64(bitPattern: time.seconds)) }
        for time in [status.accessed, status.modified, status.changed] { append(UInt32(bitPattern: time.nanoseconds)) }
        append(UInt32(status.type.rawValue) | UInt32(status.permissions.rawValue))
        append(UInt32(clamping: status.linkCount))
        append(status.owner.rawValue)
        append(status.group.rawValue)
        append(UInt32(truncatingIfNeeded: node.deviceNumber))
        append(UInt32(4096))
        append(UInt32(0))
    }

    /// `struct fuse_entry_out`, with zero cache timeouts.
    mutating func appendEntry(_ node: InMemoryFileSystem.NodeStatus, number: UInt64) {
        append(number)
        appendZeros(32)
        append(node)
    }

    /// `struct fuse_attr_out`, with zero cache timeouts.
    mutating func appendAttributes(_ node: InMemoryFileSystem.NodeStatus) {
        appendZeros(16)
        append(node)
    }

    /// `struct fuse_open_out`.
    mutating func appendOpen(handle: UInt64, flags: UInt32) {
        append(handle)
        append(flags)
        append(UInt32(0))
    }

    /// Fills in the header; an error reply has no body.
    mutating func finish(unique: UInt64, error: Errno? = nil) {
        if error != nil { bytes.removeLast(bodyCount) }
        let count = UInt32(bytes.count)
        bytes.withUnsafeMutableBytes { bytes in
            bytes.storeBytes(of: count, toByteOffset: 0, as: UInt32.self)
            bytes.storeBytes(of: -(error?.rawValue ?? 0), toByteOffset: 4, as: Int32.self)
            bytes.storeBytes(of: unique, toByteOffset: 8, as: UInt64.self)
        }
    }

    private mutating func appendInteger(_ value: some FixedWidthInteger & BitwiseCopyable) {
        withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) }
    }
}

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
