#if Etcd
import ForgeKVStore
import Metrics
import Tracing

/// Spans and metrics of calls, with the names of OpenTelemetry's conventions for database clients.
enum EtcdTelemetry {
    /// Runs a call in a span, and records its duration in `db.client.operation.duration`.
    static func measuring<Success: Sendable>(
        _ call: EtcdCall, _ body: () async throws(AsyncKVStoreError) -> Success
    ) async throws(AsyncKVStoreError) -> Success {
        let name = call.operation.rawValue
        let start = ContinuousClock.now
        let result = await withSpan("\(name) etcd", ofKind: .client) { span -> Result<Success, AsyncKVStoreError> in
            span.attributes["db.system.name"] = "etcd"
            span.attributes["db.operation.name"] = name
            do throws(AsyncKVStoreError) {
                return .success(try await body())
            } catch {
                span.attributes["error.type"] = error.code.description
                if let endpoint = error.endpoint { span.attributes["server.address"] = endpoint }
                span.setStatus(SpanStatus(code: .error))
                return .failure(error)
            }
        }
        var dimensions = [("db.system.name", "etcd"), ("db.operation.name", name)]
        if case .failure(let error) = result { dimensions.append(("error.type", error.code.description)) }
        Metrics.Timer(
            label: "db.client.operation.duration", dimensions: dimensions, preferredDisplayUnit: .seconds
        ).recordNanoseconds(Int64((ContinuousClock.now - start) / .nanoseconds(1)))
        return try result.get()
    }
}
#endif
