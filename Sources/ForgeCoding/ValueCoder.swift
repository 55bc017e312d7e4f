/// Turns any Codable value into bytes that say how they are to be read, and back.
///
/// What is written is an envelope (see ``ValueEnvelope``) and the value in one of two formats. Reading needs no settings: the
/// envelope tells the format, so that a store may change its own at any time. Numbers, text, `Bool`, `Date`, `Data`, `URL` and
/// their optionals at the top level never pass through a Codable container.
///
/// In both formats `Double`, `Float`, `Date`, `Data`, `UUID` and `Decimal` come back equal, infinities included; in
/// ``ValueFormat/json`` the bits of a not-a-number do not. A relative URL comes back as the absolute one.
public struct ValueCoder: Sendable {
    /// The format to write.
    public var format: ValueFormat

    /// How deep arrays and maps may lie within one another, when writing as well as when reading; 64.
    public var maximumDepth: Int = 64

    /// How many bytes a payload may have, when writing as well as when reading; 256 MiB.
    public var maximumSize: Int = 256 << 20

    /// A coder that writes in a format and reads in each.
    public init(format: ValueFormat = .binary) {
        self.format = format
    }

    /// The value's bytes in an envelope.
    ///
    /// - Parameters:
    ///   - value: any Codable value, an optional or a single number among them.
    ///   - schemaVersion: the version of the value's type, to be found in the envelope when it is read.
    /// - Returns: envelope and payload.
    /// - Throws: `EncodingError` where the value cannot be encoded, ``CodingFailure`` where the limits are exceeded.
    public func encode<T: Encodable>(_ value: T, schemaVersion: UInt32 = 1) throws -> [UInt8] {
        switch format {
        case .binary:
            let encoded = try encoded(value, schemaVersion: schemaVersion)
            return Array(encoded.bytes)
        case .json:
            let payload = try JSONPayload(maximumDepth: maximumDepth, maximumSize: maximumSize).encode(value)
            return ValueEnvelope(format: .json, schemaVersion: schemaVersion, payload: payload).encoded
        }
    }

    /// The value's bytes in an envelope, in memory that is reused: nothing is allocated for a value that was not for the
    /// one before.
    ///
    /// - Throws: as ``encode(_:schemaVersion:)``.
    package func encoded<T: Encodable>(_ value: T, schemaVersion: UInt32 = 1) throws -> EncodedBytes {
        let encoded = EncodedBytes(SinkPool.take(maximumDepth: maximumDepth))
        guard format == .binary else {
            try encode(value, schemaVersion: schemaVersion).withUnsafeBytes { encoded.sink.append($0) }
            return encoded
        }
        encoded.sink.appendEnvelope(.binary, schemaVersion)
        let header = encoded.sink.count
        try BinaryEncoder.encode(value, into: encoded.sink)
        guard encoded.sink.count - header <= maximumSize else {
            throw CodingFailure(.encode, .tooLarge(limit: maximumSize))
        }
        return encoded
    }

    /// The value that bytes with an envelope hold.
    ///
    /// - Throws: ``CodingFailure`` for an envelope that cannot be read and for exceeded limits, `DecodingError` for a payload
    ///   that does not hold such a value.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        try bytes.withUnsafeBytes { try decode(type, from: $0) }
    }

    /// The value that bytes with an envelope hold; nothing refers to the memory afterwards.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: UnsafeRawBufferPointer) throws -> T {
        let header = try EnvelopeHeader(bytes)
        return try decode(type, header.format, UnsafeRawBufferPointer(rebasing: bytes[header.length...]))
    }

    /// The value in an envelope that has been read already, to learn the schema version for instance.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from envelope: ValueEnvelope) throws -> T {
        try envelope.payload.withUnsafeBytes { try decode(type, envelope.format, $0) }
    }

    private func decode<T: Decodable>(
        _ type: T.Type, _ format: ValueFormat, _ payload: UnsafeRawBufferPointer
    ) throws -> T {
        guard payload.count <= maximumSize else { throw CodingFailure(.decode, .tooLarge(limit: maximumSize)) }
        switch format {
        case .binary:
            var decoder = BinaryDecoder()
            decoder.maximumDepth = maximumDepth
            return try decoder.decode(type, from: payload)
        case .json:
            return try JSONPayload(maximumDepth: maximumDepth, maximumSize: maximumSize).decode(type, from: payload)
        }
    }
}

extension ByteSink {
    func appendEnvelope(_ format: ValueFormat, _ schemaVersion: UInt32) {
        append(ValueEnvelope.version << 4 | format.rawValue)
        var rest = schemaVersion
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }
}
