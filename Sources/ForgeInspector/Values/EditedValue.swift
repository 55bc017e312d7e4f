import ForgeCoding
import Foundation

/// Why an edited text cannot take the place of a value.
struct EditFailure: Error, CustomStringConvertible {
    let description: String
}

extension CodedValue {
    /// The value of an edited JSON text, in the types of the value that it replaces.
    ///
    /// JSON has no dates, bytes, UUIDs, URLs, whole or infinite floating-point numbers. Where the old value has one, the
    /// text in its place must have the form in which it was shown. A value of one type does not become one of another;
    /// only nil takes any place, and is replaced by anything.
    ///
    /// - Throws: `CodingFailure` for text that is not JSON; ``EditFailure`` for a text of another form.
    static func edited(_ json: String, replacing old: CodedValue) throws -> CodedValue {
        try CodedValue(json: json).typed(like: old, at: "the value")
    }

    private func typed(like old: CodedValue, at place: String) throws -> CodedValue {
        if try json() == old.json() { return old }
        switch (old, self) {
        case (.date, .string(let text)):
            do {
                return .date(try Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
            } catch {
                throw EditFailure(description: "\(place) is a date, such as 2026-01-31T12:00:00.000Z")
            }
        case (.bytes, .string(let text)):
            guard let data = Data(base64Encoded: text) else {
                throw EditFailure(description: "\(place) is a byte string, in base64")
            }
            return .bytes(Array(data))
        case (.tagged(37, _), .string(let text)):
            guard let uuid = UUID(uuidString: text) else { throw EditFailure(description: "\(place) is a UUID") }
            let id = uuid.uuid
            let bytes = [
                id.0, id.1, id.2, id.3, id.4, id.5, id.6, id.7, id.8, id.9, id.10, id.11, id.12, id.13, id.14, id.15,
            ]
            return .tagged(37, .bytes(bytes))
        case (.tagged(32, _), .string): return .tagged(32, self)
        case (.tagged(4, _), .integer), (.tagged(4, _), .double):
            throw EditFailure(description: "\(place) is a decimal number, which cannot be edited here")
        case (.double, .integer(let number)): return .double(Double(number))
        case (.double, .string(let text)): return .double(try Self.notFinite(text, at: place))
        case (.float, .integer(let number)): return .float(Float(number))
        case (.float, .double(let number)):
            let float = Float(number)
            guard float.isFinite else { throw EditFailure(description: "\(place) is a number of 32 bits") }
            return .float(float)
        case (.float, .string(let text)): return .float(Float(try Self.notFinite(text, at: place)))
        case (.array(let old), .array(let new)):
            return .array(
                try new.enumerated().map { index, element in
                    // An added element has the type of the last one.
                    guard let model = index < old.count ? old[index] : old.last else { return element }
                    return try element.typed(like: model, at: "element \(index)")
                })
        case (.map(let old), .map(let new)):
            return .map(
                try new.map { entry in
                    guard let model = old.first(where: { $0.key == entry.key })?.value else { return entry }
                    return Entry(entry.key, try entry.value.typed(like: model, at: "the member \(entry.key)"))
                })
        default:
            guard typeName == old.typeName || self == .null || old == .null else {
                throw EditFailure(description: "\(place) is of the type \(old.typeName)")
            }
            return self
        }
    }

    /// The value of a text as which JSON shows a number that it cannot represent.
    private static func notFinite(_ text: String, at place: String) throws(EditFailure) -> Double {
        switch text {
        case "Infinity": .infinity
        case "-Infinity": -.infinity
        case "NaN": .nan
        default: throw EditFailure(description: "\(place) is a number")
        }
    }
}
