import ForgeKVStore
import Foundation

extension ConformanceChecks {
    static let keyValueTypes: [ConformanceCheck<any KVStoring>] = [
        roundTrip("Bool", [true, false]),
        roundTrip("Int", [0, 1, -1, .min, .max]),
        roundTrip("Int8", [Int8.min, -1, 0, .max]),
        roundTrip("Int16", [Int16.min, -1, 0, .max]),
        roundTrip("Int32", [Int32.min, -1, 0, .max]),
        roundTrip("Int64", [Int64.min, -1, 0, .max]),
        roundTrip("UInt", [UInt.min, 1, .max]),
        roundTrip("UInt8", [UInt8.min, 1, .max]),
        roundTrip("UInt16", [UInt16.min, 1, .max]),
        roundTrip("UInt32", [UInt32.min, 1, .max]),
        roundTrip("UInt64", [UInt64.min, 1, UInt64(Int64.max), UInt64(Int64.max) + 1, .max]),
        roundTrip(
            "Double",
            [0, -0.0, 0.1, -1.5, .pi, .infinity, -.infinity, .leastNonzeroMagnitude, .greatestFiniteMagnitude],
            areEqual: { (left: Double, right: Double) in left.bitPattern == right.bitPattern }),
        roundTrip(
            "Float", [0, -0.0, 0.1, -1.5, .infinity, .leastNonzeroMagnitude, .greatestFiniteMagnitude],
            areEqual: { (left: Float, right: Float) in left.bitPattern == right.bitPattern }),
        roundTrip("not-a-number", [Double.nan], areEqual: { $0.isNaN && $1.isNaN }),
        roundTrip("String", CheckTexts.all, areEqual: { Array($0.utf8) == Array($1.utf8) }),
        roundTrip(
            "Date",
            [
                Date(timeIntervalSince1970: 0), Date(timeIntervalSince1970: 1_700_000_000.123456),
                Date(timeIntervalSinceReferenceDate: -1e12), .distantPast, .distantFuture,
            ]),
        roundTrip(
            "Data",
            [
                Data(), Data([0]), Data(0...255), Data("bplist00".utf8), Data("ForgeKV\u{1}".utf8),
                Data("ForgeKV\u{1}\u{11}\u{1}\u{f6}".utf8),
            ]),
        roundTrip(
            "URL", [URL(string: "https://example.org/a%20b?c=d#e"), URL(string: "file:///tmp/x")].compactMap(\.self)),
        roundTrip("UUID", [UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255))]),
        roundTrip("Decimal", [Decimal(0), Decimal(string: "-12345678901234567890.0123456789")].compactMap(\.self)),
        roundTrip("[Int]", [[], [1], [.min, 0, .max]]),
        roundTrip("[UInt8]", [[], [0, 1, 255]]),
        roundTrip("[String?]", [[], [nil], ["a", nil, ""]]),
        roundTrip("[[Double]]", [[[]], [[1, 2], [], [-0.5]]]),
        roundTrip("Set", [Set<String>(), ["a", "b"]]),
        roundTrip("[String: Int]", [[:], ["a": 1, "": 2, "é": 3, "\u{1}": 4]]),
        roundTrip("[Int: String]", [[:], [1: "one", -1: ""]]),
        roundTrip("[String: [String: Bool]]", [["a": [:], "b": ["c": true]]]),
        roundTrip("String?", [nil, "", "a"]),
        roundTrip("[Int]?", [nil, [], [1]]),
        roundTrip("enum with raw values", CheckColour.allCases),
        roundTrip(
            "enum with associated values", [CheckShape.point, .circle(radius: 1.5), .polygon([1, 2], name: nil)]),
        roundTrip(
            "struct", [CheckProfile(), CheckProfile(name: "", tags: [], manager: ["x": .blue], born: .distantPast)]),
        roundTrip("struct without properties", [CheckNothing()]),
        ConformanceCheck("a value of 4 MiB round-trips") { store in
            let key = KVKey<Data>("large")
            let large = Data.patterned(count: 4 << 20)
            do {
                try store.set(key, value: large)
            } catch let error as KVStoreError where error.code == .storeTooLarge {
                // User defaults on Apple's platforms.
                return try expect(!store.contains(key), "a refused value exists")
            }
            try expect(store.get(key) == large, "the value is not the same")
        },
        ConformanceCheck("a value that cannot be encoded is refused and leaves the old one") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try await expectError(KVStoreError.self, "set") {
                try store.set(KVKey<CheckUnencodable>("a"), value: CheckUnencodable())
            }
            try expectEqual(store.get(KVKey<Int>("a")), 1, "get")
        },
    ]

    private static func roundTrip<Value: Codable & Sendable & Equatable>(
        _ name: String, _ values: [Value]
    ) -> ConformanceCheck<any KVStoring> {
        roundTrip(name, values, areEqual: ==)
    }

    private static func roundTrip<Value: Codable & Sendable>(
        _ name: String, _ values: [Value], areEqual: @escaping @Sendable (Value, Value) -> Bool
    ) -> ConformanceCheck<any KVStoring> {
        ConformanceCheck("every \(name) round-trips") { store in
            for (index, value) in values.enumerated() {
                let key = KVKey<Value>("\(name) \(index)")
                try store.set(key, value: value)
                // The second read may come from a cache.
                for time in ["first", "second"] {
                    guard let read = store.get(key) else {
                        throw ConformanceViolation("\(name): the \(time) get gave nil for \(value)")
                    }
                    guard areEqual(read, value) else {
                        throw ConformanceViolation("\(name): the \(time) get gave \(read) for \(value)")
                    }
                }
            }
        }
    }
}

enum CheckColour: String, Codable, Sendable, CaseIterable {
    case red, blue = "BLUE", none = ""
}

enum CheckShape: Codable, Sendable, Equatable {
    case point
    case circle(radius: Double)
    case polygon([Int], name: String?)
}

struct CheckProfile: Codable, Sendable, Equatable {
    var name = "Ada Lovelace"
    var age: Int?
    var tags = ["first", "é"]
    var manager: [String: CheckColour] = [:]
    var born = Date(timeIntervalSince1970: -4_861_728_000.25)
}

struct CheckNothing: Codable, Sendable, Equatable {}

struct CheckUnencodable: Codable, Sendable {
    init() {}
    init(from decoder: any Decoder) throws {}

    func encode(to encoder: any Encoder) throws {
        throw EncodingError.invalidValue(
            "secret", EncodingError.Context(codingPath: encoder.codingPath, debugDescription: "secret"))
    }
}

enum CheckTexts {
    /// Strings that some formats change: control characters, line ends, a byte order mark, XML and CBOR markup.
    static let all = [
        "", " ", " lead and trail ", "é", "e\u{301}", "😀👨‍👩‍👧‍👦", "\0", "a\0b", "\u{1}\u{1F}\u{7F}\u{85}", "a\r\nb\rc\nd\te",
        "<&>\"'", "]]>", "&amp;", "\u{FEFF}x", "\u{FFFE}\u{FFFF}", "\u{2028}", "\u{10FFFF}", "%41%", "~", "true", "12",
        "null",
        String(repeating: "x", count: 70_000),
    ]
}
