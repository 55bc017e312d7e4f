#if Etcd
import ForgeFileSystem
import AsyncHTTPClient
import ForgeKVStore
import Foundation
import Metrics
import NIOCore
import NIOHTTP1
import Tracing

/// A server's answer that is not a success: its meaning for the call.
struct EtcdFailure: Hashable, Sendable {
    /// Whether the call may be sent again.
    enum Repetition: Hashable, Sendable {
        case never

        /// On a server that may answer otherwise.
        case elsewhere

        /// With a new token; the server did nothing.
        case afterLogIn
    }

    var code: KVStoreError.Code
    var repetition: Repetition

    /// Classifies an error by the server's words and its gRPC code.
    ///
    /// - Parameters:
    ///   - message: The words, as in etcd's `rpctypes/error.go`.
    ///   - grpcCode: The code; nil if the answer was not the gateway's.
    ///   - isWrite: Whether the call changes something.
    init(_ message: String, grpcCode: Int?, isWrite: Bool) {
        if message.contains("database space exceeded") {
            // The write that exceeds the quota is applied before it is refused (etcd's `quotaApplierV3`).
            self.init(isWrite ? .unknownOutcome : .unavailable(.server), .never)
            return
        }
        if let known = Self.known.first(where: { message.contains($0.words) }) {
            self = known.failure
            return
        }
        switch grpcCode ?? 2 {
        case 3, 5, 6, 7, 9, 11, 12, 16: self.init(.refused, .never)
        case 8: self.init(.tooLarge, .never)
        default: self.init(isWrite ? .unknownOutcome : .unavailable(.server), isWrite ? .never : .elsewhere)
        }
    }

    private init(_ code: KVStoreError.Code, _ repetition: Repetition) {
        self.code = code
        self.repetition = repetition
    }

    /// The errors whose meaning does not follow from their code. The server has changed nothing.
    private static let known: [(words: String, failure: EtcdFailure)] = [
        ("invalid auth token", EtcdFailure(.refused, .afterLogIn)),
        ("revision of auth store is old", EtcdFailure(.refused, .afterLogIn)),
        ("requested lease not found", EtcdFailure(.leaseLost, .never)),
        ("request is too large", EtcdFailure(.tooLarge, .never)),
        ("too many operations in txn request", EtcdFailure(.tooLarge, .never)),
        ("too many requests", EtcdFailure(.unavailable(.server), .elsewhere)),
        ("etcdserver: no leader", EtcdFailure(.unavailable(.server), .elsewhere)),
        ("etcdserver: not capable", EtcdFailure(.unavailable(.server), .elsewhere)),
    ]
}

/// One attempt of a call that failed.
struct EtcdAttempt: Error {
    var error: KVStoreError
    var repetition: EtcdFailure.Repetition

    init(error: KVStoreError, repetition: EtcdFailure.Repetition) {
        self.error = error
        self.repetition = repetition
    }

    /// The server has answered with an error.
    init(
        _ call: EtcdCall, refusedWith status: HTTPResponseStatus, _ body: ByteBuffer, _ endpoint: String, _ id: String
    ) {
        var answer = EtcdServerError()
        do { answer = try JSONDecoder().decode(EtcdServerError.self, from: Data(body.readableBytesView)) } catch {}
        let words = answer.message ?? answer.error ?? "status \(status.code)"
        let failure = EtcdFailure(words, grpcCode: answer.code, isWrite: call.isWrite)
        self.init(
            error: KVStoreError(
                failure.code, call.operation, key: call.key, endpoint: endpoint, requestID: id, detail: words),
            repetition: failure.repetition)
    }

    /// There is no answer.
    init(_ call: EtcdCall, unanswered cause: any Error, mayBeSent: Bool, _ endpoint: String, _ id: String) {
        let code: KVStoreError.Code =
            if call.isWrite && mayBeSent {
                .unknownOutcome
            } else if cause is CancellationError || Task.isCancelled {
                .cancelled
            } else if (cause as? HTTPClientError) == .deadlineExceeded {
                .timeout
            } else if cause is NIOTooManyBytesError {
                .tooLarge
            } else if (cause as? HTTPClientError) == .alreadyShutdown {
                .unavailable(.closed)
            } else {
                .unavailable(.server)
            }
        var error = KVStoreError(code, call.operation, key: call.key, endpoint: endpoint, requestID: id)
        error.underlying = cause  // An error of the connection contains no value.
        self.init(
            error: error, repetition: code != .unavailable(.server) && code != .timeout ? .never : .elsewhere)
    }
}

/// A request of one call of a store.
struct EtcdCall: Sendable {
    /// The path at the gateway, such as `/v3/kv/range`.
    var path: String

    /// The operation and the key for errors, metrics and spans.
    var operation: KVStoreError.Operation
    var key: String?

    /// Whether it changes something: then it is not sent again once it was sent.
    var isWrite = false

    /// The time for all attempts; nil for the store's.
    var deadline: Duration?
}

/// Spans and metrics of calls, with the names of OpenTelemetry's conventions for database clients.
enum EtcdTelemetry {
    /// Runs a call in a span, and records its duration in `db.client.operation.duration`.
    static func measuring<Success: Sendable>(
        _ call: EtcdCall, _ body: () async throws(KVStoreError) -> Success
    ) async throws(KVStoreError) -> Success {
        let name = call.operation.rawValue
        let start = ContinuousClock.now
        let result = await withSpan("\(name) etcd", ofKind: .client) { span -> Result<Success, KVStoreError> in
            span.attributes["db.system.name"] = "etcd"
            span.attributes["db.operation.name"] = name
            do throws(KVStoreError) {
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
