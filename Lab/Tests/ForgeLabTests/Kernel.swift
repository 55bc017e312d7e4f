#if os(Linux)
import ForgeFileSystem
import Testing

@testable import forge_lab

/// The kernel's side of `/dev/fuse`.
final class Kernel {
    enum Field {
        case u32(UInt32)
        case u64(UInt64)
        case name(String)
        case bytes([UInt8])

        fileprivate var bytes: [UInt8] {
            switch self {
            case .u32(let value): withUnsafeBytes(of: value) { Array($0) }
            case .u64(let value): withUnsafeBytes(of: value) { Array($0) }
            case .name(let name): Array(name.utf8) + [0]
            case .bytes(let bytes): bytes
            }
        }
    }

    struct Reply {
        var error: Int32
        var unique: UInt64
        var body: [UInt8]

        func u32(_ offset: Int) -> UInt32 {
            body.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
        }

        func u64(_ offset: Int) -> UInt64 {
            body.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        }
    }

    let fileSystem: InMemoryFileSystem
    let server: FUSEServer
    private(set) var lastUnique: UInt64 = 0

    init() throws {
        fileSystem = InMemoryFileSystem(options: .init(umask: []))
        server = try FUSEServer(fileSystem)
    }

    /// The one answer to a request.
    func ask(_ operation: FUSEProtocol.Operation, _ fields: [Field], node: UInt64 = 1) throws -> Reply {
        let replies = answers(operation.rawValue, fields, node: node)
        return try #require(replies.first)
    }

    func ask(_ operation: FUSEProtocol.Operation, _ fields: Field...) throws -> Reply { try ask(operation, fields) }

    func answers(_ operation: FUSEProtocol.Operation, _ fields: [Field], node: UInt64 = 1) -> [Reply] {
        answers(operation.rawValue, fields, node: node)
    }

    func answers(_ operation: UInt32, _ fields: [Field], node: UInt64) -> [Reply] {
        lastUnique += 2
        let body = fields.flatMap(\.bytes)
        let count = UInt32(FUSEProtocol.requestHeaderSize + body.count)
        let header: [Field] = [
            .u32(count), .u32(operation), .u64(lastUnique), .u64(node), .u32(0), .u32(0), .u32(0), .u32(0),
        ]
        let request = header.flatMap(\.bytes) + body
        return request.withUnsafeBytes { server.answer($0) }.map { reply in
            reply.bytes.withUnsafeBytes { bytes in
                #expect(Int(bytes.load(as: UInt32.self)) == bytes.count)
                return Reply(
                    error: bytes.loadUnaligned(fromByteOffset: 4, as: Int32.self),
                    unique: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self), body: Array(bytes[16...]))
            }
        }
    }
}
#endif
