#if S3
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

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
            (error, repetition, mayBeApplied) = (.closed, .never, false)
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
#endif
