import Foundation

extension CodedValue {
    /// Parses a JSON text.
    ///
    /// Numbers without a fraction or exponent become integers of up to 128 bits. All others, and `-0`, become doubles,
    /// or what ``BinaryEncoder`` writes for a `Decimal` if that is exact and the shortest text of the double has
    /// another value. JSON has no dates or byte strings: they stay strings.
    ///
    /// - Throws: ``CodingFailure`` for text that is not JSON (RFC 8259), a duplicate key in an object, a number outside
    ///   the range of `Double`, and more than ``maximumDepth`` levels.
    public init(json text: String) throws {
        var text = text
        self = try text.withUTF8 { text in
            var parser = JSONParser(UnsafeRawBufferPointer(text))
            return try parser.parse()
        }
    }

    /// Formats the value as JSON text.
    ///
    /// Values that JSON has no type for become strings: bytes as base64, dates as ISO 8601 in UTC, URLs and UUIDs as
    /// their text, infinities as `"Infinity"`. An unknown tag becomes an object `{"@tag": …, "@value": …}`.
    ///
    /// - Parameter prettyPrinted: one line per element, indented by two spaces, instead of a single line.
    /// - Returns: a JSON text (RFC 8259).
    /// - Throws: ``CodingFailure`` for a map with a key that is an array or a map, or with two keys with the same text:
    ///   JSON has no such objects.
    public func json(prettyPrinted: Bool = false) throws -> String {
        var writer = JSONWriter(isPretty: prettyPrinted)
        try writer.write(self)
        return writer.text
    }
}
