public import Crypto

/// Options of an ``Inspector``: the stores that it shows, and whether it may edit them.
public struct InspectorOptions: Sendable {
    /// Whether values may be edited. Without it, every write is refused before any store is opened.
    public var isWritable = false

    /// The keys that unlocking tries on a vault. They never leave the process.
    public var vaultKeys: [SymmetricKey] = []

    /// The decoders that are asked, in order, for the text of a value.
    public var decoders: [InspectorDecoder] = []

    /// The caches of this process whose hit rates are shown from the beginning; ``Inspector/register(_:)`` adds others.
    public var caches: [InspectedCache] = []

    /// Creates options with default values.
    public init() {}
}
