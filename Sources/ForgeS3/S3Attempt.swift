#if S3
import AsyncHTTPClient
import Foundation
import Metrics
import NIOCore
import NIOHTTP1
import NIOPosix
import Tracing

/// One attempt of a request that failed.
struct S3Attempt: Error {
    /// Whether the request may be sent again.
    enum Repetition: Hashable, Sendable {
        case never

        /// After a pause, which `Retry-After` may lengthen.
        case later(Duration?)

        /// At once, signed with the server's time.
        case withTime(Date)

        /// At once, with renewed credentials.
        case withCredentials
    }

    var error: S3Error
    var repetition: Repetition

    /// Whether the request may have taken effect.
    var mayBeApplied: Bool

    /// The clock skew that servers accept ("Signing and authenticating REST requests": 15 minutes).
    static let maximumSkew: TimeInterval = 15 * 60

    /// The server has answered with an error.
    init(_ request: S3Request, status: Int, _ headers: HTTPHeaders, _ body: ByteBuffer, at now: Date) {
        let document = S3Document(body.readableBytesView)
        let code = document?["Code"]?.text
        let region = headers.first(name: "x-amz-bucket-region") ?? document?["Region"]?.text
        error = S3Error(
            .refused, status: status, code: code, requestID: headers.first(name: "x-amz-request-id"),
            detail: [301, 307, 400].contains(status) ? region.map { "the bucket is in the region \($0)" } : nil)
        mayBeApplied = false
        let date = S3Date.header(headers.first(name: "Date"))
        // The answer to HEAD has no body, and so no code.
        let isSkewed =
            code == "RequestTimeTooSkewed"
            || status == 403 && code == nil && abs((date ?? now).timeIntervalSince(now)) > Self.maximumSkew
        if isSkewed, let date {
            repetition = .withTime(date)
        } else if Self.expired.contains(code ?? "") || request.method == "HEAD" && status == 400 {
            repetition = .withCredentials
        } else if status == 409, !request.repeatsAfterConflict {
            repetition = .never
        } else if [429, 500, 502, 503, 504].contains(status) || Self.transient.contains(code ?? "") {
            error.reason = .unavailable
            // The server may still perform a request that a gateway has given up.
            mayBeApplied = status != 503 && status != 429 && code != "ConditionalRequestConflict"
            repetition = .later(Self.wish(headers.first(name: "Retry-After"), at: now))
        } else {
            repetition = .never
        }
    }

    /// There is no answer.
    init(_ cause: any Error, mayBeSent: Bool) {
        mayBeApplied = mayBeSent
        if cause is CancellationError || Task.isCancelled {
            (error, repetition) = (S3Error(.cancelled), .never)
        } else if (cause as? HTTPClientError) == .alreadyShutdown {
            (error, repetition, mayBeApplied) = (S3Error(.unavailable, detail: "the store is closed"), .never, false)
        } else if cause is NIOTooManyBytesError {
            let limit = (cause as? NIOTooManyBytesError)?.maxBytes.map { "more than \($0)" } ?? "too many"
            (error, repetition) = (S3Error(.invalidAnswer, detail: "it has \(limit) bytes"), .never)
        } else {
            let isLate = (cause as? HTTPClientError) == .deadlineExceeded
            (error, repetition) = (S3Error(isLate ? .timeout : .unavailable, detail: "\(type(of: cause))"), .later(nil))
            if let cause = cause as? HTTPClientError { error.detail = cause.shortDescription }
        }
    }

    /// Whether no connection was made, so that no server has received the request.
    static func hasNoConnection(_ error: any Error) -> Bool {
        if error is NIOConnectionError || (error as? HTTPClientError) == .connectTimeout { return true }
        // Of an address without a name.
        guard let error = error as? IOError else { return false }
        return [ECONNREFUSED, ENETUNREACH, EHOSTUNREACH].contains(error.errnoCode)
    }

    /// Codes for expired credentials.
    private static let expired: Set = ["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"]

    /// Codes of transient failures ("Error responses", Amazon S3 API Reference).
    private static let transient: Set = [
        "InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "Throttling", "ThrottlingException",
        "RequestLimitExceeded", "TooManyRequests", "ConditionalRequestConflict", "OperationAborted",
    ]

    /// The time that a server asks to wait: seconds or a date.
    static func wish(_ text: String?, at now: Date) -> Duration? {
        if let seconds = text.flatMap({ Int($0) }) { return .seconds(max(0, min(seconds, 1 << 20))) }
        return S3Date.header(text).map { .seconds(max(0, min($0.timeIntervalSince(now), 1_000_000))) }
    }
}

/// Spans and metrics of requests, with the names of OpenTelemetry's conventions for S3 and for RPC clients. Neither has
/// keys.
enum S3Telemetry {
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
