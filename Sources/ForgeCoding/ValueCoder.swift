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
        return encoded.sink.bytes
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
        let header = try EnvelopeHeader(bytes.span)
        return try decodePayload(type, bytes[header.length...])
    }

    /// Decodes the payload of a parsed envelope, for callers that need the schema version first.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from envelope: ValueEnvelope) throws -> T {
        try decodePayload(type, envelope.payload)
    }

    private func decodePayload<T: Decodable>(_ type: T.Type, _ payload: ArraySlice<UInt8>) throws -> T {
        guard payload.count <= maximumSize else { throw CodingFailure(.decode, .tooLarge(limit: maximumSize)) }
        var decoder = BinaryDecoder()
        decoder.maximumDepth = maximumDepth
        return try decoder.decode(type, payload: payload)
    }
}

/// The bytes of a value, prefixed by the format and the version of the value's type.
///
/// One byte holds the envelope version and the format, one to five bytes the schema version; the payload follows. The
/// overhead is two bytes for schema versions below 128. The envelope has no checksum and no length: the store keeps
/// both.
public struct ValueEnvelope: Sendable, Hashable {
    /// The version of the envelope, in the high four bits of its first byte.
    static let version: UInt8 = 1

    /// The format of the payload (CBOR), in the low four bits of the first byte.
    static let format: UInt8 = 1

    static let firstByte = version << 4 | format

    /// The version of the encoded type, as the app numbers it.
    public var schemaVersion: UInt32

    /// The encoded value.
    public var payload: ArraySlice<UInt8>

    /// Creates an envelope from a slice of an array.
    public init(schemaVersion: UInt32, payload: ArraySlice<UInt8>) {
        self.schemaVersion = schemaVersion
        self.payload = payload
    }

    /// Creates an envelope from an array.
    public init(schemaVersion: UInt32, payload: [UInt8]) {
        self.init(schemaVersion: schemaVersion, payload: payload[...])
    }

    /// Parses an envelope; the payload shares the storage of the bytes.
    ///
    /// - Throws: ``CodingFailure`` with the operation `envelope`: `unknownEnvelope` for a later version or bytes
    ///   without an envelope, `unknownFormat`, `truncated`, or `corrupted` for a schema version that is not in its
    ///   shortest form.
    public init(decoding bytes: [UInt8]) throws {
        let header = try EnvelopeHeader(bytes.span)
        self.init(schemaVersion: header.schemaVersion, payload: bytes[header.length...])
    }

    /// The bytes of the envelope: header and payload.
    public var encoded: [UInt8] {
        var header = UInt64(schemaVersion)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(6 + payload.count)
        bytes.append(Self.firstByte)
        while header >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: header) | 0x80)
            header >>= 7
        }
        bytes.append(UInt8(header))
        bytes += payload
        return bytes
    }
}

/// The header in front of a payload.
struct EnvelopeHeader {
    let schemaVersion: UInt32
    let length: Int

    init(_ bytes: Span<UInt8>) throws(CodingFailure) {
        guard !bytes.isEmpty else { throw CodingFailure(.envelope, .truncated) }
        let first = bytes[0]
        guard first >> 4 == ValueEnvelope.version else {
            throw CodingFailure(.envelope, .unknownEnvelope(version: first >> 4))
        }
        guard first & 0xF == ValueEnvelope.format else { throw CodingFailure(.envelope, .unknownFormat(first & 0xF)) }
        var version: UInt64 = 0
        var offset = 1
        while true {
            guard offset < bytes.count else { throw CodingFailure(.envelope, .truncated) }
            let byte = bytes[offset]
            version |= UInt64(byte & 0x7F) << UInt64(7 * (offset - 1))
            offset += 1
            if byte & 0x80 == 0 {
                // Each number has one encoding, so that equal envelopes have equal bytes.
                guard byte != 0 || offset == 2 else { throw Self.invalidVersion }
                break
            }
            guard offset <= 5 else { throw Self.invalidVersion }
        }
        guard let schemaVersion = UInt32(exactly: version) else { throw Self.invalidVersion }
        self.schemaVersion = schemaVersion
        length = offset
    }

    private static let invalidVersion = CodingFailure(.envelope, .corrupted("the schema version is not valid"))
}
