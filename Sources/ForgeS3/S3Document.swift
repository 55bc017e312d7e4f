#if S3
public import ForgeFileStore

/// An element of an XML document: its name, text and elements.
///
/// Reads what S3 sends: elements, text, references to characters, comments and processing instructions. Attributes are
/// ignored. A document type is refused, so that no entity is expanded.
struct S3Document: Hashable, Sendable {
    var name: String
    var text = ""
    var children: [S3Document] = []

    /// The first element with a name.
    subscript(name: String) -> S3Document? { children.first { $0.name == name } }

    /// All elements with a name.
    func all(_ name: String) -> [S3Document] { children.filter { $0.name == name } }

    /// The deepest nesting that is read.
    private static let maximumDepth = 32

    /// Reads a document; nil if it is not valid.
    init?(_ bytes: some Sequence<UInt8>) {
        guard let text = String(validating: Array(bytes), as: UTF8.self) else { return nil }
        var reader = Reader(rest: text.utf8[...])
        reader.skipMisc()
        guard let element = reader.element(depth: 0) else { return nil }
        reader.skipMisc()
        guard reader.rest.isEmpty else { return nil }
        self = element
    }

    private init(name: String) { self.name = name }

    private struct Reader {
        var rest: Substring.UTF8View

        mutating func skip(_ text: String) -> Bool {
            guard rest.starts(with: text.utf8) else { return false }
            rest = rest.dropFirst(text.utf8.count)
            return true
        }

        /// Skips up to and including a text; everything if there is none.
        mutating func skip(through text: String) {
            while !rest.isEmpty, !skip(text) { rest = rest.dropFirst() }
        }

        /// Skips white space, declarations and comments.
        mutating func skipMisc() {
            while true {
                rest = rest.drop { $0 <= 0x20 }
                if skip("<?") {
                    skip(through: "?>")
                } else if skip("<!--") {
                    skip(through: "-->")
                } else {
                    return
                }
            }
        }

        mutating func element(depth: Int) -> S3Document? {
            guard depth < maximumDepth, skip("<") else { return nil }
            let name = rest.prefix { $0 > 0x20 && $0 != UInt8(ascii: ">") && $0 != UInt8(ascii: "/") }
            rest = rest[name.endIndex...]
            guard let text = String(name), !text.isEmpty, text.utf8.first != UInt8(ascii: "!") else { return nil }
            var element = S3Document(name: text)
            // Attributes: their values are quoted and may contain `>`.
            while let byte = rest.popFirst() {
                if byte == UInt8(ascii: "/") { return skip(">") ? element : nil }
                if byte == UInt8(ascii: ">") { return content(of: &element, depth) ? element : nil }
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                    rest = rest.drop { $0 != byte }.dropFirst()
                }
            }
            return nil
        }

        private mutating func content(of element: inout S3Document, _ depth: Int) -> Bool {
            var text: [UInt8] = []
            while let byte = rest.first {
                if skip("</") {
                    guard skip(element.name) else { return false }
                    rest = rest.drop { $0 <= 0x20 }
                    element.text = String(decoding: text, as: UTF8.self)
                    return skip(">")
                }
                if skip("<!--") {
                    skip(through: "-->")
                } else if byte == UInt8(ascii: "<") {
                    guard let child = self.element(depth: depth + 1) else { return false }
                    element.children.append(child)
                } else if byte == UInt8(ascii: "&") {
                    guard let character = reference() else { return false }
                    text += Array(String(character).utf8)
                } else {
                    text.append(byte)
                    rest = rest.dropFirst()
                }
            }
            return false
        }

        private mutating func reference() -> Character? {
            let name = rest.dropFirst().prefix { $0 != UInt8(ascii: ";") }
            guard name.endIndex != rest.endIndex, name.count <= 8, let text = String(name) else { return nil }
            rest = rest[name.endIndex...].dropFirst()
            if let known = ["lt": "<", "gt": ">", "amp": "&", "quot": "\"", "apos": "'"][text] {
                return Character(known)
            }
            guard text.hasPrefix("#") else { return nil }
            let digits = text.dropFirst()
            let number = digits.hasPrefix("x") ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
            return number.flatMap { Unicode.Scalar($0) }.map { Character($0) }
        }
    }

    /// A text as the content of an element; nil if it has a character that XML 1.0 cannot represent.
    static func escaping(_ text: String) -> String? {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\r": escaped += "&#13;"
            case "\t", "\n": escaped.unicodeScalars.append(scalar)
            case "\u{0}"..."\u{1F}", "\u{FFFE}", "\u{FFFF}": return nil
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

/// The reason why a call of a store in S3 failed; the underlying error of a `FileStoreError`.
///
/// It contains no keys, no secrets, and not the server's message, which may quote the request.
public struct S3Error: Error, Hashable, Sendable {
    /// The reason of a failure.
    public enum Reason: Hashable, Sendable {
        /// The server has refused the request; see ``S3Error/code``.
        case refused

        /// The server cannot be reached, or fails.
        case unavailable

        /// The call has reached its deadline; nothing was changed.
        case timeout

        /// A request that changes something was sent, and its answer is unknown: it may have taken effect, or still do.
        case unknownOutcome

        /// The task was cancelled.
        case cancelled

        /// No source of credentials is configured; see ``S3Error/detail``.
        case noCredentials

        /// A source of credentials is configured and fails; see ``S3Error/detail``.
        case credentialsUnavailable

        /// The answer is not one of S3.
        case invalidAnswer

        /// The server ignores `If-None-Match` (of the calls in ``S3Error/detail``), so that no save can be exclusive.
        case noExclusiveCreation

        /// The server ignores `If-Match` (of the calls in ``S3Error/detail``), so that no save can require a revision.
        case noConditionalReplacement

        /// The content does not have the checksum that was stored with it.
        case damaged

        /// The configuration is not valid; see ``S3Error/detail``.
        case invalidConfiguration
    }

    /// The reason.
    public var reason: Reason

    /// The HTTP status of the last answer; nil if there was none.
    public var status: Int?

    /// S3's code of the error, such as `AccessDenied`.
    public var code: String?

    /// The server's identifier of the request, for its operator.
    public var requestID: String?

    /// More about the reason.
    public var detail: String?

    /// The bucket and the server of a failed request, such as `s3://photos at https://s3.eu-west-1.amazonaws.com`.
    public var place: String?

    /// Whether an earlier attempt of the same request may have taken effect.
    var mayBeApplied = false

    init(_ reason: Reason, status: Int? = nil, code: String? = nil, requestID: String? = nil, detail: String? = nil) {
        self.reason = reason
        self.status = status
        self.code = code
        self.requestID = requestID
        self.detail = detail
    }
}

extension S3Error {
    static let closed = S3Error(.unavailable, detail: "the store is closed")
}

extension S3Error: CustomStringConvertible, FileStoreCause {
    /// One line.
    public var description: String {
        let words: String? =
            switch reason {
            case .refused: nil
            case .unavailable: "the server is unavailable"
            case .timeout: "the time is over"
            case .unknownOutcome: "the outcome is unknown"
            case .cancelled: "cancelled"
            case .noCredentials: "no credentials"
            case .credentialsUnavailable: "the credentials cannot be read"
            case .invalidAnswer: "the answer is not valid"
            case .noExclusiveCreation: "the server does not create exclusively"
            case .noConditionalReplacement: "the server does not replace conditionally"
            case .damaged: "the content is damaged"
            case .invalidConfiguration: "the configuration is not valid"
            }
        let parts = [
            words, code, status.map { "status \($0)" }, detail, requestID.map { "request \($0)" }, place,
        ]
        return parts.compactMap(\.self).joined(separator: ", ")
    }
}
#endif
