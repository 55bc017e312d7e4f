#if Etcd
import ServerTestSupport
import Synchronization

/// A proxy before a server that loses chosen requests or their answers.
final class FaultyProxy: Sendable {
    enum Fault: Hashable, Sendable {
        /// The connection is cut when a request arrives; the server does not get it.
        case losesRequest

        /// The server gets the request, and the connection is cut when its answer arrives.
        case losesAnswer

        /// The request and all later ones on its connection are dropped; the connection stays open.
        case hangs
    }

    /// The requests that a fault may meet.
    enum Request: Hashable, Sendable {
        case read
        case write

        func hasPath(_ path: String) -> Bool {
            switch self {
            case .read: path == "/v3/kv/range"
            case .write: path == "/v3/kv/txn" || path == "/v3/kv/put"
            }
        }
    }

    /// The requests so far, and the fault that the next request of a kind meets.
    private final class State: Sendable {
        let requests = Mutex((paths: [String](), fault: (kind: Fault, request: Request)?.none))

        func add(_ path: String) -> Fault? {
            requests.withLock { state in
                state.paths.append(path)
                guard let fault = state.fault, fault.request.hasPath(path) else { return nil }
                state.fault = nil
                return fault.kind
            }
        }
    }

    private let proxy: LoopbackProxy
    private let state: State

    var port: UInt16 { proxy.port }
    var endpoint: String { "http://127.0.0.1:\(port)" }

    init(to target: UInt16) throws {
        let state = State()
        self.state = state
        proxy = try LoopbackProxy(to: target) { _ in
            let connection = Mutex(Connection())
            return { side, bytes in connection.withLock { $0.verdict(side, bytes, state.add) } }
        }
    }

    /// The paths of the requests so far, in the order of their arrival.
    var requests: [String] { state.requests.withLock { $0.paths } }

    /// The number of open connections.
    var connectionCount: Int { proxy.connectionCount }

    func count(of request: Request) -> Int { requests.count { request.hasPath($0) } }

    /// Lets the next request of a kind meet a fault.
    func next(_ request: Request, _ fault: Fault) { state.requests.withLock { $0.fault = (fault, request) } }

    /// Cuts all connections.
    func cut() { proxy.cut() }

    private struct Connection {
        /// The path of a request whose body has not arrived.
        private var begun: String?

        /// The fault that a request has met.
        private var fault: Fault?

        mutating func verdict(
            _ side: LoopbackProxy.Side, _ bytes: ArraySlice<UInt8>, _ add: (String) -> Fault?
        ) -> LoopbackProxy.Verdict {
            switch side {
            case .client:
                if fault == .hangs { return .drop }
                if let path = request(bytes), let new = add(path) { fault = new }
                return switch fault {
                case .losesRequest: .cut
                case .hangs: .drop
                case .losesAnswer, nil: .pass
                }
            case .server: return fault == .losesAnswer ? .cut : .pass
            }
        }

        /// The path of a request when its body begins to arrive.
        private mutating func request(_ bytes: ArraySlice<UInt8>) -> String? {
            if let path = begun {
                begun = nil
                return path
            }
            let words = String(decoding: bytes.prefix(200), as: UTF8.self).split(separator: " ")
            guard words.count > 1, words[0] == "POST" else { return nil }
            let path = String(words[1])
            if bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
                begun = path
                return nil
            }
            return path
        }
    }
}
#endif
