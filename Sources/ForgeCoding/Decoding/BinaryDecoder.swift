/// Decodes `Decodable` values from CBOR (RFC 8949).
///
/// Decodes in place and accepts untrusted input: lengths are checked before memory is allocated, and malformed input
/// throws. Accepts every well-formed encoding: indefinite lengths, heads longer than needed, half-precision numbers and
/// unknown tags. A number converts to the requested type if its value fits.
public struct BinaryDecoder: Sendable {
    /// The contents of `decoder.userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// The maximum nesting depth of arrays, maps and tags; 64. A larger value than 1,000 counts as 1,000.
    ///
    /// Each level takes stack space, in the value's own code too: a depth of hundreds may need a thread with a larger
    /// stack than the usual 512 KiB.
    public var maximumDepth: Int = 64

    private var depth: Int { max(0, min(maximumDepth, 1_000)) }

    /// Creates a decoder with the default limits.
    public init() {}

    /// Decodes a value from all of the bytes.
    ///
    /// - Throws: `DecodingError` with the coding path: `dataCorrupted` for input that is malformed, truncated, nested
    ///   too deep or followed by more bytes, and for duplicate keys, invalid UTF-8 and numbers out of range;
    ///   `typeMismatch`, `valueNotFound` and `keyNotFound` as by `JSONDecoder`. Errors contain types and paths, never
    ///   values; the text of a `DecodingError` that a type throws itself is replaced by the name of the type.
    /// - Complexity: O(bytes) for a type that requests its keys in encoded order.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        try bytes.withUnsafeBytes { try decode(type, from: $0) }
    }

    /// Decodes a value from all of the bytes; the result does not refer to the memory.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: UnsafeRawBufferPointer) throws -> T {
        let reader = ByteReader(bytes, levels: depth)
        do throws(WireFailure) {
            return try decodeKnown(type, reader)
        } catch {
            if case .unknownType = error { return try decodeSelf(type, reader) }
            throw DecodingError.from(error, type, [])
        }
    }

    @inline(__always)
    private func decodeKnown<T>(_ type: T.Type, _ reader: ByteReader) throws(WireFailure) -> T {
        var offset = 0
        let value: T
        do throws(WireFailure) {
            value = try reader.known(type, &offset)
        } catch {
            guard case .unknownType = error else { throw error }
            value = try reader.knownOptional(type, &offset)
        }
        guard offset == reader.count else { throw .trailing(offset: offset) }
        return value
    }

    private func decodeSelf<T: Decodable>(_ type: T.Type, _ reader: ByteReader) throws -> T {
        let source = DecodingSource(reader: reader, userInfo: userInfo)
        defer { source.close() }
        let node = DecodingNode(source: source, parent: nil, step: .none, start: 0, levels: depth)
        let value = try decodeItself(type, node)
        do throws(WireFailure) {
            let end = try node.end()
            guard end == reader.count else { throw .trailing(offset: end) }
        } catch {
            throw node.failure(error, type)
        }
        return value
    }
}
