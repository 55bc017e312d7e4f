#if os(Linux)
import ForgeFileSystem
import SystemPackage

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
#endif
