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
        let header = try bytes.withUnsafeBytes { try EnvelopeHeader($0) }
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

    init(_ bytes: UnsafeRawBufferPointer) throws(CodingFailure) {
        guard let first = bytes.first else { throw CodingFailure(.envelope, .truncated) }
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
