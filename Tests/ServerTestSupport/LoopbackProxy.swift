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
