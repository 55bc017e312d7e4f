#if S3
import Metrics
import Tracing

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
