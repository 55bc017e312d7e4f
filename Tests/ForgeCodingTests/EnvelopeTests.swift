import Foundation
import Testing

@testable import ForgeCoding

@Suite("Envelope") struct EnvelopeTests {
    @Test(
        "the schema version has a variable length",
        arguments: [
            (UInt32(0), "1100"), (1, "1101"), (127, "117f"), (128, "118001"), (.max, "11ffffffff0f"),
        ])
    func versions(_ version: UInt32, _ header: String) throws {
        let envelope = ValueEnvelope(schemaVersion: version, payload: [0xF6])
        #expect(envelope.encoded.hex == header + "f6")
        #expect(try ValueEnvelope(decoding: envelope.encoded) == envelope)
        #expect(try ValueCoder().encode(nil as Int?, schemaVersion: version) == envelope.encoded)
        #expect(try ValueCoder().decode(Int?.self, from: envelope) == nil)
    }

    static let refused: [(String, CodingFailure.Reason)] = [
        ("", .truncated), ("11", .truncated), ("1180", .truncated), ("2101f6", .unknownEnvelope(version: 2)),
        ("0101", .unknownEnvelope(version: 0)), ("7b7d", .unknownEnvelope(version: 7)), ("1201f6", .unknownFormat(2)),
        ("1001f6", .unknownFormat(0)), ("118000f6", .corrupted("the schema version is not valid")),
        ("11ffffffff1ff6", .corrupted("the schema version is not valid")),
        ("11ffffffffff00f6", .corrupted("the schema version is not valid")),
    ]

    @Test("an unknown or damaged envelope is refused", arguments: refused.indices)
    func refusals(_ index: Int) throws {
        let (hex, reason) = Self.refused[index]
        let failure = CodingFailure(.envelope, reason)
        #expect(throws: failure) { try ValueEnvelope(decoding: hex.unhexed) }
        #expect(throws: failure) { try ValueCoder().decode(Int.self, from: hex.unhexed) }
    }

    @Test("the envelope precedes the payload")
    func layout() throws {
        #expect(try ValueCoder().encode(["a": 1], schemaVersion: 2).hex == "1102a1616101")
    }

    @Test("limits hold for encoding and decoding")
    func limits() throws {
        let coder = ValueCoder()
        let value = [[["text of some length"]]]
        let bytes = try coder.encode(value)
        var small = coder
        small.maximumSize = 10
        #expect(throws: CodingFailure(.encode, .tooLarge(limit: 10))) { try small.encode(value) }
        #expect(throws: CodingFailure(.decode, .tooLarge(limit: 10))) {
            try small.decode([[[String]]].self, from: bytes)
        }
        let size = try ValueEnvelope(decoding: bytes).payload.count
        small.maximumSize = size
        #expect(try small.encode(value) == bytes)
        #expect(try small.decode([[[String]]].self, from: bytes) == value)
        small.maximumSize = size - 1
        #expect(throws: CodingFailure(.encode, .tooLarge(limit: size - 1))) { try small.encode(value) }
        #expect(throws: CodingFailure(.decode, .tooLarge(limit: size - 1))) {
            try small.decode([[[String]]].self, from: bytes)
        }
        var shallow = coder
        shallow.maximumDepth = 2
        #expect(throws: (any Error).self) { try shallow.encode(value) }
        #expect(throws: (any Error).self) { try shallow.decode([[[String]]].self, from: bytes) }
        shallow.maximumDepth = 3
        #expect(try shallow.decode([[[String]]].self, from: shallow.encode(value)) == value)
    }

    @Test("a tree of tags is encoded up to the depth that can be decoded")
    func nestedTags() throws {
        var tree = CodedValue.integer(1)
        for _ in 0..<CodedValue.maximumDepth { tree = .tagged(99, tree) }
        _ = try tree.encoded()
        #expect(throws: CodingFailure(.encode, .tooDeep(limit: CodedValue.maximumDepth))) {
            try CodedValue.tagged(99, tree).encoded()
        }
    }

    @Test("no depth exceeds the bound")
    func boundedDepth() throws {
        var coder = ValueCoder()
        coder.maximumDepth = .max
        let arrays = { (count: Int) in Array(repeating: 0x81 as UInt8, count: count) + [0x80] }
        let envelope = { ValueEnvelope(schemaVersion: 1, payload: arrays($0)) }
        // Arrays in an array that the type does not read.
        struct Reader: Decodable {
            init(from decoder: any Decoder) throws { _ = try decoder.unkeyedContainer() }
        }
        _ = try coder.decode(Reader.self, from: envelope(900))
        #expect(throws: DecodingError.self) { try coder.decode(Reader.self, from: envelope(2000)) }
    }

    enum Color: String, Codable { case red }

    @Test("a decoding error of a value's own code loses its text, which may contain the value")
    func foreignText() throws {
        let error = try #require(throws: DecodingError.self) {
            try ValueCoder().decode([String: [Color]].self, from: ValueCoder().encode(["k": ["S3CR3T"]]))
        }
        guard case .dataCorrupted(let context) = error else { throw error }
        #expect(context.codingPath.map(\.stringValue) == ["k", "Index 0"])
        #expect(!"\(error)".contains("S3CR3T"))
    }

    struct Point: Codable {
        var x: Int
    }

    func failure(_ hex: String) -> CodingFailure? {
        let envelope = ValueEnvelope(schemaVersion: 1, payload: hex.unhexed)
        do {
            _ = try ValueCoder().decode([Point].self, from: envelope)
            return nil
        } catch {
            return CodingFailure(.decode, describing: error)
        }
    }

    @Test("a failure does not name the key of a dictionary, which is a value of the app")
    func dictionaryKeys() throws {
        let bytes = try ValueCoder().encode(["s3cr3t": ["x"]])
        let error = try #require(throws: DecodingError.self) {
            try ValueCoder().decode([String: [Int]].self, from: bytes)
        }
        #expect(
            CodingFailure(.decode, describing: error)
                == CodingFailure(.decode, .typeMismatch(expected: "Array<Int>"), codingPath: "[key]"))
    }

    @Test("failures name the reason and the coding path, but no value")
    func failures() {
        #expect(failure("81a161786161")?.description == "decode at 0.x: not a value of type Int")
        #expect(failure("81a16178f6")?.description == "decode at 0.x: null in place of a value of type Int")
        #expect(failure("81a0")?.description == "decode at 0: no value under the key \"x\"")
        #expect(failure("81")?.description == "decode: corrupted: the bytes end inside the item at byte 1")
        #expect(
            CodingFailure(.encode, describing: Odd.Refusal()).description
                == "encode: the value's own code threw Refusal")
        let refused = EncodingError.invalidValue("secret", .init(codingPath: [], debugDescription: "secret"))
        #expect(
            CodingFailure(.encode, describing: refused).description == "encode: not encodable: the value is not valid")
        let missing = DecodingError.keyNotFound(
            Odd.Key(stringValue: "key"), .init(codingPath: [Odd.Key(stringValue: "path")], debugDescription: "text"))
        #expect(
            CodingFailure(.decode, describing: missing).description == "decode at path: no value under the key \"key\"")
        #expect(
            CodingFailure(.decode, redacting: missing) == CodingFailure(.decode, .corrupted("a coding key is missing")))
        let own = CodingFailure(.envelope, .unknownFormat(9))
        #expect(CodingFailure(.decode, describing: own) == own)
        #expect(own.description == "envelope: unknown value format 9")
        for reason: CodingFailure.Reason in [
            .truncated, .unknownEnvelope(version: 3), .tooLarge(limit: 1), .tooDeep(limit: 1),
        ] {
            #expect(!reason.description.isEmpty)
        }
        for wire: WireFailure in [.unknownType, .null, .trailing(offset: 1), .unsupportedKey(offset: 2)] {
            #expect(!wire.reason.isEmpty)
        }
    }
}

@Suite("Trees and JSON text") struct CodedValueTests {
    static let accepted: [(String, CodedValue)] = [
        ("null", .null), (" true\n", .bool(true)), ("false", .bool(false)), ("0", .integer(0)), ("-7", .integer(-7)),
        ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)),
        ("9223372036854775808", .unsigned(1 << 63)),
        ("18446744073709551616", .tagged(2, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]))),
        ("-18446744073709551617", .tagged(3, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]))),
        ("-18446744073709551616", .tagged(3, .bytes(Array(repeating: 255, count: 8)))),
        ("1.5", .double(1.5)), ("1e2", .double(100)), ("-1E-2", .double(-0.01)), ("1e+2", .double(100)),
        ("1" + String(repeating: "0", count: 60), .double(1e60)), ("\"\"", .string("")),
        (#""a\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00ü""#, .string("a\"\\/\u{8}\u{c}\n\r\tä😀ü")),
        ("[]", .array([])), ("[1, [2] ]", .array([.integer(1), .array([.integer(2)])])), ("{ }", .map([])),
        ("\r\n\t[\t1 ,\r\n2\r]\t", .array([.integer(1), .integer(2)])),
        (
            #"{"b" : 1, "a":{}}"#,
            .map([.init(.string("b"), .integer(1)), .init(.string("a"), .map([]))])
        ),
    ]

    @Test("a tree round-trips through JSON text and through bytes", arguments: accepted.indices)
    func parses(_ index: Int) throws {
        let (text, tree) = Self.accepted[index]
        #expect(try CodedValue(json: text) == tree)
        #expect(try CodedValue(decoding: tree.encoded()) == tree)
        #expect(try CodedValue(json: tree.json()) == tree)
        #expect(try CodedValue(json: tree.json(prettyPrinted: true)) == tree)
    }

    @Test("a bignum that is not a byte string is refused")
    func invalidBignum() {
        #expect(throws: CodingFailure.self) { try CodedValue(decoding: [0xC3, 0xA0]) }
    }

    @Test("minus zero keeps its sign")
    func minusZero() throws {
        guard case .double(let value) = try CodedValue(json: "-0") else { throw CodingFailure(.decode, .truncated) }
        #expect(value.sign == .minus && value == 0)
    }

    @Test(
        "text that is not JSON is refused",
        arguments: [
            "", " ", "nul", "nulL", "tru", "01", "-", "+1", "1.", ".5", "1e", "1e999", "\"", "\"a", #""\"#, #""\x""#,
            #""\u12""#,
            #""\u12g4""#, #""\ud800""#, #""\ud800\u0041""#, #""\udc00""#, #""\ud800x""#, "\"\n\"", "[", "[1", "[1,",
            "[1,]", "[,1]",
            "[1 2]", "{", "{1:2}", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1,\"a\":2}", "1 2", "[1]]", "'a'", "NaN", "Infinity", "/**/1",
            String(repeating: "[", count: 100_000),
            String(repeating: "{\"a\":", count: 100_000), #""\u"#, "\u{feff}", "\u{feff}\u{feff}1", "1\u{feff}",
            "[\u{feff}1]", "1e-400", "-1e-99999999999999999999", "1e400",
        ])
    func refuses(_ text: String) {
        #expect(throws: CodingFailure.self) { try CodedValue(json: text) }
    }

    @Test("a byte order mark is ignored at the start of a text")
    func byteOrderMark() throws {
        #expect(try CodedValue(json: "\u{feff} [1]") == .array([.integer(1)]))
        #expect(try JSONMembers("\u{feff}{\"a\":1}", levels: 64).members.map(\.name) == ["a"])
    }

    @Test("an integer of up to 128 bits is formatted as its digits")
    func wideIntegers() throws {
        for text in [
            "340282366920938463463374607431768211455", "-340282366920938463463374607431768211455",
            "-170141183460469231731687303715884105729", "18446744073709551616", "-18446744073709551617",
        ] {
            #expect(try CodedValue(json: text).json() == text)
        }
        let lowest = CodedValue.tagged(3, .bytes(Array(repeating: 255, count: 16)))
        #expect(try lowest.json() == "-340282366920938463463374607431768211456")
    }

    @Test("a stored value is formatted without its type")
    func shows() throws {
        let tree = try CodedValue(decoding: ValueEnvelope(decoding: ValueCoder().encode(Settings())))
        #expect(tree["theme"] == .string("dark") && tree["missing"] == nil && tree["theme"]?["x"] == nil)
        #expect(try tree["data"]?.json() == #""AP8=""#)
        #expect(try tree["date"]?.json() == #""2001-01-01T00:00:00.100Z""#)
        #expect(try tree["url"]?.json() == #""file:///a%20b/c""#)
        #expect(try tree["id"]?.json() == #""01020304-0506-0708-090A-0B0C0D0E0F10""#)
        #expect(try tree["float"]?.json() == "0.1")
        #expect(
            try tree["nested"]?.json(prettyPrinted: true)
                == "[\n  {\n    \"k\": [\n      1.0,\n      null\n    ]\n  }\n]")
        #expect(try tree["positions"]?.json() == #"[{"x":1.5,"y":-0.25},{"x":"Infinity","y":0.0}]"#)
    }

    static let shown: [(CodedValue, String)] =
        [
            (.float(-.infinity), #""-Infinity""#), (.double(.nan), #""NaN""#),
            (.unsigned(.max), "18446744073709551615"),
            (.simple(23), "null"), (.simple(16), #"{"@simple":16}"#), (.string("\u{1}\u{7f}"), #""\u0001\u007f""#),
            (.tagged(99, .integer(1)), #"{"@tag":99,"@value":1}"#),
            (.tagged(2, .string("x")), #"{"@tag":2,"@value":"x"}"#),
            (.tagged(4, .array([.integer(-2), .integer(314)])), "3.14"),
            (.tagged(37, .bytes([1])), #"{"@tag":37,"@value":"AQ=="}"#),
            (.tagged(2, .bytes(Array(repeating: 255, count: 17))), #"{"@tag":2,"@value":"//////////////////////8="}"#),
            (.tagged(3, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0])), "-18446744073709551617"),
            (.map([.init(.integer(1), .bool(true))]), #"{"1":true}"#), (.map([]), "{}"), (.array([]), "[]"),
            (.date(Date(timeIntervalSinceReferenceDate: 1e20)), "1e+20"),
            (.date(.distantPast), "-63114076800.0"),
            (.date(Date(timeIntervalSince1970: -62_135_596_801)), "-63113904001.0"),
            (.date(Date(timeIntervalSince1970: 253_402_300_800)), "252423993600.0"),
        ] + dates.map { (.date(Date(timeIntervalSince1970: $0)), "\"\($1)\"") }

    /// By the calendar of Python's `datetime`, which is that of ISO 8601 for every year.
    static let dates: [(Double, String)] = [
        (-62_135_596_800, "0001-01-01T00:00:00.000Z"), (-62_035_891_200, "0004-02-29T00:00:00.000Z"),
        (-14_831_769_600, "1500-01-01T00:00:00.000Z"), (-12_219_724_800, "1582-10-10T00:00:00.000Z"),
        (-11_676_096_000.5, "1599-12-31T23:59:59.500Z"), (-11_676_096_000, "1600-01-01T00:00:00.000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250Z"), (253_402_300_799.5, "9999-12-31T23:59:59.500Z"),
    ]

    @Test("dates are those of ISO 8601, also before the Gregorian calendar", arguments: dates)
    func calendarOfISO(_ seconds: Double, _ text: String) throws {
        #expect(try Date(iso8601: text) == Date(timeIntervalSince1970: seconds))
        for other in ["1500 or so", "+150-01-01T00:00:00.000Z", "1500", ""] {
            #expect(throws: (any Error).self) { try Date(iso8601: other) }
        }
    }

    @Test("values that JSON cannot represent have a text form", arguments: shown.indices)
    func showsOddities(_ index: Int) throws {
        let (tree, text) = Self.shown[index]
        #expect(try tree.json() == text)
    }

    @Test("a map with a container as a key has no JSON text", .timeLimit(.minutes(10)))
    func containerKeys() throws {
        func nested(_ levels: Int) -> CodedValue {
            (0..<levels).reduce(.integer(1)) { key, _ in .map([.init(key, .integer(2))]) }
        }
        #expect(try nested(1).json() == #"{"1":2}"#)
        try #require(throws: CodingFailure.self) { try nested(2).json() }
        #expect(throws: CodingFailure.self) { try nested(60).json() }
        for key: CodedValue in [.array([]), .tagged(99, .integer(1)), .simple(16)] {
            #expect(throws: CodingFailure.self) { try CodedValue.map([.init(key, .null)]).json() }
        }
    }

    @Test("a map with two keys of one JSON text has none")
    func equalMembers() {
        let tree = CodedValue.map([.init(.integer(1), .null), .init(.string("1"), .null)])
        #expect(throws: CodingFailure.self) { try tree.json() }
    }

    @Test("a tree that is too deep to decode is not encoded")
    func limits() throws {
        var deep = CodedValue.integer(1)
        for _ in 0..<64 { deep = .array([deep]) }
        _ = try CodedValue(decoding: deep.encoded())
        #expect(throws: CodingFailure.self) { try CodedValue.array([deep]).encoded() }
        #expect(throws: CodingFailure.self) { try CodedValue.map([.init(.null, deep)]).encoded() }
        #expect(throws: CodingFailure.self) { try CodedValue.tagged(9, deep).encoded() }
        for nest: (CodedValue) -> CodedValue in [{ .map([.init($0, .null)]) }, { .map([.init(.null, $0)]) }] {
            var deep = CodedValue.integer(1)
            for _ in 0..<64 { deep = nest(deep) }
            #expect(try CodedValue(decoding: deep.encoded()) == deep)
            #expect(throws: CodingFailure(.encode, .tooDeep(limit: 64))) { try nest(deep).encoded() }
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = { (levels: Int) in
                String(repeating: open, count: levels) + "1" + String(repeating: close, count: levels)
            }
            #expect(try CodedValue(json: text(64)).json() == text(64))
            #expect(throws: CodingFailure(.decode, .tooDeep(limit: 64))) { try CodedValue(json: text(65)) }
        }
    }

    @Test("a simple value has the shortest form, and a reserved one is undefined")
    func simpleValues() throws {
        let expected: [UInt8: String] = [19: "f3", 23: "f7", 24: "f7", 30: "f7", 31: "f7", 32: "f820", 255: "f8ff"]
        for (value, hex) in expected { #expect(try CodedValue.simple(value).encoded().hex == hex) }
    }

    @Test("a tree describes itself on one line, with the number of bytes in place of bytes")
    func descriptions() {
        let map = CodedValue.map([.init(.string("k"), .integer(-1)), .init(.integer(2), .null)])
        let tree: CodedValue = .array([
            .bool(true), .unsigned(.max), .float(0.5), .double(1), .string("a\"b"), .bytes([1, 2]),
            .date(Date(timeIntervalSince1970: 1.5)), map, .tagged(99, .integer(3)), .simple(16),
        ])
        #expect(
            tree.description == """
                [true, 18446744073709551615, 0.5, 1.0, "a\\"b", 2 bytes, date(1.5), {"k": -1, 2: null}, 99(3), simple(16)]
                """)
    }
}
