import Foundation

/// JSON as the verbs print it: sorted keys, dates in ISO 8601, control characters as escapes.
enum JSONText {
    /// An object on a line of its own, with the line feed.
    static func line(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return String(decoding: try encoder.encode(value), as: UTF8.self).escapingControlsOfJSON() + "\n"
    }
}
