/// A value as it is encoded, and what its store knows of it.
public struct KVEntry: Hashable, Sendable {
    /// The encoded value with its envelope, as `ForgeCoding` writes it.
    public var bytes: [UInt8]

    /// The number of the write that stored it: higher than that of every write to the store before. A store on disk goes
    /// on counting where it was closed.
    public var revision: UInt64

    /// An entry from its parts.
    public init(bytes: [UInt8], revision: UInt64) {
        self.bytes = bytes
        self.revision = revision
    }
}
