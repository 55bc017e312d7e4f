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
    /// The value of a metric's label.
    fileprivate var type: String { code ?? status.map(String.init) ?? "\(reason)" }
}
#endif
