#if Etcd
import ForgeKVStore

/// A request of one call of a store.
struct EtcdCall: Sendable {
    /// The path at the gateway, such as `/v3/kv/range`.
    var path: String

    /// The operation and the key for errors, metrics and spans.
    var operation: AsyncKVStoreError.Operation
    var key: String?

    /// Whether it changes something: then it is not sent again once it was sent.
    var isWrite = false

    /// The time for all attempts; nil for the store's.
    var deadline: Duration?
}
#endif
