import Foundation
import Synchronization

/// Calls of TCP sockets on loopback.
package enum LoopbackSocket {
    package struct Failed: Error {
        package var call: String
        package var number = errno
    }

    /// A listening socket and its port.
    package static func listener(port: UInt16 = 0) throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = try make()
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = address(port)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 && listen(descriptor, 64) == 0
                    && getsockname(descriptor, pointer, &length) == 0
            }
        }
        guard result else {
            let error = Failed(call: "bind")
            close(descriptor)
            throw error
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    package static func connection(port: UInt16) throws -> Int32 {
        let descriptor = try make()
        var address = address(port)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            let error = Failed(call: "connect")
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// The ports that ``freePort()`` chooses from: systems give none of them to outgoing connections, which would take
    /// the port of a server that is not running yet, or stopped.
    private static let serverPorts: ClosedRange<UInt16> = 10_000...32_000

    private static let givenPorts = Mutex<Set<UInt16>>([])

    /// A port that is free, and is not returned again.
    package static func freePort() throws -> UInt16 {
        for _ in 0..<1_000 {
            let port = UInt16.random(in: serverPorts)
            guard givenPorts.withLock({ $0.insert(port).inserted }) else { continue }
            do {
                close(try listener(port: port).descriptor)
                return port
            } catch let error as Failed where error.number == EADDRINUSE {}
        }
        throw Failed(call: "bind", number: EADDRINUSE)
    }

    private static func make() throws -> Int32 {
        #if canImport(Darwin)
        let type = SOCK_STREAM
        #else
        let type = Int32(SOCK_STREAM.rawValue)
        #endif
        let descriptor = socket(AF_INET, type, 0)
        guard descriptor >= 0 else { throw Failed(call: "socket") }
        return descriptor
    }

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}
