import Foundation
import SystemPackage

/// A stream socket of the local domain (`unix(7)`).
final class LocalSocket: Sendable {
    private let descriptor: CInt

    private init(taking descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Connects to a server.
    convenience init(connectingTo path: String) throws(Errno) {
        self.init(taking: try Self.make())
        try Self.withAddress(path) { address, size in connect(descriptor, address, size) }
    }

    /// Listens at a path, which must not exist.
    convenience init(listeningAt path: String) throws(Errno) {
        self.init(taking: try Self.make())
        try Self.withAddress(path) { address, size in bind(descriptor, address, size) }
        guard listen(descriptor, 64) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Waits for and accepts the next client.
    func nextClient() throws(Errno) -> LocalSocket {
        while true {
            let client = accept(descriptor, nil, nil)
            if client >= 0 { return LocalSocket(taking: client) }
            guard errno == EINTR || errno == ECONNABORTED else { throw Errno(rawValue: errno) }
        }
    }

    /// Sends all bytes and shuts down the sending side.
    func sendAll(_ bytes: [UInt8]) throws(Errno) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
                return send(descriptor, rest.baseAddress, rest.count, 0)
            }
            guard count >= 0 || errno == EINTR else { throw Errno(rawValue: errno) }
            sent += max(0, count)
        }
        _ = shutdown(descriptor, Self.endOfWriting)
    }

    /// Receives until the peer shuts down its sending side.
    func receiveAll(limit: Int) throws(Errno) -> [UInt8] {
        var received: [UInt8] = []
        while received.count <= limit {
            let part = [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
                count = max(0, recv(descriptor, buffer.baseAddress, 65_536, 0))
            }
            guard !part.isEmpty else { return received }
            received += part
        }
        throw .messageTooLong
    }

    private static let endOfWriting = CInt(1)

    private static func make() throws(Errno) -> CInt {
        #if os(Linux)
        let kind = CInt(SOCK_STREAM.rawValue)
        #else
        let kind = SOCK_STREAM
        #endif
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        return descriptor
    }

    private static func withAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
    ) throws(Errno) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        guard bytes.count < capacity else { throw .fileNameTooLong }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let result = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else { throw Errno(rawValue: errno) }
    }
}
