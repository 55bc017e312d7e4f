/// A strict parser of JSON text (RFC 8259).
///
/// `JSONSerialization` is no substitute: it accepts duplicate keys and trailing commas, loses the order of members and
/// reads `-0` as the integer 0.
struct JSONParser {
    private let bytes: UnsafeRawBufferPointer
    var offset = 0

    /// Creates a parser of valid UTF-8.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    mutating func parse() throws(CodingFailure) -> CodedValue {
        let value = try value(CodedValue.maximumDepth)
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

    private mutating func literal(_ word: StaticString, _ value: CodedValue) throws(CodingFailure) -> CodedValue {
        let length = word.utf8CodeUnitCount
        guard bytes.count - offset >= length else { throw CodingFailure(.decode, .truncated) }
        let isEqual = word.withUTF8Buffer { $0.elementsEqual(bytes[offset..<(offset + length)]) }
        guard isEqual else { throw failure("an invalid literal") }
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
            guard keys.insert(Array(key.utf8)).inserted else { throw parser.failure("a duplicate key") }
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
            if scalar & 0xFC00 == 0xD800 {
                guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw failure("half a surrogate pair") }
                let low = UInt32(try codeUnit())
                guard low & 0xFC00 == 0xDC00 else { throw failure("half a surrogate pair") }
                scalar = 0x10000 + (scalar & 0x3FF) << 10 + low & 0x3FF
            }
            guard let character = Unicode.Scalar(scalar) else { throw failure("half a surrogate pair") }
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
        guard let double = Double(text), double.isFinite else { throw failure("a number that is too large") }
        // The text of a `Double` is the shortest one that identifies it, not its exact value.
        let exact = DecimalNumeral(text)
        if exact == DecimalNumeral(double.description) { return .double(double) }
        return exact.decimalFraction ?? .double(double)
    }
}
