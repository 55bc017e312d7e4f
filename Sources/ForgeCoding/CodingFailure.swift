/// Why bytes could not be made of a value, or a value of bytes; it never holds the value or a part of it.
public struct CodingFailure: Error, Sendable, Hashable {
    /// What was tried.
    public enum Operation: String, Sendable, Hashable {
        /// A value was turned into bytes.
        case encode
        /// Bytes were turned into a value.
        case decode
        /// The envelope around the bytes was read.
        case envelope
    }

    /// What stood in the way.
    public enum Reason: Sendable, Hashable {
        /// The bytes end too early.
        case truncated
        /// The envelope names a format that this version does not know.
        case unknownFormat(UInt8)
        /// The envelope is of a later version than this one, or there is no envelope at all.
        case unknownEnvelope(version: UInt8)
        /// There are more bytes than allowed.
        case tooLarge(limit: Int)
        /// Arrays and maps lie deeper within one another than allowed.
        case tooDeep(limit: Int)
        /// The bytes are not well-formed; the text tells how and where, not what they hold.
        case corrupted(String)
        /// The bytes hold a value of another type than this one.
        case typeMismatch(expected: String)
        /// The bytes hold null in place of a value of this type.
        case valueNotFound(expected: String)
        /// The bytes hold no value under this key.
        case keyNotFound(String)
        /// The value has no form in the format.
        case unencodable(String)
        /// The value's own code threw an error of this type.
        case thrown(type: String)
    }

    /// What was tried.
    public var operation: Operation

    /// The keys and indices that lead to the place, separated by points; empty for the whole value.
    public var codingPath: String

    /// What stood in the way.
    public var reason: Reason

    /// A failure from its parts.
    public init(_ operation: Operation, _ reason: Reason, codingPath: String = "") {
        self.operation = operation
        self.reason = reason
        self.codingPath = codingPath
    }

    /// What an encoder or decoder threw, without the value that such errors may hold.
    ///
    /// The descriptions in errors of other coders than this module's are left out: they may quote what was read.
    public init(_ operation: Operation, describing error: any Error) {
        switch error {
        case let error as CodingFailure:
            self = error
        case DecodingError.typeMismatch(let type, let context):
            self.init(operation, .typeMismatch(expected: "\(type)"), context.codingPath)
        case DecodingError.valueNotFound(let type, let context):
            self.init(operation, .valueNotFound(expected: "\(type)"), context.codingPath)
        case DecodingError.keyNotFound(let key, let context):
            self.init(operation, .keyNotFound(key.stringValue), context.codingPath)
        case DecodingError.dataCorrupted(let context):
            let detail = context.underlyingError as? WireFailure
            self.init(operation, .corrupted(detail?.reason ?? "the data is not valid"), context.codingPath)
        case EncodingError.invalidValue(let value, let context):
            let detail = value is EncodingRefusal ? context.debugDescription : "the value is not valid"
            self.init(operation, .unencodable(detail), context.codingPath)
        default:
            self.init(operation, .thrown(type: "\(type(of: error))"))
        }
    }

    private init(_ operation: Operation, _ reason: Reason, _ path: [any CodingKey]) {
        self.init(
            operation, reason,
            codingPath: path.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: "."))
    }
}

extension CodingFailure: CustomStringConvertible {
    public var description: String {
        let place = codingPath.isEmpty ? "" : " at \(codingPath)"
        return "\(operation.rawValue)\(place): \(reason)"
    }
}

extension CodingFailure.Reason: CustomStringConvertible {
    public var description: String {
        switch self {
        case .truncated: "the bytes end too early"
        case .unknownFormat(let code): "unknown value format \(code)"
        case .unknownEnvelope(let version): "unknown envelope version \(version)"
        case .tooLarge(let limit): "more than \(limit) bytes"
        case .tooDeep(let limit): "more than \(limit) levels of nesting"
        case .corrupted(let detail): "corrupted: \(detail)"
        case .typeMismatch(let expected): "not a value of type \(expected)"
        case .valueNotFound(let expected): "null in place of a value of type \(expected)"
        case .keyNotFound(let key): "no value under the key \"\(key)\""
        case .unencodable(let detail): "not encodable: \(detail)"
        case .thrown(let type): "the value's own code threw \(type)"
        }
    }
}
