#if S3
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
#endif
