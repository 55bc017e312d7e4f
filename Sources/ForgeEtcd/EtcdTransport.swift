#if Etcd
import AsyncHTTPClient
import ForgeFileSystem
import ForgeHTTP
import ForgeKVStore
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// The connections to the servers of a cluster: endpoints, attempts, deadlines and tokens.
final class EtcdTransport: Sendable {
    struct State {
        /// How often the endpoint was changed.
        var endpointChanges = 0
        var token: String?
        var requests: UInt64 = 0
        var isClosed = false

        /// Whether all servers replay changes; nil until all of them have answered.
        var replaysChanges: Bool?
    }

    let configuration: EtcdKVStore.Configuration
    let client: HTTPClient
    private let clientID = String(UInt32.random(in: 0 ... .max), radix: 16)
    let state = Mutex(State())

    init(_ configuration: EtcdKVStore.Configuration) throws {
        self.configuration = configuration
        var settings = HTTPClient.Configuration(redirectConfiguration: .disallow)
        settings.httpVersion = .http1Only
        settings.timeout.connect = .seconds(2)
        // A server sends a progress notice on an idle watch every ten minutes.
        settings.timeout.read = .minutes(15)
        settings.connectionPool.retryConnectionEstablishment = false
        // Every watch holds a connection as long as it lives; by default there are eight.
        settings.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1 << 16
        settings.tlsConfiguration = try Self.tls(configuration.tls)
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    deinit {
        if !isClosed { client.shutdown { _ in } }
    }

    private static func tls(_ files: EtcdKVStore.Configuration.TLS) throws -> TLSConfiguration {
        var tls = try TLSConfiguration.client(trusting: files.trustRootsPath)
        if let path = files.certificatePath {
            tls.certificateChain = try NIOSSLCertificate.fromPEMFile(path).map { .certificate($0) }
        }
        if let path = files.privateKeyPath {
            tls.privateKey = .privateKey(try NIOSSLPrivateKey(file: path, format: .pem))
        }
        return tls
    }

    /// Ends all requests and connections.
    func close() async {
        let wasClosed = state.withLock { state in
            defer { state.isClosed = true }
            return state.isClosed
        }
        guard !wasClosed else { return }
        do { try await client.shutdown() } catch { configuration.logger.debug("closing: \(error)") }
    }

    // MARK: Calls

    /// Sends a request until it is answered, may not be repeated, or the deadline has passed.
    func call<Response: Decodable & Sendable>(
        _ call: EtcdCall, _ body: some Encodable & Sendable, as type: Response.Type = Response.self
    ) async throws(KVStoreError) -> Response {
        let bytes = try encoded(body, for: call)
        return try await EtcdTelemetry.measuring(call) { () async throws(KVStoreError) -> Response in
            let (response, endpoint, id) = try await repeating(call, bytes, isStream: false)
            do {
                return try JSONDecoder().decode(Response.self, from: Data(response.bytes.readableBytesView))
            } catch {
                // The body of the answer may contain values.
                throw KVStoreError(
                    call.isWrite ? .unknownOutcome : .unavailable(.server), call.operation, key: call.key,
                    endpoint: endpoint, requestID: id, detail: "the answer is not valid")
            }
        }
    }

    /// Opens a stream of messages; attempts are repeated until the deadline.
    func open(
        _ call: EtcdCall, _ body: some Encodable & Sendable
    ) async throws(KVStoreError) -> HTTPClientResponse.Body {
        let bytes = try encoded(body, for: call)
        return try await repeating(call, bytes, isStream: true).response.body
    }

    private struct Answer: Sendable {
        var body: HTTPClientResponse.Body
        var bytes = ByteBuffer()
    }

    private func encoded(
        _ body: some Encodable, for call: EtcdCall
    ) throws(KVStoreError) -> ByteBuffer {
        do {
            return ByteBuffer(bytes: try JSONEncoder().encode(body))
        } catch {
            throw KVStoreError(.unencodable, call.operation, key: call.key)
        }
    }

    private func repeating(
        _ call: EtcdCall, _ bytes: ByteBuffer, isStream: Bool
    ) async throws(KVStoreError) -> (response: Answer, endpoint: String, id: String) {
        let end = ContinuousClock.now + (call.deadline ?? configuration.deadline)
        var backoff = Backoff()
        var logIns = 0
        // The last failure explains more than `timeout` alone.
        var cause: KVStoreError?
        while true {
            guard !Task.isCancelled else { throw KVStoreError(.cancelled, call.operation, key: call.key) }
            // The client may keep a call that begins after its shutdown until the deadline.
            guard !isClosed else { throw KVStoreError(.unavailable(.closed), call.operation, key: call.key) }
            let id = state.withLock { state in
                state.requests += 1
                return "\(clientID)-\(state.requests)"
            }
            let endpoint = self.endpoint
            do throws(EtcdAttempt) {
                let token = try await token(until: end, call)
                do throws(EtcdAttempt) {
                    return (try await send(call, bytes, to: endpoint, id, token, until: end, isStream), endpoint, id)
                } catch {
                    if error.repetition == .afterLogIn { forget(token) }
                    throw error
                }
            } catch {
                switch error.repetition {
                case .never:
                    // The next call asks another server: this one may be cut off from the others.
                    if error.error.code == .unknownOutcome, !Task.isCancelled { leave(endpoint) }
                    throw error.error
                case .afterLogIn:
                    logIns += 1
                    guard logIns < 3, configuration.credentials != nil else { throw error.error }
                case .elsewhere: leave(endpoint)
                }
                var generator = SystemRandomNumberGenerator()
                let wait = backoff.next(using: &generator)
                if error.error.code != .timeout { cause = error.error }
                guard ContinuousClock.now + wait < end else { throw cause ?? error.error }
                configuration.logger.debug(
                    "repeating", metadata: ["request": "\(id)", "error": "\(error.error)"])
                do { try await Task.sleep(for: wait) } catch {}
            }
        }
    }

    /// The endpoint in use.
    private var endpoint: String {
        let endpoints = configuration.endpoints
        return endpoints[state.withLock { $0.endpointChanges } % endpoints.count]
    }

    /// Goes on to the next endpoint, unless another call already has.
    private func leave(_ endpoint: String) {
        let endpoints = configuration.endpoints
        state.withLock { state in
            if endpoints[state.endpointChanges % endpoints.count] == endpoint { state.endpointChanges += 1 }
        }
    }

    // MARK: Attempts

    private func send(
        _ call: EtcdCall, _ bytes: ByteBuffer, to endpoint: String, _ id: String, _ token: String?,
        until end: ContinuousClock.Instant, _ isStream: Bool
    ) async throws(EtcdAttempt) -> Answer {
        let body = RequestBody(bytes)
        var request = HTTPClientRequest(url: endpoint + call.path)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "X-Request-Id", value: id)
        if let token { request.headers.add(name: "Authorization", value: token) }
        // A server that loses the leader ends the watch, which then goes on at another; otherwise it would stay silent.
        if isStream { request.headers.add(name: "Grpc-Metadata-hasleader", value: "true") }
        request.body = body.content
        // The other servers get their share of the time, if the request may be sent to them.
        let rest = end - ContinuousClock.now
        let limit = configuration.endpoints.count > 1 && !call.isWrite ? rest / 2 : rest
        do {
            let (client, request) = (client, request)
            let (response, bytes) = try await Deadline.limiting(limit) { () -> (HTTPClientResponse, ByteBuffer) in
                let response = try await client.execute(request, deadline: .distantFuture)
                if isStream, response.status == .ok { return (response, ByteBuffer()) }
                return (response, try await response.body.collect(upTo: 64 << 20))
            }
            if response.status == .ok { return Answer(body: response.body, bytes: bytes) }
            throw EtcdAttempt(call, refusedWith: response.status, bytes, endpoint, id)
        } catch let error as EtcdAttempt {
            throw error
        } catch {
            // Newer gateways close the connection instead of refusing a token (etcd-io/etcd#20332).
            if body.mayBeSent, (error as? HTTPClientError) == .remoteConnectionClosed { forget(token) }
            throw EtcdAttempt(call, unanswered: error, mayBeSent: body.mayBeSent, endpoint, id)
        }
    }

    // MARK: Tokens

    private func forget(_ token: String?) {
        state.withLock { state in
            if state.token == token { state.token = nil }
        }
    }

    /// Forgets the token, because a watch was refused.
    func forgetToken() { state.withLock { $0.token = nil } }

    /// The token of the user; logs in if there is none.
    private func token(until end: ContinuousClock.Instant, _ call: EtcdCall) async throws(EtcdAttempt) -> String? {
        guard let credentials = configuration.credentials else { return nil }
        if let token = state.withLock({ $0.token }) { return token }
        let logIn = EtcdCall(path: "/v3/auth/authenticate", operation: .logIn)
        do {
            let message = EtcdLogIn(name: credentials.user, password: credentials.password)
            let answer = try await send(
                logIn, ByteBuffer(bytes: try JSONEncoder().encode(message)), to: endpoint, "\(clientID)-login", nil,
                until: end, false)
            let token = try JSONDecoder().decode(EtcdToken.self, from: Data(answer.bytes.readableBytesView)).token
            state.withLock { $0.token = token }
            return token
        } catch let attempt as EtcdAttempt {
            if attempt.error.detail?.contains("authentication is not enabled") == true { return nil }
            throw attempt
        } catch {
            throw EtcdAttempt(
                error: KVStoreError(
                    .unavailable(.server), .logIn, endpoint: endpoint, detail: "the answer is not valid"),
                repetition: .elsewhere)
        }
    }
}

extension EtcdTransport {
    /// Whether all servers that answer report every event of a watch. Asked until all of them have answered once.
    ///
    /// - Throws: ``KVStoreError`` if none answers before the deadline.
    func replaysChanges() async throws(KVStoreError) -> Bool {
        if let known = state.withLock({ $0.replaysChanges }) { return known }
        let end = ContinuousClock.now + configuration.deadline
        var backoff = Backoff()
        var generator = SystemRandomNumberGenerator()
        while true {
            let failure: KVStoreError
            switch await askVersions() {
            case .success(let replays): return replays
            case .failure(let error): failure = error
            }
            let wait = backoff.next(using: &generator)
            guard failure.code != .cancelled, !isClosed, ContinuousClock.now + wait < end else {
                throw failure
            }
            do { try await Task.sleep(for: wait) } catch { throw KVStoreError(.cancelled, .capabilities) }
        }
    }

    /// Asks each server once; fails if none answers.
    private func askVersions() async -> Result<Bool, KVStoreError> {
        var found: [EtcdVersion?] = []
        var failure = KVStoreError(.unavailable(.server), .capabilities)
        for endpoint in configuration.endpoints {
            do {
                let client = client
                let bytes = try await Deadline.limiting(configuration.deadline) {
                    let request = HTTPClientRequest(url: endpoint + "/version")
                    return try await client.execute(request, deadline: .distantFuture).body.collect(upTo: 1 << 16)
                }
                let answer = try JSONDecoder().decode(EtcdServerVersion.self, from: Data(bytes.readableBytesView))
                found.append(EtcdVersion(answer.etcdserver))
            } catch {
                failure = KVStoreError(
                    Task.isCancelled ? .cancelled : .unavailable(.server), .capabilities, endpoint: endpoint)
                failure.underlying = error  // An error of the connection contains no value.
            }
        }
        guard !found.isEmpty else { return .failure(failure) }
        let replays = found.allSatisfy { $0?.replaysChanges == true }
        if found.count == configuration.endpoints.count { state.withLock { $0.replaysChanges = replays } }
        return .success(replays)
    }
}

/// The version of a server.
struct EtcdVersion: Hashable, Sendable {
    private var numbers: [Int]

    /// Reads `3.4.36`, or `3.6.0-rc.1`; nil for anything else.
    init?(_ text: String) {
        let numbers = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false)
            .map { Int($0) }
        guard numbers.count == 3, numbers.allSatisfy({ $0 != nil }) else { return nil }
        self.numbers = numbers.compactMap(\.self)
    }

    /// Whether a watch from a revision reports every event, and its progress notices are in order.
    ///
    /// Older servers lose events around a compaction and send progress notices before the events they cover
    /// (CHANGELOG-3.4 and CHANGELOG-3.5 of etcd, 3.4.36 and 3.5.18).
    var replaysChanges: Bool {
        switch (numbers[0], numbers[1]) {
        case (3, 4): numbers[2] >= 36
        case (3, 5): numbers[2] >= 18
        default: numbers[0] > 3 || (numbers[0] == 3 && numbers[1] > 5)
        }
    }
}
#endif
