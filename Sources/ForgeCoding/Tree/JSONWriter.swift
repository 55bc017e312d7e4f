import Foundation

/// Formats a tree as JSON text.
///
/// `JSONEncoder` is no substitute: it writes 1.0 as `1`, which reads back as an integer, and does not keep the order of
/// members.
struct JSONWriter {
    private(set) var text = ""
    private let isPretty: Bool
    private let isKey: Bool
    private var indentation: Int

    init(isPretty: Bool, indentation: Int = 0) {
        self.init(isPretty: isPretty, isKey: false, indentation: indentation)
    }

    private init(isPretty: Bool, isKey: Bool, indentation: Int) {
        self.isPretty = isPretty
        self.isKey = isKey
        self.indentation = indentation
    }

    /// - Throws: ``CodingFailure`` for a map that no JSON object represents; the text is incomplete then.
    mutating func write(_ value: CodedValue) throws(CodingFailure) {
        switch value {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .integer(let value): text += value.description
        case .unsigned(let value): text += value.description
        case .float(let value): writeNumber(value)
        case .double(let value): writeNumber(value)
        case .string(let value): writeString(value)
        case .bytes(let value): writeString(Data(value).base64EncodedString())
        case .date(let value): writeDate(value)
        case .array(let elements):
            try writeList("[", "]", elements) { writer, element throws(CodingFailure) in try writer.write(element) }
        case .map(let entries): try writeObject(entries)
        case .tagged(let tag, let content): try writeTagged(tag, content)
        case .simple(let value):
            if value == Simple.undefined & ~MajorType.mask {
                text += "null"
            } else {
                try write(.map([.init(.string("@simple"), .integer(Int64(value)))]))
            }
        }
    }

    private mutating func writeList<Element>(
        _ open: String, _ close: String, _ elements: [Element],
        _ body: (inout JSONWriter, Element) throws(CodingFailure) -> Void
    ) throws(CodingFailure) {
        guard !isKey else { throw CodingFailure(.encode, .unencodable("JSON: a key that is an array or a map")) }
        text += open
        indentation += 1
        for (index, element) in elements.enumerated() {
            if index > 0 { text += "," }
            newLine()
            try body(&self, element)
        }
        indentation -= 1
        if !elements.isEmpty { newLine() }
        text += close
    }

    private mutating func writeObject(_ entries: [CodedValue.Entry]) throws(CodingFailure) {
        var names: Set<[UInt8]> = []
        try writeList("{", "}", entries) { writer, entry throws(CodingFailure) in
            let name = try Self.name(entry.key)
            guard names.insert(Array(name.utf8)).inserted else {
                throw CodingFailure(.encode, .unencodable("JSON: two keys with the same text"))
            }
            writer.writeName(name)
            try writer.write(entry.value)
        }
    }

    /// The name of an object's member for a key.
    private static func name(_ key: CodedValue) throws(CodingFailure) -> String {
        if case .string(let name) = key { return name }
        var writer = JSONWriter(isPretty: false, isKey: true, indentation: 0)
        try writer.write(key)
        return writer.text
    }

    mutating func newLine() {
        guard isPretty else { return }
        text += "\n" + String(repeating: "  ", count: indentation)
    }

    mutating func writeName(_ name: String) {
        writeString(name)
        text += isPretty ? ": " : ":"
    }

    private mutating func writeNumber<Value: BinaryFloatingPoint & CustomStringConvertible>(_ value: Value) {
        if value.isFinite {
            text += value.description
        } else {
            let name = value < 0 ? "-Infinity" : "Infinity"
            writeString(value.isNaN ? "NaN" : name)
        }
    }

    private mutating func writeDate(_ date: Date) {
        guard let text = date.iso8601 else { return writeNumber(date.timeIntervalSinceReferenceDate) }
        writeString(text)
    }

    private mutating func writeTagged(_ tag: UInt64, _ content: CodedValue) throws(CodingFailure) {
        switch (tag, content) {
        case (Tag.uri, .string(let value)): writeString(value)
        case (Tag.uuid, .bytes(let bytes)) where bytes.count == 16:
            writeString(UUID(bytes).uuidString)
        default:
            if let number = Self.number(tag, content) {
                text += number
            } else {
                try write(.map([.init(.string("@tag"), .unsigned(tag)), .init(.string("@value"), content)]))
            }
        }
    }

    /// The digits of a bignum or decimal number; nil for other tags and for more than 128 bits.
    private static func number(_ tag: UInt64, _ content: CodedValue) -> String? {
        guard tag == Tag.bignum || tag == Tag.negativeBignum || tag == Tag.decimalFraction else { return nil }
        do {
            let payload = try CodedValue.tagged(tag, content).encoded()
            var offset = 0
            return try ByteReader(payload[...]).number(&offset, CodedValue.maximumDepth).json
        } catch {
            // The content does not match the tag; the caller writes tag and content.
            return nil
        }
    }

    private mutating func writeString(_ value: String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case "\u{0}"..."\u{1F}", "\u{7F}":
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

/// The text of a JSON object, appended member by member; a member that cannot be written is refused alone.
package struct JSONObjectText {
    private let isPretty: Bool
    private var members = ""

    package init(prettyPrinted: Bool) {
        isPretty = prettyPrinted
    }

    /// Appends a member; the caller ensures that names are distinct.
    ///
    /// - Throws: ``CodingFailure`` for a value without a JSON form; the object is unchanged then.
    package mutating func append(_ name: String, _ value: CodedValue) throws(CodingFailure) {
        var writer = JSONWriter(isPretty: isPretty, indentation: 1)
        writer.newLine()
        writer.writeName(name)
        try writer.write(value)
        if !members.isEmpty { members += "," }
        members += writer.text
    }

    /// The text of the object.
    package var text: String {
        guard !members.isEmpty else { return "{}" }
        return "{" + members + (isPretty ? "\n}" : "}")
    }
}

extension Date {
    /// Foundation formats and parses dates before 15 October 1582 by the Julian calendar, ISO 8601 counts every day by the
    /// Gregorian one, which repeats after 400 years: earlier dates are converted 1,600 years later.
    private static let shift = (years: 1600, seconds: 4 * 146_097 * 86_400.0)
    private static let firstOfFoundation = 1600
    /// The first moments of the years 1, 1600 and 10000, in seconds since 1970.
    private static let bounds = (first: -62_135_596_800.0, foundation: -11_676_096_000.0, end: 253_402_300_800.0)
    private static let style = ISO8601FormatStyle(includingFractionalSeconds: true)

    /// The date in UTC with milliseconds; nil before the year 1 and after 9999, which have no four digits.
    package var iso8601: String? {
        let seconds = timeIntervalSince1970
        guard seconds >= Self.bounds.first, seconds < Self.bounds.end else { return nil }
        guard seconds < Self.bounds.foundation else { return formatted(Self.style) }
        let text = (self + Self.shift.seconds).formatted(Self.style)
        guard let year = Int(text.prefix(4)) else { return nil }
        let digits = String(year - Self.shift.years)
        return String(repeating: "0", count: 4 - digits.utf8.count) + digits + text.dropFirst(4)
    }

    /// The date of a text in the form of ``iso8601``.
    ///
    /// - Throws: The error of Foundation's parser.
    package init(iso8601 text: String) throws {
        let digits = text.utf8.prefix(4)
        guard digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains), let year = Int(text.prefix(4)),
            (1..<Self.firstOfFoundation).contains(year)
        else {
            self = try Date(text, strategy: Self.style)
            return
        }
        self = try Date("\(year + Self.shift.years)" + text.dropFirst(4), strategy: Self.style) - Self.shift.seconds
    }
}
