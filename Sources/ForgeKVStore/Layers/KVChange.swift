/// A change of a key's value.
public struct KVChange<Value: Codable & Sendable>: Sendable {
    /// The value; nil if the key is absent or its value is not of the key's type.
    public var value: Value?

    /// The revision of the value, as returned by ``KVTransactionalStoring/entry(named:)`` and accepted by
    /// ``KVTransactionalStoring/compareAndSet(_:revision:value:)``; nil if the key is absent or the store keeps no
    /// revisions.
    public var revision: UInt64?

    /// The sequence number of the write, counted by the ``ReactiveKVStore`` over all keys. The first element of a
    /// subscription has the number of the last write before it, or 0.
    public var write: UInt64

    /// Creates a change.
    public init(value: Value?, revision: UInt64?, write: UInt64) {
        self.value = value
        self.revision = revision
        self.write = write
    }
}

extension KVChange: Equatable where Value: Equatable {}
