/// Encodes `Encodable` values as CBOR (RFC 8949), so that ``BinaryDecoder`` and any CBOR tool can read them.
///
/// Every array, map and string carries its length, every integer takes its shortest form, and `Double`, `Float`, `Date`
/// and `Decimal` come back bit for bit. Types encode themselves as for `JSONEncoder`: nested containers may be filled in any
/// order, the last value of a key counts, and a type that writes nothing is an empty map.
public struct BinaryEncoder: Sendable {
    /// What values find in `encoder.userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// How deep arrays, maps and tagged values may lie within one another; 64, which is also what decoders accept.
    public var maximumDepth: Int = 64

    /// An encoder with the default limits.
    public init() {}

    /// The bytes of a value.
    ///
    /// - Throws: `EncodingError.invalidValue` with the coding path if the value nests too deep, writes nothing, or asks for
    ///   containers that contradict each other; and whatever the value itself throws. The error never holds the value.
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

    /// Encodes a value by the limits that the sink came with.
    @inline(__always)
    static func encode<T: Encodable>(_ value: T, into sink: ByteSink) throws {
        do throws(WireFailure) {
            if try sink.appendKnown(value, depth: 0) { return }
            if try sink.appendKnownOptional(value, depth: 0) { return }
        } catch {
            throw EncodingError.invalidValue(
                EncodingRefusal(), .init(codingPath: [], debugDescription: error.reason))
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
