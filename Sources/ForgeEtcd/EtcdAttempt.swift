#if Etcd
import AsyncHTTPClient
import ForgeKVStore
import Foundation
import NIOCore
import NIOHTTP1

/// One attempt of a call that failed.
struct EtcdAttempt: Error {
    var error: AsyncKVStoreError
    var repetition: EtcdFailure.Repetition

    init(error: AsyncKVStoreError, repetition: EtcdFailure.Repetition) {
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
            error: AsyncKVStoreError(
                failure.code, call.operation, key: call.key, endpoint: endpoint, requestID: id, detail: words),
            repetition: failure.repetition)
    }

    /// There is no answer.
    init(_ call: EtcdCall, unanswered cause: any Error, mayBeSent: Bool, _ endpoint: String, _ id: String) {
        let code: AsyncKVStoreError.Code =
            if call.isWrite && mayBeSent {
                .unknownOutcome
            } else if cause is CancellationError || Task.isCancelled {
                .cancelled
            } else if (cause as? HTTPClientError) == .deadlineExceeded {
                .timeout
            } else if cause is NIOTooManyBytesError {
                .tooLarge
            } else {
                .unavailable
            }
        let isClosed = (cause as? HTTPClientError) == .alreadyShutdown
        self.init(
            error: AsyncKVStoreError(
                code, call.operation, key: call.key, endpoint: endpoint, requestID: id, underlying: cause),
            repetition: isClosed || (code != .unavailable && code != .timeout) ? .never : .elsewhere)
    }
}
#endif
