#if os(Linux)
import ForgeFileSystem
import SystemPackage

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
#endif
