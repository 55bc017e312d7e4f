/// Encodes any Codable value to self-describing bytes, and decodes them.
///
/// The output is an envelope (see ``ValueEnvelope``): a short header, then a CBOR payload. Top-level numbers, strings,
/// `Bool`, `Date`, `Data`, `URL`, `UUID` and `Decimal`, arrays of `Int`, `Double`, `Float`, `UInt8` or `String`, and
/// optionals of `Int`, `Double`, `Float`, `String`, `Bool`, `Date`, `Data` or `URL` are encoded without a Codable
/// container.
///
/// `Double`, `Float`, `Date`, `Data`, `UUID` and `Decimal` round-trip exactly, including infinities and NaN payloads. A
/// relative URL is decoded as its absolute form.
public struct ValueCoder: Sendable {
    /// The maximum nesting depth of arrays, maps and tags, for encoding and decoding; 64. See
    /// ``BinaryDecoder/maximumDepth`` for larger ones.
    public var maximumDepth: Int = 64

    /// The maximum size of a payload in bytes, for encoding and decoding; 256 MiB.
    public var maximumSize: Int = 256 << 20

    /// Creates a coder with the default limits.
    public init() {}

    /// Encodes a value into an envelope.
    ///
    /// - Parameters:
    ///   - value: any Codable value, including optionals and single numbers.
    ///   - schemaVersion: the version of the value's type, stored in the envelope.
    /// - Returns: the envelope.
    /// - Throws: `EncodingError` if the value cannot be encoded, ``CodingFailure`` if a limit is exceeded.
    public func encode<T: Encodable>(_ value: T, schemaVersion: UInt32 = 1) throws -> [UInt8] {
        let encoded = try encoded(value, schemaVersion: schemaVersion)
        return Array(encoded.bytes)
    }

    /// Encodes a value into an envelope in a reused buffer, which avoids an allocation per value.
    ///
    /// - Throws: as ``encode(_:schemaVersion:)``.
    package func encoded<T: Encodable>(_ value: T, schemaVersion: UInt32 = 1) throws -> EncodedBytes {
        let encoded = EncodedBytes(SinkCache.take(maximumDepth: maximumDepth))
        encoded.sink.appendEnvelopeHeader(schemaVersion)
        let header = encoded.sink.count
        try BinaryEncoder.encode(value, into: encoded.sink)
        guard encoded.sink.count - header <= maximumSize else {
            throw CodingFailure(.encode, .tooLarge(limit: maximumSize))
        }
        return encoded
    }

    /// Decodes the value in an envelope.
    ///
    /// - Throws: ``CodingFailure`` for an invalid envelope or an exceeded limit, `DecodingError` for a payload that
    ///   does not decode as the type.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        try bytes.withUnsafeBytes { try decode(type, from: $0) }
    }

    /// Decodes the value in an envelope; the result does not refer to the memory.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: UnsafeRawBufferPointer) throws -> T {
        let header = try EnvelopeHeader(bytes)
        return try decodePayload(type, UnsafeRawBufferPointer(rebasing: bytes[header.length...]))
    }

    /// Decodes the payload of a parsed envelope, for callers that need the schema version first.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from envelope: ValueEnvelope) throws -> T {
        try envelope.payload.withUnsafeBytes { try decodePayload(type, $0) }
    }

    private func decodePayload<T: Decodable>(_ type: T.Type, _ payload: UnsafeRawBufferPointer) throws -> T {
        guard payload.count <= maximumSize else { throw CodingFailure(.decode, .tooLarge(limit: maximumSize)) }
        var decoder = BinaryDecoder()
        decoder.maximumDepth = maximumDepth
        return try decoder.decode(type, from: payload)
    }
}

extension ByteSink {
    func appendEnvelopeHeader(_ schemaVersion: UInt32) {
        append(ValueEnvelope.firstByte)
        var rest = schemaVersion
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }
}
