import Foundation
import Testing

@testable import ForgeCoding

/// Every version must decode these bytes; a new format version adds a file and keeps the old one.
@Suite("Golden files") struct GoldenTests {
    /// One field per item type of the format.
    struct Golden: Codable, Equatable {
        enum Kind: Codable, Equatable { case plain, loaded(count: Int, String) }

        var truth = true
        var small = -1
        var large = UInt64.max
        var wide = Int128.min
        var float: Float = 0.1
        var double = 0.1
        var infinity = -Double.infinity
        var text = "zwölf Boxkämpfer 🥊"
        var data = Data([0, 1, 254, 255])
        var octets: [UInt8] = [9, 8, 7]
        var date = Date(timeIntervalSince1970: 1_700_000_000)
        var fine = Date(timeIntervalSinceReferenceDate: 0.1)
        var url = URL(string: "https://example.com/a?b=%20#c")
        var id = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
        var price = Decimal(string: "-12345678901234567890.123456789")
        var list = Array(0..<25)
        var holes: [Int?] = [1, nil, 3]
        var table = ["key": [1.5]]
        var numbers = [-7: "minus seven"]
        var kinds = [Kind.plain, .loaded(count: 2, "x")]
        var absent: String?
    }

    static func bytes(_ name: String) throws -> [UInt8] {
        let url = try #require(Bundle.module.url(forResource: name, withExtension: "bin", subdirectory: "Golden"))
        return [UInt8](try Data(contentsOf: url))
    }

    @Test("version 1 decodes")
    func decodes() throws {
        let bytes = try Self.bytes("value-1-binary")
        #expect(try ValueCoder().decode(Golden.self, from: bytes) == Golden())
        #expect(try ValueEnvelope(decoding: bytes).schemaVersion == 300)
    }

    @Test("values encode as version 1")
    func encodes() throws {
        #expect(try ValueCoder().encode(Golden(), schemaVersion: 300) == Self.bytes("value-1-binary"))
    }

    @Test("a tree encodes to the bytes it was decoded from")
    func tree() throws {
        let envelope = try ValueEnvelope(decoding: Self.bytes("value-1-binary"))
        #expect(try CodedValue(decoding: envelope).encoded() == Array(envelope.payload))
    }
}

/// The examples of RFC 8949, appendix A: bytes, tree, and whether the encoding is canonical.
@Suite("RFC 8949, appendix A") struct AppendixATests {
    struct Example: Sendable, CustomTestStringConvertible {
        let hex: String
        let value: CodedValue
        let isCanonical: Bool
        var testDescription: String { hex }

        init(_ hex: String, _ value: CodedValue, canonical: Bool = true) {
            (self.hex, self.value, isCanonical) = (hex, value, canonical)
        }
    }

    static func map(_ entries: (CodedValue, CodedValue)...) -> CodedValue {
        .map(entries.map { .init($0.0, $0.1) })
    }

    static let oneToThree: CodedValue = .array([
        .integer(1), .array([.integer(2), .integer(3)]), .array([.integer(4), .integer(5)]),
    ])
    static let long: CodedValue = .array((1...25).map { .integer($0) })
    static let longHex = "0102030405060708090a0b0c0d0e0f101112131415161718181819"
    static let letters = map(
        (.string("a"), .string("A")), (.string("b"), .string("B")), (.string("c"), .string("C")),
        (.string("d"), .string("D")), (.string("e"), .string("E")))
    static let oneAndArray = map((.string("a"), .integer(1)), (.string("b"), .array([.integer(2), .integer(3)])))

    static let integers: [Example] = [
        .init("00", .integer(0)), .init("01", .integer(1)), .init("0a", .integer(10)), .init("17", .integer(23)),
        .init("1818", .integer(24)), .init("1819", .integer(25)), .init("1864", .integer(100)),
        .init("1903e8", .integer(1000)), .init("1a000f4240", .integer(1_000_000)),
        .init("1b000000e8d4a51000", .integer(1_000_000_000_000)), .init("1bffffffffffffffff", .unsigned(.max)),
        .init("c249010000000000000000", .tagged(2, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]))),
        .init("3bffffffffffffffff", .tagged(3, .bytes(Array(repeating: 255, count: 8)))),
        .init("c349010000000000000000", .tagged(3, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]))),
        .init("20", .integer(-1)), .init("29", .integer(-10)), .init("3863", .integer(-100)),
        .init("3903e7", .integer(-1000)),
        .init("c24101", .integer(1), canonical: false), .init("c34101", .integer(-2), canonical: false),
        .init("c248ffffffffffffffff", .unsigned(.max), canonical: false), .init("1801", .integer(1), canonical: false),
    ]

    static let numbers: [Example] = [
        .init("f90000", .float(0), canonical: false), .init("f98000", .float(-0.0), canonical: false),
        .init("f93c00", .float(1), canonical: false), .init("fb3ff199999999999a", .double(1.1)),
        .init("f93e00", .float(1.5), canonical: false), .init("f97bff", .float(65504), canonical: false),
        .init("fa47c35000", .float(100_000)), .init("fa7f7fffff", .float(.greatestFiniteMagnitude)),
        .init("fb7e37e43c8800759c", .double(1.0e+300)), .init("f90001", .float(5.960464477539063e-8), canonical: false),
        .init("f90400", .float(0.00006103515625), canonical: false), .init("f9c400", .float(-4), canonical: false),
        .init("fbc010666666666666", .double(-4.1)), .init("f97c00", .float(.infinity), canonical: false),
        .init("f9fc00", .float(-.infinity), canonical: false), .init("fa7f800000", .float(.infinity)),
        .init("faff800000", .float(-.infinity)), .init("fb7ff0000000000000", .double(.infinity)),
        .init("fbfff0000000000000", .double(-.infinity)),
    ]

    static let others: [Example] = [
        .init("f4", .bool(false)), .init("f5", .bool(true)), .init("f6", .null), .init("f7", .simple(23)),
        .init("f0", .simple(16)), .init("f8ff", .simple(255)),
        .init("c074323031332d30332d32315432303a30343a30305a", .tagged(0, .string("2013-03-21T20:04:00Z"))),
        .init("c11a514b67b0", .date(Date(timeIntervalSince1970: 1_363_896_240))),
        .init("c1fb41d452d9ec200000", .date(Date(timeIntervalSince1970: 1_363_896_240.5))),
        .init("d74401020304", .tagged(23, .bytes([1, 2, 3, 4]))),
        .init("d818456449455446", .tagged(24, .bytes([0x64, 0x49, 0x45, 0x54, 0x46]))),
        .init("d82076687474703a2f2f7777772e6578616d706c652e636f6d", .tagged(32, .string("http://www.example.com"))),
        .init("40", .bytes([])), .init("4401020304", .bytes([1, 2, 3, 4])), .init("60", .string("")),
        .init("6161", .string("a")), .init("6449455446", .string("IETF")), .init("62225c", .string("\"\\")),
        .init("62c3bc", .string("ü")), .init("63e6b0b4", .string("水")), .init("64f0908591", .string("\u{10151}")),
    ]

    static let containers: [Example] = [
        .init("80", .array([])), .init("83010203", .array([.integer(1), .integer(2), .integer(3)])),
        .init("8301820203820405", oneToThree), .init("9819" + longHex, long), .init("a0", .map([])),
        .init("a201020304", map((.integer(1), .integer(2)), (.integer(3), .integer(4)))),
        .init("a26161016162820203", oneAndArray),
        .init("826161a161626163", .array([.string("a"), map((.string("b"), .string("c")))])),
        .init("a56161614161626142616361436164614461656145", letters),
        .init("5f42010243030405ff", .bytes([1, 2, 3, 4, 5]), canonical: false),
        .init("7f657374726561646d696e67ff", .string("streaming"), canonical: false),
        .init("9fff", .array([]), canonical: false), .init("9f018202039f0405ffff", oneToThree, canonical: false),
        .init("9f01820203820405ff", oneToThree, canonical: false),
        .init("83018202039f0405ff", oneToThree, canonical: false),
        .init("83019f0203ff820405", oneToThree, canonical: false), .init("9f" + longHex + "ff", long, canonical: false),
        .init("bf61610161629f0203ffff", oneAndArray, canonical: false),
        .init("826161bf61626163ff", .array([.string("a"), map((.string("b"), .string("c")))]), canonical: false),
        .init(
            "bf6346756ef563416d7421ff", map((.string("Fun"), .bool(true)), (.string("Amt"), .integer(-2))),
            canonical: false),
    ]

    @Test("examples decode, and canonical ones re-encode", arguments: integers + numbers + others + containers)
    func example(_ example: Example) throws {
        let tree = try CodedValue(decoding: example.hex.unhexed)
        #expect(tree == example.value)
        #expect(try (tree.encoded().hex == example.hex) == example.isCanonical)
        #expect(try CodedValue(decoding: tree.encoded()) == example.value)
    }

    @Test("NaN decodes in every width", arguments: ["f97e00", "fa7fc00000", "fb7ff8000000000000"])
    func notANumber(_ hex: String) throws {
        switch try CodedValue(decoding: hex.unhexed) {
        case .float(let value): #expect(value.isNaN)
        case .double(let value): #expect(value.isNaN)
        default: Issue.record("no number")
        }
        #expect(try BinaryDecoder().decode(Double.self, from: hex.unhexed).isNaN)
    }

    /// RFC 8949, appendix F: malformed input of every kind, and invalid input.
    @Test(
        "malformed input is refused",
        arguments: [
            "", "18", "19", "1a", "1b", "1901", "1a0102", "1b01020304050607", "38", "58", "78", "98", "9a01ff00", "b8",
            "d8", "f8",
            "f900", "fa0000", "fb000000", "41", "61", "5affffffff00", "5bffffffffffffffff010203", "7affffffff00",
            "7b7fffffffffffffff010203", "81", "818181818181818181", "8200", "a1", "a20102", "a100", "a2000000", "c0",
            "5f4100", "7f6100", "9f", "9f0102", "bf", "bf01020102", "819f", "9f8000", "9f9f9f9f9fffffffff",
            "9f819f819f9fffffff",
            "1c", "1d", "1e", "3c", "3d", "3e", "5c", "5d", "5e", "7c", "7d", "7e", "9c", "9d", "9e", "bc", "bd", "be",
            "dc", "dd",
            "de", "fc", "fd", "fe", "f800", "f801", "f818", "f81f", "5f00ff", "5f21ff", "5f6100ff", "5f80ff", "5fa0ff",
            "5fc000ff",
            "5fe0ff", "7f4100ff", "5f5f4100ffff", "7f7f6100ffff", "ff", "81ff", "8200ff", "a1ff", "a1ff00", "a100ff",
            "a20000ff",
            "9f81ff", "9f829f819f9fffffffff", "bf00ff", "bf000000ff", "1f", "3f", "df", "0000", "a201020102",
            "a2616100616100",
            "61ff", "c201", "bb8000000000000000", "9b8000000000000000",
        ])
    func malformed(_ hex: String) {
        #expect(throws: CodingFailure.self) { try CodedValue(decoding: hex.unhexed) }
        #expect(throws: DecodingError.self) { try BinaryDecoder().decode([String: [Int]].self, from: hex.unhexed) }
    }
}
