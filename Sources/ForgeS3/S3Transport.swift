#if S3
import AsyncHTTPClient
import Crypto
import ForgeHTTP
import Foundation
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization
import Tracing

/// The connections to a server: signatures, attempts and deadlines.
final class S3Transport: Sendable {
    private struct State {
        /// How much the server's clock is ahead of this machine's.
        var skew: TimeInterval = 0
        var isClosed = false
    }

    let configuration: S3FileStore.Configuration
    let place: S3Place
    let client: HTTPClient
    private let credentials: S3CredentialCache
    private let state = Mutex(State())

    init(_ configuration: S3FileStore.Configuration) throws(S3Error) {
        self.configuration = configuration
        place = try S3Place(configuration)
        var settings = HTTPClient.Configuration(redirectConfiguration: .disallow)
        settings.httpVersion = .http1Only
        settings.timeout.connect = .seconds(5)
        settings.connectionPool.retryConnectionEstablishment = false
        settings.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 256
        do {
            settings.tlsConfiguration = try TLSConfiguration.client(trusting: configuration.trustRootsPath)
        } catch {
            throw S3Error(.invalidConfiguration, detail: "\(error)")
        }
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
        self.client = client
        credentials = S3CredentialCache(now: configuration.now) {
            try await S3CredentialLoader(client: client).load(configuration.credentials)
        }
    }

    private var isClosed: Bool { state.withLock { $0.isClosed } }

    deinit {
        if !isClosed { client.shutdown { _ in } }
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

    /// The time at the server.
    var serverTime: Date { configuration.now() + state.withLock { $0.skew } }

    // MARK: Requests

    /// Sends a request until it is answered, may not be repeated, or the deadline has passed.
    ///
    /// - Returns: An answer whose status is 200 to 299.
    /// - Throws: ``S3Error``.
    func send(_ request: S3Request) async throws(S3Error) -> S3Response {
        do throws(S3Error) {
            return try await S3Telemetry.measuring(request, bucket: configuration.bucket) { () async throws(S3Error) in
                try await repeating(request)
            }
        } catch {
            var error = error
            error.place = place.text
            throw error
        }
    }

    /// A signed URL for a request without a body.
    func presigned(_ method: String, object: String, validFor seconds: Int) async throws(S3Error) -> String {
        let credentials = try await currentCredentials(until: .now + configuration.deadline)
        let signer = S3Signer(credentials: credentials, region: configuration.region)
        var wire = place.wire(method, object: object, query: [])
        signer.presign(&wire, validFor: seconds, at: serverTime)
        return wire.url
    }

    private func currentCredentials(until end: ContinuousClock.Instant) async throws(S3Error) -> S3Credentials {
        if let present = credentials.present { return present }
        do {
            let credentials = credentials
            return try await Deadline.limiting(end - ContinuousClock.now) { try await credentials.current() }
        } catch let error as S3Error {
            throw error
        } catch {
            guard !Task.isCancelled else { throw S3Error(.cancelled) }
            throw S3Error(.credentialsUnavailable, detail: "the source has not answered before the deadline")
        }
    }

    private func repeating(_ request: S3Request) async throws(S3Error) -> S3Response {
        let end = ContinuousClock.now + configuration.deadline
        let payload = request.payloadHash ?? SHA256.hexadecimalDigest(of: request.body)
        var backoff = Backoff()
        var (corrections, renewals) = (0, 0)
        var mayBeApplied = false
        // The last failure explains more than `timeout` alone.
        var cause: S3Error?
        while true {
            guard !Task.isCancelled else { throw outcome(of: S3Error(.cancelled), mayBeApplied, request) }
            // The client may keep a call that begins after its shutdown until the deadline.
            guard !isClosed else { throw outcome(of: .closed, mayBeApplied, request) }
            let credentials: S3Credentials
            do throws(S3Error) {
                credentials = try await currentCredentials(until: end)
            } catch {
                throw outcome(of: error, mayBeApplied, request)
            }
            do throws(S3Attempt) {
                return try await attempt(request, payload, credentials, until: end)
            } catch {
                mayBeApplied = mayBeApplied || request.isWrite && error.mayBeApplied
                let failure = outcome(of: cause ?? error.error, mayBeApplied, request)
                if error.error.reason != .timeout { cause = error.error }
                var wait = Duration.zero
                switch error.repetition {
                case .never:
                    // After a refused condition, the stored object shows the outcome of an earlier attempt.
                    guard error.error.reason == .refused, [404, 409, 412].contains(error.error.status) else {
                        throw outcome(of: error.error, mayBeApplied, request)
                    }
                    var refusal = error.error
                    refusal.mayBeApplied = mayBeApplied
                    throw refusal
                case .withTime(let date):
                    corrections += 1
                    guard corrections < 3 else { throw outcome(of: error.error, mayBeApplied, request) }
                    let skew = date.timeIntervalSince(configuration.now())
                    state.withLock { $0.skew = skew }
                    configuration.logger.notice("the server's clock differs", metadata: ["seconds": "\(skew)"])
                    continue
                case .withCredentials:
                    renewals += 1
                    guard renewals < 3 else { throw outcome(of: error.error, mayBeApplied, request) }
                    self.credentials.forget(credentials)
                    continue
                case .later(let wish):
                    var generator = SystemRandomNumberGenerator()
                    wait = max(backoff.next(using: &generator), wish ?? .zero)
                }
                guard ContinuousClock.now + wait < end else { throw failure }
                configuration.logger.debug(
                    "repeating", metadata: ["operation": "\(request.name)", "error": "\(error.error)"])
                do { try await Task.sleep(for: wait) } catch {}
            }
        }
    }

    /// The error of a call whose last attempt failed.
    private func outcome(of error: S3Error, _ mayBeApplied: Bool, _ request: S3Request) -> S3Error {
        guard mayBeApplied else { return error }
        var error = error
        error.mayBeApplied = true
        if request.isWrite { error.reason = .unknownOutcome }
        return error
    }

    /// The body of an answer.
    private static func collect(_ head: HTTPClientResponse, upTo maximum: Int) async throws -> ByteBuffer {
        let size = head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0
        guard head.status == .partialContent, size <= maximum else {
            return try await head.body.collect(upTo: maximum)
        }
        // Reserved for a part of a file: growing would copy it, and take twice the memory meanwhile.
        var bytes = ByteBuffer()
        bytes.reserveCapacity(size)
        try await head.body.collect(upTo: maximum, into: &bytes)
        return bytes
    }

    // MARK: Attempts

    private func attempt(
        _ request: S3Request, _ payload: String, _ credentials: S3Credentials, until end: ContinuousClock.Instant
    ) async throws(S3Attempt) -> S3Response {
        let signer = S3Signer(credentials: credentials, region: configuration.region)
        var wire = place.wire(request.method, object: request.object, query: request.query)
        wire.headers = request.headers
        signer.sign(&wire, payload: payload, at: serverTime)
        let body = RequestBody(request.body)
        var sent = HTTPClientRequest(url: wire.url)
        sent.method = HTTPMethod(rawValue: request.method)
        sent.headers.add(contentsOf: wire.headers)
        if body.count > 0 { sent.body = body.content }
        // The parts of a large object are put together for minutes, before its answer ends.
        let limit =
            request.answersBeforeItsEnd
            ? configuration.deadline : min(end - ContinuousClock.now, configuration.deadline / 3)
        let maximum = request.maximumAnswerSizeInBytes
        let response: S3Response
        do {
            let (client, sent) = (client, sent)
            response = try await Deadline.limiting(limit) {
                let head = try await client.execute(sent, deadline: .distantFuture)
                return S3Response(
                    status: Int(head.status.code), headers: head.headers,
                    bytes: try await Self.collect(head, upTo: maximum))
            }
        } catch {
            // HTTP has no range of an empty body.
            throw S3Attempt(error, mayBeSent: body.count > 0 ? body.mayBeSent : !S3Attempt.hasNoConnection(error))
        }
        guard 200..<300 ~= response.status else {
            throw S3Attempt(
                request, status: response.status, response.headers, response.bytes, at: configuration.now())
        }
        if request.answersBeforeItsEnd {
            guard let document = S3Document(response.bytes.readableBytesView) else {
                throw S3Attempt(S3Error(.invalidAnswer), mayBeSent: true)
            }
            if document.name == "Error" {
                throw S3Attempt(
                    request, status: response.status, response.headers, response.bytes, at: configuration.now())
            }
            // For example the error page of a proxy.
            guard document["ETag"] != nil else {
                throw S3Attempt(S3Error(.invalidAnswer), mayBeSent: true)
            }
        }
        return response
    }
}

/// Spans and metrics of requests, with the names of OpenTelemetry's conventions for S3 and for RPC clients. Neither has
/// keys.
private enum S3Telemetry {
    /// Runs a request in a span, and records its duration in `rpc.client.call.duration`.
    static func measuring<Success: Sendable>(
        _ request: S3Request, bucket: String, _ body: () async throws(S3Error) -> Success
    ) async throws(S3Error) -> Success {
        let start = ContinuousClock.now
        let result = await withSpan("S3.\(request.name)", ofKind: .client) { span -> Result<Success, S3Error> in
            span.attributes["rpc.system.name"] = "aws-api"
            span.attributes["rpc.method"] = "S3/\(request.name)"
            span.attributes["aws.s3.bucket"] = bucket
            do throws(S3Error) {
                return .success(try await body())
            } catch {
                span.attributes["error.type"] = error.type
                if let status = error.status { span.attributes["http.response.status_code"] = status }
                if let id = error.requestID { span.attributes["aws.request_id"] = id }
                // Missing objects are answers.
                if error.status != 404 { span.setStatus(SpanStatus(code: .error)) }
                return .failure(error)
            }
        }
        var dimensions = [("rpc.system.name", "aws-api"), ("rpc.method", "S3/\(request.name)")]
        if case .failure(let error) = result { dimensions.append(("error.type", error.type)) }
        Metrics.Timer(
            label: "rpc.client.call.duration", dimensions: dimensions, preferredDisplayUnit: .seconds
        ).recordNanoseconds(Int64((ContinuousClock.now - start) / .nanoseconds(1)))
        return try result.get()
    }
}

extension S3Error {
    /// A word for metrics, of a bounded set: a known code, the status, or the reason.
    var type: String {
        if let code, Self.knownCodes.contains(code) { return code }
        return status.map(String.init) ?? "\(reason)"
    }

    /// Codes that a store can meet ("Error responses", Amazon S3 API Reference). Servers have others of their own.
    private static let knownCodes: Set = [
        "AccessDenied", "AuthorizationHeaderMalformed", "BadDigest", "ConditionalRequestConflict", "EntityTooLarge",
        "EntityTooSmall", "ExpiredToken", "InternalError", "InvalidAccessKeyId", "InvalidArgument",
        "InvalidObjectState", "InvalidPart", "InvalidRange", "InvalidRequest", "InvalidToken", "KeyTooLongError",
        "MalformedXML", "MethodNotAllowed", "NoSuchBucket", "NoSuchKey", "NoSuchUpload", "NotImplemented",
        "OperationAborted", "PermanentRedirect", "PreconditionFailed", "QuotaExceeded", "RequestTimeTooSkewed",
        "RequestTimeout", "ServiceUnavailable", "SignatureDoesNotMatch", "SlowDown", "TemporaryRedirect",
        "XAmzContentSHA256Mismatch",
    ]
}
#endif
