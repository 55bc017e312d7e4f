import Foundation

/// A connection to a server on this machine that sends what it is given, and blocks the calling thread.
final class RawConnection {
    struct Failed: Error {
        var errno: Int32
    }

    private let descriptor: Int32

    init(port: Int) throws {
        #if canImport(Darwin)
        descriptor = socket(AF_INET, SOCK_STREAM, 0)
        var isOn: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &isOn, socklen_t(MemoryLayout<Int32>.size))
        #else
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        guard descriptor >= 0 else { throw Failed(errno: errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            let number = errno
            close(descriptor)
            throw Failed(errno: number)
        }
    }

    deinit {
        close(descriptor)
    }

    /// Sends bytes; returns false once the server has closed the connection.
    @discardableResult func send(_ bytes: [UInt8], isWaiting: Bool = true) -> Bool {
        #if canImport(Darwin)
        let flags = isWaiting ? 0 : Int32(MSG_DONTWAIT)
        #else
        let flags = Int32(MSG_NOSIGNAL) | (isWaiting ? 0 : Int32(MSG_DONTWAIT))
        #endif
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { sendBytes(descriptor, $0.baseAddress, $0.count, flags) }
            if count < 0 { return errno == EAGAIN }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Reads until the server closes the connection.
    func readAll() -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
    }
}

/// `send(2)`, which the method of the same name hides.
private func sendBytes(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int, _ flags: Int32) -> Int {
    send(descriptor, start, count, flags)
}

/// Runs `body` on a thread of its own: the server of a test needs those of Dispatch.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(with: Swift.Result<Result, any Error> { try body() })
        }
    }
}
