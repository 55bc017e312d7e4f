/// An encoded value and its revision.
public struct KVEntry: Hashable, Sendable {
    /// The encoded value in its envelope, as written by `ForgeCoding`.
    public var bytes: [UInt8]

    /// The number of the write that stored it, which increases with every write to the store. A store on disk continues
    /// counting when reopened.
    public var revision: UInt64

    /// Creates an entry.
    public init(bytes: [UInt8], revision: UInt64) {
        self.bytes = bytes
        self.revision = revision
    }
}
