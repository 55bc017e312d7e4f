import Foundation
import ServerTestSupport
import Synchronization

/// A proxy before the peer port of a member, through which the other members reach it.
///
/// While it blocks a sender, the bytes of its connections vanish in both directions, as in a network that drops packets;
/// these connections are cut when the block ends. A connection belongs to the member that its first request names.
final class PeerProxy: Sendable {
    /// Whose connections are blocked.
    enum Block: Hashable, Sendable {
        case none
        case all

        /// Those of the member with this identifier, as the header `X-Server-From` has it.
        case sender(String)
    }

    private struct Connection {
        var client: Int32
        var server: Int32
        var sender: String?
        var wasBlocked = false
    }

    private struct State {
        var block = Block.none
        var connections: [Int: Connection] = [:]
        var count = 0
    }

    let port: UInt16
    private let target: UInt16
    private let listener: Int32
    private let state = Mutex(State())

    init(to target: UInt16) throws {
        self.target = target
        (listener, port) = try LoopbackSocket.listener()
        let listener = listener
        Thread.detachNewThread { [weak self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self else {
                    if client >= 0 { close(client) }
                    close(listener)
                    return
                }
                self.serve(client)
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    /// Blocks connections from now on, and cuts those that were blocked before.
    func set(_ block: Block) {
        state.withLock { state in
            state.block = block
            for connection in state.connections.values where connection.wasBlocked {
                shutdown(connection.client, Int32(SHUT_RDWR))
                shutdown(connection.server, Int32(SHUT_RDWR))
            }
        }
    }

    private func serve(_ client: Int32) {
        let server: Int32
        do {
            server = try LoopbackSocket.connection(port: target)
        } catch {
            close(client)
            return
        }
        let id = state.withLock { state in
            state.count += 1
            state.connections[state.count] = Connection(client: client, server: server)
            return state.count
        }
        let group = DispatchGroup()
        for (source, target) in [(client, server), (server, client)] {
            group.enter()
            Thread.detachNewThread {
                self.pump(source, target, id)
                shutdown(target, Int32(SHUT_RDWR))
                group.leave()
            }
        }
        group.notify(queue: .global()) {
            self.state.withLock { _ = $0.connections.removeValue(forKey: id) }
            close(client)
            close(server)
        }
    }

    /// Whether bytes of a connection pass; the first ones from a client name the sender.
    private func passes(_ id: Int, _ bytes: ArraySlice<UInt8>, isRequest: Bool) -> Bool {
        state.withLock { state in
            guard var connection = state.connections[id] else { return false }
            defer { state.connections[id] = connection }
            if isRequest, connection.sender == nil { connection.sender = Self.sender(of: bytes) }
            switch state.block {
            case .none: break
            case .all: connection.wasBlocked = true
            case .sender(let sender): if connection.sender == sender { connection.wasBlocked = true }
            }
            return !connection.wasBlocked
        }
    }

    private static func sender(of bytes: ArraySlice<UInt8>) -> String? {
        let lines = String(decoding: bytes.prefix(4096), as: UTF8.self).split(separator: "\r\n")
        return lines.first { $0.lowercased().hasPrefix("x-server-from: ") }.map { String($0.dropFirst(15)) }
    }

    /// Copies bytes until the end of `source`.
    private func pump(_ source: Int32, _ target: Int32, _ id: Int) {
        let isRequest = state.withLock { $0.connections[id]?.client == source }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(source, &buffer, buffer.count)
            guard count > 0 else { return }
            guard passes(id, buffer[..<count], isRequest: isRequest) else { continue }
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
