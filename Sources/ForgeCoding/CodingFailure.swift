/// An error in encoding or decoding a value.
///
/// It contains no part of the value, apart from coding keys, which a type can derive from its values; for secrets, remove
/// these too (``init(_:redacting:)``).
public struct CodingFailure: Error, Sendable, Hashable {
    /// The operation that failed.
    public enum Operation: String, Sendable, Hashable {
        /// Encoding a value.
        case encode
        /// Decoding a value.
        case decode
        /// Parsing an envelope.
        case envelope
    }

    /// The reason for the failure.
    public enum Reason: Sendable, Hashable {
        /// The bytes end too early.
        case truncated
        /// The envelope names an unknown format.
        case unknownFormat(UInt8)
        /// The envelope has a later version, or the bytes do not start with an envelope.
        case unknownEnvelope(version: UInt8)
        /// The payload exceeds the size limit.
        case tooLarge(limit: Int)
        /// Arrays, maps and tags nest deeper than the limit.
        case tooDeep(limit: Int)
        /// The bytes are not well-formed; the text describes the problem and its offset, not the content.
        case corrupted(String)
        /// The bytes are well-formed, but the `init(from:)` of this type refused the value: an enumeration has no such
        /// case, for example.
        case refused(by: String)
        /// The bytes hold a value of another type.
        case typeMismatch(expected: String)
        /// The bytes hold null instead of a value of this type.
        case valueNotFound(expected: String)
        /// The bytes hold no value under this key.
        case keyNotFound(String)
        /// The format cannot represent the value.
        case unencodable(String)
        /// The `encode(to:)` or `init(from:)` of a value threw an error of this type.
        case thrown(type: String)
    }

    /// The operation that failed.
    public var operation: Operation

    /// The keys and indices from the root to the failing value, separated by dots; empty for the root.
    public var codingPath: String

    /// The reason for the failure.
    public var reason: Reason

    /// Creates a failure.
    public init(_ operation: Operation, _ reason: Reason, codingPath: String = "") {
        self.operation = operation
        self.reason = reason
        self.codingPath = codingPath
    }

    /// Converts an error of an encoder or decoder, dropping any value that it carries.
    ///
    /// Descriptions from coders outside this module are dropped, since they may quote their input.
    public init(_ operation: Operation, describing error: any Error) {
        switch error {
        case let error as CodingFailure:
            self = error
        case DecodingError.typeMismatch(let type, let context):
            self.init(operation, .typeMismatch(expected: "\(type)"), context.codingPath)
        case DecodingError.valueNotFound(let type, let context):
            self.init(operation, .valueNotFound(expected: "\(type)"), context.codingPath)
        case DecodingError.keyNotFound(let key, let context):
            self.init(operation, .keyNotFound(Self.text(of: key)), context.codingPath)
        case DecodingError.dataCorrupted(let context):
            let reason: Reason =
                switch context.underlyingError {
                case let refused as RefusedValue: .refused(by: refused.type)
                case let failure as WireFailure: .corrupted(failure.reason)
                default: .corrupted("the data is not valid")
                }
            self.init(operation, reason, context.codingPath)
        case EncodingError.invalidValue(let value, let context):
            let detail = value is WithheldValue ? context.debugDescription : "the value is not valid"
            self.init(operation, .unencodable(detail), context.codingPath)
        default:
            self.init(operation, .thrown(type: "\(type(of: error))"))
        }
    }

    /// Converts an error of an encoder or decoder of a secret: as ``init(_:describing:)``, without its coding path, and
    /// without the coding key that a decoder missed.
    public init(_ operation: Operation, redacting error: any Error) {
        self.init(operation, describing: error)
        codingPath = ""
        if case .keyNotFound = reason { reason = .corrupted("a coding key is missing") }
    }

    private init(_ operation: Operation, _ reason: Reason, _ path: [any CodingKey]) {
        self.init(
            operation, reason,
            codingPath: path.map(Self.text(of:)).joined(separator: "."))
    }

    /// A key as the path shows it. The keys of a dictionary are values of the app, so none is shown: its type is
    /// internal to the standard library, and neither an enumeration nor public.
    private static func text(of key: any CodingKey) -> String {
        if "\(type(of: key))" == "_DictionaryCodingKey" { return "[key]" }
        return key.intValue.map(String.init) ?? key.stringValue
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
        case .refused(let type): "the data has a value that \(type) does not accept"
        case .typeMismatch(let expected): "not a value of type \(expected)"
        case .valueNotFound(let expected): "null in place of a value of type \(expected)"
        case .keyNotFound(let key): "no value under the key \"\(key)\""
        case .unencodable(let detail): "not encodable: \(detail)"
        case .thrown(let type): "the value's own code threw \(type)"
        }
    }
}
