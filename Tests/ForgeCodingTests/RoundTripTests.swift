import ForgeStorageTesting
import Foundation
import Testing

@testable import ForgeCoding

/// A round-trip check of a value, type-erased so that a table can hold values of many types.
struct RoundTrip: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let check: @Sendable () throws -> Void

    init<Value: Codable & Equatable & Sendable>(_ name: String, _ value: Value) {
        testDescription = name
        check = {
            let coder = ValueCoder()
            let bytes = try coder.encode(value)
            #expect(try coder.decode(Value.self, from: bytes) == value)
            // Nested values bypass the fast path of top-level ones.
            #expect(try coder.decode([Value].self, from: coder.encode([value, value])) == [value, value])
            let dictionary = ["key": value]
            #expect(try coder.decode([String: Value].self, from: coder.encode(dictionary)) == dictionary)
            let optional: Value? = value
            #expect(try coder.decode(Value?.self, from: coder.encode(optional)) == optional)
            let box = Box(first: value, second: nil, third: value)
            #expect(try coder.decode(Box<Value>.self, from: coder.encode(box)) == box)
            let envelope = try ValueEnvelope(decoding: coder.encode(box))
            let tree = try CodedValue(decoding: envelope)
            #expect(try tree.encoded() == Array(envelope.payload))
            _ = try CodedValue(json: tree.json(prettyPrinted: true))
        }
    }
}

struct Box<Value: Codable & Equatable & Sendable>: Codable, Equatable, Sendable {
    var first: Value
    var second: Value?
    var third: Value?
}

enum Shape: Codable, Equatable, Sendable {
    case point
    case circle(radius: Double)
    case polygon([Int], name: String?)
    indirect case group(Shape, Shape)
}

struct Settings: Codable, Equatable, Sendable {
    enum Theme: String, Codable { case light, dark }
    struct Position: Codable, Equatable { var x = 1.5, y = -0.25 }

    var theme = Theme.dark
    var count = 7
    var positions = [Position(), Position(x: .infinity, y: 0)]
    var names: [String: [Int]] = ["a": [1, 2], "b": []]
    var byNumber: [Int: Position] = [1: Position(), -2: Position()]
    var byPosition: [Theme: Bool] = [.light: true]
    var tags: Set<String> = ["x", "ü"]
    var data = Data([0, 255])
    var date = Date(timeIntervalSinceReferenceDate: 0.1)
    var url = URL(filePath: "/a b/c")
    var id = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
    var missing: Int?
    var float: Float = 0.1
    var nested: [[String: [Double?]]] = [["k": [1, nil]]]
}

@Suite("Round trips") struct RoundTripTests {
    static let values: [RoundTrip] = [
        RoundTrip("true", true), RoundTrip("false", false),
        RoundTrip("Int limits", [Int.min, -1, 0, 1, .max]), RoundTrip("Int", Int.min),
        RoundTrip("Int8", [Int8.min, 0, .max]), RoundTrip("one Int8", Int8.min),
        RoundTrip("Int16", [Int16.min, 0, .max]), RoundTrip("one Int16", Int16.min),
        RoundTrip("Int32", [Int32.min, 0, .max]), RoundTrip("one Int32", Int32.max),
        RoundTrip("Int64", [Int64.min, 0, .max]), RoundTrip("one Int64", Int64.min),
        RoundTrip("UInt8", [UInt8.min, 23, 24, .max]), RoundTrip("one UInt8", UInt8.max),
        RoundTrip("UInt16", [UInt16.min, 255, 256, .max]), RoundTrip("one UInt16", UInt16.max),
        RoundTrip("UInt32", [UInt32.min, 65535, 65536, .max]), RoundTrip("one UInt32", UInt32.max),
        RoundTrip("UInt64", [UInt64.min, 1 << 32, .max]), RoundTrip("one UInt64", UInt64.max),
        RoundTrip("UInt", [UInt.min, .max]), RoundTrip("one UInt", UInt.max),
        RoundTrip("Int128", [Int128.min, Int128(Int64.min) - 1, -1, 0, Int128(UInt64.max) + 1, .max]),
        RoundTrip("UInt128", [UInt128.min, UInt128(UInt64.max), UInt128(UInt64.max) + 1, .max]),
        RoundTrip("Double", [0, -1.5, 0.1, .greatestFiniteMagnitude, .leastNonzeroMagnitude, .infinity, -.infinity]),
        RoundTrip("Float", [0, -1.5, 0.1, Float.greatestFiniteMagnitude, .leastNonzeroMagnitude, .infinity]),
        RoundTrip("one Double", 0.1), RoundTrip("one Float", Float(0.1)),
        RoundTrip("text", ["", "a", "ä€😀", "\u{0}", String(repeating: "x", count: 300), "e\u{301}"]),
        RoundTrip("one text", "ä€😀"),
        RoundTrip("data", [Data(), Data([0]), Data(repeating: 7, count: 70_000)]), RoundTrip("one data", Data([1, 2])),
        RoundTrip("bytes", [[UInt8](), [1, 2, 255]]), RoundTrip("contiguous bytes", ContiguousArray<UInt8>([1, 2])),
        RoundTrip("URL", [URL(string: "https://example.com/ä?q=%20#f"), nil]),
        RoundTrip("one URL", URL(filePath: "/tmp/x")),
        RoundTrip("UUID", UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))),
        RoundTrip(
            "date",
            [0, 1, -1, 0.1, 978_307_200, -978_307_200, 1e-300, 1e300, 785_000_000.123456].map {
                Date(timeIntervalSinceReferenceDate: $0)
            }),
        RoundTrip(
            "distant dates", [Date.distantPast, .distantFuture, Date(timeIntervalSinceReferenceDate: .infinity)]),
        RoundTrip("one date", Date(timeIntervalSinceReferenceDate: 0.1)),
        RoundTrip(
            "Decimal",
            ["0", "1", "-1.5", "3.14159265358979323846264338327950288", "1e127", "-1e-120"].compactMap {
                Decimal(string: $0)
            }),
        RoundTrip("greatest Decimal", [Decimal.greatestFiniteMagnitude, .leastFiniteMagnitude]),
        RoundTrip("optionals", [1, nil, 3] as [Int?]), RoundTrip("nested optional", Int??.some(.some(4))),
        RoundTrip("optional text", [nil, "x"] as [String?]),
        RoundTrip("empty", [String: [Int]]()), RoundTrip("array of empty arrays", [[Int](), []]),
        RoundTrip("array of 23", Array(0..<23)), RoundTrip("array of 24", Array(0..<24)),
        RoundTrip("array of 300 structs", Array(repeating: Settings.Position(), count: 300)),
        RoundTrip("array of 70,000", (0..<70_000).map { Int16(truncatingIfNeeded: $0) }),
        RoundTrip("keys", ["": 1, "ä": 2, "a.b": 3, "super": 4, "😀": 5]),
        RoundTrip("1,000 keys", Dictionary(uniqueKeysWithValues: (0..<1000).map { ("key\($0)", $0) })),
        RoundTrip("Int keys", [1: "a", -5: "b"]), RoundTrip("other keys", [[1]: "a", [2, 3]: "b"]),
        RoundTrip("enum point", Shape.point), RoundTrip("enum circle", Shape.circle(radius: 2)),
        RoundTrip("enum polygon", Shape.polygon([1, 2], name: nil)),
        RoundTrip("indirect enum", Shape.group(.group(.point, .circle(radius: 1)), .polygon([], name: "n"))),
        RoundTrip("struct", Settings()), RoundTrip("range", 1..<5), RoundTrip("duration", Duration.milliseconds(5)),
    ]

    @Test("a value decodes equal, alone and in containers", arguments: values)
    func roundTrip(_ value: RoundTrip) throws {
        try value.check()
    }
}

@Suite("Exact round trips") struct ExactnessTests {
    static let patterns: [UInt64] = {
        var generator = SplitMix64(seed: 1)
        let edges: [UInt64] = [
            0, 1 << 63, 0x7FF0_0000_0000_0000, 0xFFF0_0000_0000_0000, 0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0001,
            0x7FF0_0000_0000_0001, 0x7FFF_FFFF_FFFF_FFFF, 1, (-978_307_200.0).bitPattern, (-0.5).bitPattern,
            (9_007_199_254_740_993.0).bitPattern, (-9_007_199_254_740_992.0).bitPattern,
        ]
        return edges + (0..<2000).map { _ in generator.next() }
            + (0..<2000).map { _ in (Double(generator.next() >> 20) / 4096 / 1024).bitPattern }
    }()

    @Test("doubles, floats and dates keep every bit")
    func binary() throws {
        for bits in Self.patterns {
            let double = Double(bitPattern: bits)
            #expect(try BinaryDecoder().decode(Double.self, from: BinaryEncoder().encode(double)).bitPattern == bits)
            let float = Float(bitPattern: UInt32(truncatingIfNeeded: bits >> 32))
            let floats = try BinaryDecoder().decode([Float].self, from: BinaryEncoder().encode([float]))
            #expect(floats.first?.bitPattern == float.bitPattern)
            let date = Date(timeIntervalSinceReferenceDate: double)
            let bytes = try BinaryEncoder().encode(date)
            let copy = try BinaryDecoder().decode(Date.self, from: bytes)
            #expect(copy.timeIntervalSinceReferenceDate.bitPattern == bits, "date of \(double)")
            #expect(try CodedValue(decoding: bytes).encoded() == bytes, "tree of the date of \(double)")
        }
    }

    @Test("a JSON text keeps every bit of a finite double")
    func json() throws {
        for double in Self.patterns.map(Double.init(bitPattern:)) where double.isFinite {
            #expect(try CodedValue(json: CodedValue.double(double).json()) == .double(double), "\(double)")
        }
    }

    @Test("decimals of every sign, exponent and length round-trip")
    func decimals() throws {
        var generator = SplitMix64(seed: 2)
        for _ in 0..<500 {
            let digits = UInt128(generator.next()) << 64 | UInt128(generator.next())
            let text = "\(digits >> UInt128(generator.next() % 128))"
            let exponent = Int(generator.next() % 255) - 128
            guard let significand = Decimal(string: text) else { continue }
            for sign in [FloatingPointSign.plus, .minus] {
                let value = Decimal(sign: sign, exponent: exponent, significand: significand)
                guard value.isFinite else { continue }
                let bytes = try BinaryEncoder().encode(value)
                let copy = try BinaryDecoder().decode(Decimal.self, from: bytes)
                #expect(copy == value && copy.exponent == value.exponent, "\(value)")
                #expect(try CodedValue(decoding: bytes).encoded() == bytes)
            }
        }
        #expect(try BinaryDecoder().decode(Decimal.self, from: BinaryEncoder().encode(Decimal.nan)).isNaN)
    }

    @Test("a date has the standard tag unless that loses precision")
    func dateForms() throws {
        #expect(try BinaryEncoder().encode(Date(timeIntervalSince1970: 1_000_000_000)).hex == "c11a3b9aca00")
        #expect(try BinaryEncoder().encode(Date(timeIntervalSince1970: 1.5)).hex == "c1fb3ff8000000000000")
        #expect(
            try BinaryEncoder().encode(Date(timeIntervalSinceReferenceDate: 1e-9)).hex == "da3a4fc880fb3e112e0be826d695"
        )
        // Whole seconds are an integer as long as a double holds every integer.
        let last = Date(timeIntervalSince1970: 0x1p53)
        #expect(try BinaryEncoder().encode(last).hex == "c11b0020000000000000")
        #expect(try BinaryEncoder().encode(Date(timeIntervalSince1970: 0x1p53 + 2)).hex == "c1fb4340000000000001")
        #expect(try CodedValue(decoding: "c11b0020000000000000".unhexed) == .date(last))
        #expect(try CodedValue(decoding: "c11b0020000000000001".unhexed) == .tagged(1, .integer((1 << 53) + 1)))
    }

    @Test("a relative URL becomes the absolute one")
    func relativeURL() throws {
        let base = try #require(URL(string: "https://example.com/a/"))
        let relative = try #require(URL(string: "b?c", relativeTo: base))
        let coder = ValueCoder()
        #expect(try coder.decode(URL.self, from: coder.encode(relative)) == relative.absoluteURL)
    }
}
