import Foundation

extension CodedValue {
    /// The tree of a JSON text, so that a value can be given on a command line.
    ///
    /// Whole numbers become integers, 128 bits at most; all others doubles. Dates and byte strings have no JSON form.
    ///
    /// - Throws: ``CodingFailure`` for text that is not JSON (RFC 8259), a key that occurs twice in its object, a number beyond
    ///   the range of `Double`, and more than ``maximumDepth`` levels.
    public init(json text: String) throws {
        var text = text
        self = try text.withUTF8 { try JSONText.parse(UnsafeRawBufferPointer($0)) }
    }

    /// The value as JSON text, for people and scripts to read.
    ///
    /// What JSON has no form for becomes a text: bytes base64, dates ISO 8601 in UTC, URLs and UUIDs themselves,
    /// infinities `"Infinity"`. An unknown tag becomes an object `{"@tag": …, "@value": …}`.
    ///
    /// - Parameter prettyPrinted: one line per element, indented by two spaces, instead of all on one line.
    /// - Returns: a JSON text (RFC 8259).
    public func json(prettyPrinted: Bool = false) -> String {
        var writer = JSONText.Writer(isPretty: prettyPrinted)
        writer.write(self)
        return writer.text
    }
}

/// JSON text and trees.
enum JSONText {
    static func parse(_ bytes: UnsafeRawBufferPointer) throws(CodingFailure) -> CodedValue {
        var parser = JSONParser(bytes)
        return try parser.parse()
    }
}
