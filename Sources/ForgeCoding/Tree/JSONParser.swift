import Foundation

extension CodedValue {
    /// Parses a JSON text.
    ///
    /// Numbers without a fraction or exponent become integers of up to 128 bits. All others, and `-0`, become doubles.
    /// If the shortest text of the double is not equal to the number, but a `Decimal` is, the number becomes what
    /// ``BinaryEncoder`` writes for that `Decimal`. JSON has no dates or byte strings: they stay strings.
    ///
    /// A byte order mark at the start is ignored.
    ///
    /// - Throws: ``CodingFailure`` for text that is not JSON (RFC 8259), a duplicate key in an object, a number outside
    ///   the range of `Double` (larger than the largest, or not zero and smaller than the smallest), and more than
    ///   ``maximumDepth`` levels.
    public init(json text: String) throws {
        try self.init(json: text, levels: Self.maximumDepth)
    }

    /// Parses a JSON text of at most `levels` nested arrays and objects, such as a value inside an object of the
    /// caller.
    package init(json text: String, levels: Int) throws {
        var parser = JSONParser(text)
        self = try parser.parse(levels: levels)
    }

    /// Formats the value as JSON text.
    ///
    /// Values that JSON has no type for become strings: bytes as base64, dates as ISO 8601 in UTC, URLs and UUIDs as
    /// their text, infinities as `"Infinity"`. An unknown tag becomes an object `{"@tag": …, "@value": …}`.
    ///
    /// - Parameter prettyPrinted: Whether to write one line per element, indented by two spaces, instead of a single
    ///   line.
    /// - Returns: A JSON text (RFC 8259).
    /// - Throws: ``CodingFailure`` for a map with a key that is an array or a map, or with two keys with the same text:
    ///   JSON has no such objects.
    public func json(prettyPrinted: Bool = false) throws -> String {
        var writer = JSONWriter(isPretty: prettyPrinted)
        try writer.write(self)
        return writer.text
    }
}

/// A strict parser of JSON text (RFC 8259).
///
/// `JSONSerialization` is no substitute: it accepts duplicate keys and trailing commas, loses the order of members and
/// reads `-0` as the integer 0.
struct JSONParser {
    private let bytes: [UInt8]
    var offset = 0

    /// Whether parsing goes on after a value that no ``CodedValue`` represents: it is that of a single member.
    private var isInMember = false
    private var unrepresentable: CodingFailure?

    init(_ text: String) {
        bytes = Array(text.utf8)
        // A parser may ignore a byte order mark (RFC 8259, section 8.1).
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { offset = 3 }
    }

    mutating func parse(levels: Int) throws(CodingFailure) -> CodedValue {
        let value = try value(levels)
        try requireEnd()
        return value
    }

    mutating func requireEnd() throws(CodingFailure) {
        skipSpace()
        guard offset == bytes.count else { throw failure("more text after the value") }
    }

    func failure(_ reason: String) -> CodingFailure {
        CodingFailure(.decode, .corrupted("JSON: \(reason) at byte \(offset)"))
    }

    /// Refuses a value that JSON allows, but no ``CodedValue`` represents.
    private mutating func refuse(_ reason: String) throws(CodingFailure) {
        guard isInMember else { throw failure(reason) }
        unrepresentable = unrepresentable ?? failure(reason)
    }

    var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { offset += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        offset += 1
        return true
    }

    mutating func value(_ levels: Int) throws(CodingFailure) -> CodedValue {
        skipSpace()
        switch next {
        case UInt8(ascii: "{"): return try object(levels)
        case UInt8(ascii: "["): return try array(levels)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        case UInt8(ascii: "-"): return try number()
        case let byte? where isDigit(byte): return try number()
        default: throw expected("a value")
        }
    }

    private mutating func literal(_ word: String, _ value: CodedValue) throws(CodingFailure) -> CodedValue {
        let length = word.utf8.count
        guard bytes.count - offset >= length else { throw CodingFailure(.decode, .truncated) }
        guard word.utf8.elementsEqual(bytes[offset..<(offset + length)]) else { throw failure("an invalid literal") }
        offset += length
        return value
    }

    private mutating func array(_ levels: Int) throws(CodingFailure) -> CodedValue {
        guard levels > 0 else { throw CodingFailure(.decode, .tooDeep(limit: CodedValue.maximumDepth)) }
        offset += 1
        var elements: [CodedValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            elements.append(try value(levels - 1))
            skipSpace()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { throw expected("a comma or a closing bracket") }
        }
    }

    private mutating func object(_ levels: Int) throws(CodingFailure) -> CodedValue {
        guard levels > 0 else { throw CodingFailure(.decode, .tooDeep(limit: CodedValue.maximumDepth)) }
        var entries: [CodedValue.Entry] = []
        // Canonically equivalent keys are different keys.
        var keys: Set<[UInt8]> = []
        try forEachMember { (parser, key) throws(CodingFailure) in
            guard keys.insert(Array(key.utf8)).inserted || parser.unrepresentable != nil else {
                throw parser.failure("a duplicate key")
            }
            entries.append(.init(.string(key), try parser.value(levels - 1)))
        }
        return .map(entries)
    }

    /// Parses an object; `body` parses the value under each key.
    mutating func forEachMember(
        _ body: (inout JSONParser, _ key: String) throws(CodingFailure) -> Void
    ) throws(CodingFailure) {
        offset += 1
        skipSpace()
        if take(UInt8(ascii: "}")) { return }
        while true {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw expected("a key") }
            let key = try string()
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw expected("a colon") }
            try body(&self, key)
            skipSpace()
            if take(UInt8(ascii: "}")) { return }
            guard take(UInt8(ascii: ",")) else { throw expected("a comma or a closing brace") }
        }
    }

    func expected(_ what: String) -> CodingFailure {
        next == nil ? CodingFailure(.decode, .truncated) : failure("expected \(what)")
    }

    mutating func string() throws(CodingFailure) -> String {
        offset += 1
        var text: [UInt8] = []
        while let byte = next {
            offset += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try appendEscape(&text)
            case 0..<0x20: throw failure("a control character in a string")
            default: text.append(byte)
            }
        }
        throw CodingFailure(.decode, .truncated)
    }

    private mutating func appendEscape(_ text: inout [UInt8]) throws(CodingFailure) {
        guard let byte = next else { throw CodingFailure(.decode, .truncated) }
        offset += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"):
            var scalar = UInt32(try codeUnit())
            let end = offset
            if scalar & 0xFC00 == 0xD800, take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) {
                let low = UInt32(try codeUnit())
                if low & 0xFC00 == 0xDC00 { scalar = 0x10000 + (scalar & 0x3FF) << 10 + low & 0x3FF }
            }
            guard let character = Unicode.Scalar(scalar) else {
                // What follows is a character of its own.
                offset = end
                return try refuse("half a surrogate pair")
            }
            text += Character(character).utf8
        default: throw failure("an unknown escape")
        }
    }

    private mutating func codeUnit() throws(CodingFailure) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = next.flatMap({ Character(Unicode.Scalar($0)).hexDigitValue }) else {
                throw expected("a hexadecimal digit")
            }
            unit = unit << 4 | UInt16(digit)
            offset += 1
        }
        return unit
    }

    private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private mutating func digits() throws(CodingFailure) {
        let start = offset
        while let byte = next, isDigit(byte) { offset += 1 }
        guard offset > start else { throw expected("a digit") }
    }

    private mutating func number() throws(CodingFailure) -> CodedValue {
        let start = offset
        let isNegative = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { try digits() }
        let whole = offset
        if take(UInt8(ascii: ".")) { try digits() }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            _ = take(UInt8(ascii: "+")) || take(UInt8(ascii: "-"))
            try digits()
        }
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        // An integer cannot represent minus zero.
        if offset == whole, text != "-0" {
            if let integer = Int64(text) { return .integer(integer) }
            if let magnitude = UInt128(isNegative ? String(text.dropFirst()) : text) {
                return CodedValue(magnitude: magnitude, isNegative: isNegative)
            }
        }
        let exact = DecimalNumeral(text)
        guard let double = Double(text), double.isFinite, double != 0 || exact.isZero else {
            try refuse("a number outside the range of Double")
            return .null
        }
        // The text of a `Double` is the shortest one that identifies it, not its exact value.
        if exact == DecimalNumeral(double.description) { return .double(double) }
        return exact.decimalFraction ?? .double(double)
    }
}

/// The members of a JSON object in order; the limits of values apply to each member separately.
package struct JSONMembers {
    package let members: [(name: String, value: Result<CodedValue, CodingFailure>)]

    /// Parses the text of an object.
    ///
    /// A member that is nested more deeply than `levels`, or has a number out of range or half a surrogate pair, becomes
    /// a failure; the others are parsed.
    ///
    /// - Throws: ``CodingFailure`` for text that is not a JSON object, and for two members with the same name.
    package init(_ text: String, levels: Int) throws {
        var parser = JSONParser(text)
        members = try parser.parseMembers(levels)
    }
}

extension JSONParser {
    fileprivate mutating func parseMembers(
        _ levels: Int
    ) throws(CodingFailure) -> [(name: String, value: Result<CodedValue, CodingFailure>)] {
        var members: [(name: String, value: Result<CodedValue, CodingFailure>)] = []
        // Canonically equivalent names are different keys.
        var names: Set<[UInt8]> = []
        skipSpace()
        guard next == UInt8(ascii: "{") else { throw expected("an object") }
        try forEachMember { (parser, name) throws(CodingFailure) in
            guard names.insert(Array(name.utf8)).inserted else { throw parser.failure("a duplicate key") }
            members.append((name, try parser.member(levels)))
        }
        try requireEnd()
        return members
    }

    private mutating func member(_ levels: Int) throws(CodingFailure) -> Result<CodedValue, CodingFailure> {
        let start = offset
        (isInMember, unrepresentable) = (true, nil)
        defer { isInMember = false }
        do throws(CodingFailure) {
            let tree = try value(levels)
            if let unrepresentable { return .failure(unrepresentable) }
            return .success(tree)
        } catch {
            guard case .tooDeep = error.reason else { throw error }
            offset = start
            try skipBrackets()
            return .failure(error)
        }
    }

    /// Skips an array or object of any depth by counting brackets, without checking its syntax.
    private mutating func skipBrackets() throws(CodingFailure) {
        var depth = 0
        repeat {
            skipSpace()
            switch next {
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: "\""):
                _ = try string()
                continue
            case nil: throw CodingFailure(.decode, .truncated)
            default: break
            }
            offset += 1
        } while depth > 0
    }
}

/// The exact value of a JSON number, or of the description of a finite `Double`.
struct DecimalNumeral: Equatable {
    private let isNegative: Bool

    /// The significant digits in ASCII, without zeros at either end.
    private let digits: [UInt8]

    /// The power of ten of the last digit; clamped to a range that contains all exponents of `Double` and `Decimal`.
    private let exponent: Int

    init(_ text: String) {
        let parts = text.utf8.split { $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E") }
        isNegative = parts[0].first == UInt8(ascii: "-")
        let halves = parts[0].drop { $0 == UInt8(ascii: "-") }.split(separator: UInt8(ascii: "."))
        let all = halves.joined()
        let significant = all.drop { $0 == UInt8(ascii: "0") }
        let zeros = significant.reversed().prefix { $0 == UInt8(ascii: "0") }.count
        digits = Array(significant).dropLast(zeros)
        guard !digits.isEmpty else {
            exponent = 0
            return
        }
        // The sum with a number of digits still fits into an `Int` of 32 bits.
        let limit = 1 << 30
        let power = parts.dropFirst().first.map { part in
            Int(Substring(part)) ?? (part.first == UInt8(ascii: "-") ? -limit : limit)
        }
        let places = halves.dropFirst().first?.count ?? 0
        exponent = max(-limit, min(limit, power ?? 0)) - places + zeros
    }

    var isZero: Bool { digits.isEmpty }

    /// The number as ``BinaryEncoder`` writes a `Decimal`; nil for zero, and if no `Decimal` is equal to it.
    var decimalFraction: CodedValue? {
        guard var mantissa = UInt128(String(decoding: digits, as: UTF8.self)) else { return nil }
        var exponent = exponent
        while exponent > Int8.max {
            let (product, overflow) = mantissa.multipliedReportingOverflow(by: 10)
            guard !overflow else { return nil }
            mantissa = product
            exponent -= 1
        }
        guard exponent >= Int8.min else { return nil }
        let integer = CodedValue(magnitude: mantissa, isNegative: isNegative)
        return .tagged(Tag.decimalFraction, .array([.integer(Int64(exponent)), integer]))
    }
}

extension CodedValue {
    /// Creates an integer, or a bignum if it fits into neither `Int64` nor `UInt64`.
    ///
    /// - Precondition: `isNegative` is false if `magnitude` is 0.
    init(magnitude: UInt128, isNegative: Bool) {
        // A negative number -1 - n is stored as n.
        let argument = isNegative ? magnitude - 1 : magnitude
        if let short = Int64(exactly: argument) {
            self = .integer(isNegative ? ~short : short)
        } else if !isNegative, let unsigned = UInt64(exactly: argument) {
            self = .unsigned(unsigned)
        } else {
            self = .tagged(isNegative ? Tag.negativeBignum : Tag.bignum, .bytes(argument.bigEndianBytes))
        }
    }
}

extension UInt128 {
    /// The big-endian bytes of the number, without leading zeros if it has more than 56 bits.
    var bigEndianBytes: [UInt8] {
        UInt64(truncatingIfNeeded: self >> 64).bigEndianBytes
            + (0..<8).reversed().map { UInt8(truncatingIfNeeded: self >> UInt128(8 * $0)) }
    }
}
