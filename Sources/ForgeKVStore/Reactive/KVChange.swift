/// What a key's value has become.
public struct KVChange<Value: Codable & Sendable>: Sendable {
    /// The value; nil where the key is absent, or its value not of the key's type.
    public var value: Value?

    /// The revision of the value, as ``KVStoring/entry(named:)`` tells it and
    /// ``KVStoring/compareAndSet(_:revision:value:)`` wants it; nil where the key is absent or the store keeps none.
    public var revision: UInt64?

    /// The number of the write that it comes from, counted by the ``ReactiveKVStore`` over all keys; for what was there at
    /// the subscription, the number of the last write before it, 0 if there was none.
    public var write: UInt64

    /// A change from its parts.
    public init(value: Value?, revision: UInt64?, write: UInt64) {
        self.value = value
        self.revision = revision
        self.write = write
    }
}

extension KVChange: Equatable where Value: Equatable {}
