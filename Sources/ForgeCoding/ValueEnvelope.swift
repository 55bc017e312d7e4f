/// The bytes of a value together with what is needed to read them: the format, and the version of the value's type.
///
/// One byte of envelope version and format, the schema version in one to five bytes, the payload: two bytes more than the
/// payload for schema versions below 128. There is no checksum and no length: whoever stores the bytes keeps both.
public struct ValueEnvelope: Sendable, Hashable {
    /// The only version of the envelope so far; the high half of its first byte.
    static let version: UInt8 = 1

    /// How the payload is written.
    public var format: ValueFormat

    /// The version of the type that was encoded, as its owner counts them.
    public var schemaVersion: UInt32

    /// The value's bytes.
    public var payload: ArraySlice<UInt8>

    /// An envelope around a part of some bytes.
    public init(format: ValueFormat, schemaVersion: UInt32, payload: ArraySlice<UInt8>) {
        self.format = format
        self.schemaVersion = schemaVersion
        self.payload = payload
    }

    /// An envelope around bytes.
    public init(format: ValueFormat, schemaVersion: UInt32, payload: [UInt8]) {
        self.init(format: format, schemaVersion: schemaVersion, payload: payload[...])
    }

    /// The envelope that bytes begin with; the payload is the rest of them and shares their storage.
    ///
    /// - Throws: ``CodingFailure`` with the operation `envelope`: `unknownEnvelope` for a later version or bytes without an
    ///   envelope, `unknownFormat`, `truncated`, or `corrupted` for a schema version that is not in its shortest form.
    public init(decoding bytes: [UInt8]) throws {
        let header = try bytes.withUnsafeBytes { try EnvelopeHeader($0) }
        self.init(format: header.format, schemaVersion: header.schemaVersion, payload: bytes[header.length...])
    }

    /// The bytes of the envelope and its payload.
    public var encoded: [UInt8] {
        var header = UInt64(schemaVersion)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(6 + payload.count)
        bytes.append(Self.version << 4 | format.rawValue)
        while header >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: header) | 0x80)
            header >>= 7
        }
        bytes.append(UInt8(header))
        bytes += payload
        return bytes
    }
}

/// What stands in front of a payload.
struct EnvelopeHeader {
    let format: ValueFormat
    let schemaVersion: UInt32
    let length: Int

    init(_ bytes: UnsafeRawBufferPointer) throws(CodingFailure) {
        guard let first = bytes.first else { throw CodingFailure(.envelope, .truncated) }
        guard first >> 4 == ValueEnvelope.version else {
            throw CodingFailure(.envelope, .unknownEnvelope(version: first >> 4))
        }
        guard let format = ValueFormat(rawValue: first & 0xF) else {
            throw CodingFailure(.envelope, .unknownFormat(first & 0xF))
        }
        var version: UInt64 = 0
        var offset = 1
        while true {
            guard offset < bytes.count else { throw CodingFailure(.envelope, .truncated) }
            let byte = bytes[offset]
            version |= UInt64(byte & 0x7F) << UInt64(7 * (offset - 1))
            offset += 1
            if byte & 0x80 == 0 {
                // One spelling per number, so that equal envelopes are equal bytes.
                guard byte != 0 || offset == 2 else { throw Self.invalidVersion }
                break
            }
            guard offset <= 5 else { throw Self.invalidVersion }
        }
        guard let schemaVersion = UInt32(exactly: version) else { throw Self.invalidVersion }
        self.format = format
        self.schemaVersion = schemaVersion
        length = offset
    }

    private static let invalidVersion = CodingFailure(.envelope, .corrupted("the schema version is not valid"))
}
