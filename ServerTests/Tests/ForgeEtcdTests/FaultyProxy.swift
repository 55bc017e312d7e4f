import EtcdServers
import Foundation
import ServerTestSupport
import Synchronization

/// A proxy before a server, which loses requests or answers as the test says.
final class FaultyProxy: Sendable {
    enum Fault: Hashable, Sendable {
        /// The connection is cut when a request arrives; the server does not get it.
        case losesRequest

        /// The server gets the request, and the connection is cut when its answer arrives.
        case losesAnswer

        /// The request and all that follow on its connection vanish; the connection stays.
        case hangs
    }

    private struct State {
        var fault: (kind: Fault, path: String)?
        var requests: [String] = []
        var connections: [Int: (client: Int32, server: Int32)] = [:]
        var count = 0
    }

    let port: UInt16
    private let target: UInt16
    private let listener: Int32
    private let state = Mutex(State())

    var endpoint: String { "http://127.0.0.1:\(port)" }

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

    /// The paths of the requests so far, in the order of their arrival.
    var requests: [String] { state.withLock { $0.requests } }

    /// The number of open connections.
    var connectionCount: Int { state.withLock { $0.connections.count } }

    /// Lets the next request with this path meet a fault.
    func next(_ path: String, _ fault: Fault) { state.withLock { $0.fault = (fault, path) } }

    /// Cuts all connections.
    func cut() {
        state.withLock { state in
            for connection in state.connections.values {
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
        let fault = ConnectionFault()
        let id = state.withLock { state in
            state.count += 1
            state.connections[state.count] = (client, server)
            return state.count
        }
        let group = DispatchGroup()
        group.enter()
        group.enter()
        Thread.detachNewThread {
            // The path of a request whose body has not arrived.
            var begun: String?
            Self.pump(client, server) { bytes in
                if fault.value.withLock({ $0 }) == .hangs { return false }
                if let new = self.arrive(bytes, &begun) { fault.value.withLock { $0 = new } }
                switch fault.value.withLock({ $0 }) {
                case .losesRequest:
                    shutdown(client, Int32(SHUT_RDWR))
                    return false
                case .hangs: return false
                default: return true
                }
            }
            shutdown(server, Int32(SHUT_RDWR))
            group.leave()
        }
        Thread.detachNewThread {
            Self.pump(server, client) { _ in
                guard fault.value.withLock({ $0 }) == .losesAnswer else { return true }
                shutdown(client, Int32(SHUT_RDWR))
                return false
            }
            shutdown(client, Int32(SHUT_RDWR))
            group.leave()
        }
        group.notify(queue: .global()) {
            self.state.withLock { _ = $0.connections.removeValue(forKey: id) }
            close(client)
            close(server)
        }
    }

    /// The fault that a connection has met.
    private final class ConnectionFault: Sendable {
        let value = Mutex<Fault?>(nil)
    }

    /// Notes a request when its body begins to arrive, and returns the fault that it meets.
    private func arrive(_ bytes: ArraySlice<UInt8>, _ begun: inout String?) -> Fault? {
        guard let path = begun else {
            let words = String(decoding: bytes.prefix(200), as: UTF8.self).split(separator: " ")
            guard words.count > 1, words[0] == "POST" else { return nil }
            begun = String(words[1])
            let isHead = bytes.suffix(4).elementsEqual("\r\n\r\n".utf8)
            return isHead ? nil : arrive([], &begun)
        }
        begun = nil
        return state.withLock { state in
            state.requests.append(path)
            guard let fault = state.fault, fault.path == path else { return nil }
            state.fault = nil
            return fault.kind
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
