/// How a value's bytes are written; the number stands in the envelope.
public enum ValueFormat: UInt8, Sendable, Hashable, CaseIterable {
    /// CBOR, as ``BinaryEncoder`` writes it.
    case binary = 1

    /// JSON text, as ``ValueCoder`` writes it: for people and for tools that know nothing else.
    case json = 2
}
