/// Encodes `Encodable` values as CBOR (RFC 8949).
///
/// Lengths are definite and integers take their shortest form; `Double`, `Float`, `Date` and `Decimal` keep every bit.
/// The semantics are those of `JSONEncoder`: nested containers may be filled in any order, the last value of a key
/// wins, a nested container adds to what was encoded under its key before, and a type that writes nothing becomes an
/// empty map.
public struct BinaryEncoder: Sendable {
    /// The contents of `encoder.userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// The maximum nesting depth of arrays, maps and tags; 64, the default of ``BinaryDecoder``.
    public var maximumDepth: Int = 64

    /// Creates an encoder with the default limits.
    public init() {}

    /// Encodes a value.
    ///
    /// - Throws: `EncodingError.invalidValue` with the coding path for a value that nests too deep, writes nothing, or
    ///   requests conflicting containers; any error that the value throws. An error of the encoder never contains the
    ///   value.
    /// - Complexity: O(bytes written).
    public func encode<T: Encodable>(_ value: T) throws -> [UInt8] {
        let sink = makeSink()
        try Self.encode(value, into: sink)
        return sink.bytes
    }

    func makeSink() -> ByteSink {
        ByteSink(
            capacity: 256, maximumDepth: maximumDepth, userInfo: userInfo)
    }

    /// Encodes a value with the limits of the sink.
    @inline(__always)
    static func encode<T: Encodable>(_ value: T, into sink: ByteSink) throws {
        do throws(WireFailure) {
            if try sink.appendKnown(value, depth: 0) { return }
            if try sink.appendKnownOptional(value, depth: 0) { return }
        } catch {
            throw EncodingError.invalidValue(
                WithheldValue(), .init(codingPath: [], debugDescription: error.reason))
        }
        try encodeSelf(value, into: sink)
    }

    private static func encodeSelf<T: Encodable>(_ value: T, into sink: ByteSink) throws {
        let node = EncodingNode(sink: sink, parent: nil, step: .none, depth: 0)
        defer { node.end() }
        try value.encode(to: node)
        guard node.form != .nothing else { throw node.invalid("the value of type \(T.self) encodes nothing") }
        node.finish()
        if let failure = sink.failure { throw failure }
    }
}
