/// Decodes `Decodable` values from CBOR (RFC 8949), as ``BinaryEncoder`` or another tool wrote it.
///
/// Reads the bytes in place. Bytes from anywhere may be given: every length is checked before memory is taken for it, and
/// what is not right is an error. Items may have any form that RFC 8949 allows: indefinite lengths, longer heads than
/// needed, half-precision numbers, tags that the type does not know. A number converts to the type asked for if it fits.
public struct BinaryDecoder: Sendable {
    /// What values find in `decoder.userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// How deep arrays, maps and tagged values may lie within one another; 64.
    public var maximumDepth: Int = 64

    /// A decoder with the default limits.
    public init() {}

    /// The value that the bytes hold, all of them.
    ///
    /// - Throws: `DecodingError` with the coding path: `dataCorrupted` for bytes that are not well-formed, cut off, followed by
    ///   more, nested too deep, or that hold a key twice, text that is not UTF-8 or a number out of range; `typeMismatch`,
    ///   `valueNotFound` and `keyNotFound` as by `JSONDecoder`. No error tells anything of a value but its type and place.
    /// - Complexity: O(bytes) for a type that asks for its keys in the order in which they were written.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        try bytes.withUnsafeBytes { try decode(type, from: $0) }
    }

    /// The value that the bytes in memory hold, all of them; nothing refers to the memory afterwards.
    ///
    /// - Throws: as ``decode(_:from:)-(_,[UInt8])``.
    public func decode<T: Decodable>(_ type: T.Type, from bytes: UnsafeRawBufferPointer) throws -> T {
        let reader = ByteReader(bytes)
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
            value = try reader.known(type, &offset, levels: maximumDepth)
        } catch {
            guard case .unknownType = error else { throw error }
            value = try reader.knownOptional(type, &offset)
        }
        guard offset == reader.count else { throw .trailing(offset: offset) }
        return value
    }

    private func decodeSelf<T: Decodable>(_ type: T.Type, _ reader: ByteReader) throws -> T {
        let source = DecodingSource(
            reader: reader, maximumDepth: maximumDepth, userInfo: userInfo)
        defer { source.close() }
        let node = DecodingNode(source: source, parent: nil, step: .none, start: 0, depth: 0)
        let value = try T(from: node)
        do throws(WireFailure) {
            let end = try node.end()
            guard end == reader.count else { throw .trailing(offset: end) }
        } catch {
            throw node.failure(error, type)
        }
        return value
    }
}
