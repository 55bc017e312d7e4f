#if Etcd
import ForgeKVStore

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

    var code: AsyncKVStoreError.Code
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
            self.init(isWrite ? .unknownOutcome : .unavailable, .never)
            return
        }
        if let known = Self.known.first(where: { message.contains($0.words) }) {
            self = known.failure
            return
        }
        switch grpcCode ?? 2 {
        case 3, 5, 6, 7, 9, 11, 12, 16: self.init(.refused, .never)
        case 8: self.init(.tooLarge, .never)
        default: self.init(isWrite ? .unknownOutcome : .unavailable, isWrite ? .never : .elsewhere)
        }
    }

    private init(_ code: AsyncKVStoreError.Code, _ repetition: Repetition) {
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
        ("too many requests", EtcdFailure(.unavailable, .elsewhere)),
        ("etcdserver: no leader", EtcdFailure(.unavailable, .elsewhere)),
        ("etcdserver: not capable", EtcdFailure(.unavailable, .elsewhere)),
    ]
}
#endif
