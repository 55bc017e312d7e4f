import Foundation
import Synchronization

/// Relays the connections of a port of loopback to another one, as a filter decides.
package final class LoopbackProxy: Sendable {
    package enum Side: Sendable {
        case client
        case server
    }

    /// The treatment of bytes that have arrived.
    package enum Verdict: Sendable {
        case pass
        case drop

        /// The bytes are dropped, and the client's connection is shut down.
        case cut
    }

    /// Decides on bytes of one connection that arrived from one side. Called on a thread of that side.
    package typealias Filter = @Sendable (_ side: Side, _ bytes: ArraySlice<UInt8>) -> Verdict

    private let listener: LoopbackListener
    private let connections: Connections

    package var port: UInt16 { listener.port }

    /// The number of open connections.
    package var connectionCount: Int { connections.count }

    /// - Parameters:
    ///   - target: The port to which connections are relayed.
    ///   - filter: Makes the filter of a new connection.
    /// - Throws: ``LoopbackSocket/Failed``.
    package init(to target: UInt16, filter: @escaping @Sendable (_ connection: Int) -> Filter) throws {
        let connections = Connections()
        self.connections = connections
        listener = try LoopbackListener { client in
            guard let server = try? LoopbackSocket.connection(port: target) else {
                close(client)
                return
            }
            connections.relay(client, server, filter)
        }
    }

    /// Shuts down connections.
    package func cut(where isCut: (_ connection: Int) -> Bool = { _ in true }) { connections.cut(where: isCut) }
}

/// The open connections of a proxy.
private final class Connections: Sendable {
    private struct State {
        var open: [Int: (client: Int32, server: Int32)] = [:]
        var last = 0
    }

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.open.count } }

    func cut(where isCut: (Int) -> Bool) {
        // Under the lock, which the threads take before they close a descriptor.
        state.withLock { state in
            for (id, connection) in state.open where isCut(id) {
                shutdown(connection.client, Int32(SHUT_RDWR))
                shutdown(connection.server, Int32(SHUT_RDWR))
            }
        }
    }

    func relay(_ client: Int32, _ server: Int32, _ makeFilter: (Int) -> LoopbackProxy.Filter) {
        let id = state.withLock { state in
            state.last += 1
            state.open[state.last] = (client, server)
            return state.last
        }
        let filter = makeFilter(id)
        let group = DispatchGroup()
        for (side, source, target) in [(LoopbackProxy.Side.client, client, server), (.server, server, client)] {
            group.enter()
            Thread.detachNewThread {
                Self.pump(source, target) { bytes in
                    let verdict = filter(side, bytes)
                    if verdict == .cut { shutdown(client, Int32(SHUT_RDWR)) }
                    return verdict == .pass
                }
                shutdown(target, Int32(SHUT_RDWR))
                group.leave()
            }
        }
        group.notify(queue: .global()) {
            self.state.withLock { _ = $0.open.removeValue(forKey: id) }
            close(client)
            close(server)
        }
    }

    /// Copies bytes until the end of `source`, those that `isCopied` accepts.
    private static func pump(_ source: Int32, _ target: Int32, _ isCopied: (ArraySlice<UInt8>) -> Bool) {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(source, &buffer, buffer.count)
            guard count > 0 else { return }
            guard isCopied(buffer[..<count]) else { continue }
            var sent = 0
            while sent < count {
                let part = buffer[sent..<count].withUnsafeBytes {
                    send(target, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard part > 0 else { return }
                sent += part
            }
        }
    }
}

/// Accepts connections on a free port of loopback until it is released.
package final class LoopbackListener: Sendable {
    package let port: UInt16
    private let descriptor: Int32

    /// - Parameter serve: Serves a connection, and closes its descriptor. Called on the listener's thread: longer work
    ///   belongs on another one.
    /// - Throws: ``LoopbackSocket/Failed``.
    package init(_ serve: @escaping @Sendable (_ client: Int32) -> Void) throws {
        (descriptor, port) = try LoopbackSocket.listener()
        let descriptor = descriptor
        Thread.detachNewThread {
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else {
                    close(descriptor)
                    return
                }
                serve(client)
            }
        }
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }
}

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
