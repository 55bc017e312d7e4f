/// Decodes `Decodable` values from CBOR (RFC 8949).
///
/// Decodes in place and accepts untrusted input: lengths are checked before memory is allocated, and malformed input
/// throws. Accepts every well-formed encoding: indefinite lengths, heads longer than needed, half-precision numbers and
/// unknown tags. A number converts to the requested type if its value fits; of tagged values, such as dates and
/// decimals, only those of the requested type are opened.
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
        try decode(type, payload: bytes[...])
    }

    func decode<T: Decodable>(_ type: T.Type, payload: ArraySlice<UInt8>) throws -> T {
        let reader = ByteReader(payload)
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
            value = try reader.known(type, &offset, depth)
        } catch {
            guard case .unknownType = error else { throw error }
            value = try reader.knownOptional(type, &offset, depth)
        }
        guard offset == reader.count else { throw .trailing(offset: offset) }
        return value
    }

    private func decodeSelf<T: Decodable>(_ type: T.Type, _ reader: ByteReader) throws -> T {
        let source = DecodingSource(reader: reader, userInfo: userInfo)
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

/// The bytes and settings of one decoding.
final class DecodingSource {
    let reader: ByteReader
    let userInfo: [CodingUserInfoKey: any Sendable]

    init(reader: ByteReader, userInfo: [CodingUserInfoKey: any Sendable]) {
        self.reader = reader
        self.userInfo = userInfo
    }
}

/// The underlying error of a `DecodingError` that the `init(from:)` of a type threw.
struct RefusedValue: Error {
    /// The name of the innermost type that threw.
    let type: String
}

/// Calls the `init(from:)` of a type; its errors name the type and never quote the value.
@inline(__always)
func decodeItself<Value: Decodable>(_ type: Value.Type, _ node: DecodingNode) throws -> Value {
    do {
        // A metatype that is passed at run time may be that of a subclass.
        return try type.init(from: node)
    } catch let error as DecodingError {
        throw error.withoutForeignText(thrownBy: type)
    }
}

extension DecodingError {
    /// The error without the text of code outside this module, which may quote the value, as that of the standard
    /// library for enumerations does. The errors of this module have a ``WireFailure``.
    fileprivate func withoutForeignText(thrownBy type: any Any.Type) -> DecodingError {
        func stated(_ context: Context, _ text: String) -> Context {
            if context.underlyingError is WireFailure || context.underlyingError is RefusedValue { return context }
            return Context(
                codingPath: context.codingPath, debugDescription: text, underlyingError: RefusedValue(type: "\(type)"))
        }
        switch self {
        case .typeMismatch(let expected, let context):
            return .typeMismatch(expected, stated(context, "\(expected): found a value of another type"))
        case .valueNotFound(let expected, let context):
            return .valueNotFound(expected, stated(context, "\(expected): found no value"))
        case .keyNotFound(let key, let context):
            return .keyNotFound(key, stated(context, "no value under the key"))
        case .dataCorrupted(let context):
            return .dataCorrupted(stated(context, "\(type) does not accept the value"))
        @unknown default:
            return .dataCorrupted(stated(Context(codingPath: [], debugDescription: ""), "\(type) threw an error"))
        }
    }
}
