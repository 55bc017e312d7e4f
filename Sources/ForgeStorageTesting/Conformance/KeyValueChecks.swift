public import ForgeKVStore
import Foundation

extension ConformanceChecks {
    /// The promises of a key-value store; each check needs a new, empty store.
    public static let keyValueStore: [ConformanceCheck<any KVStoring>] =
        keyValuePresence + keyValueTypes + keyValueReadings + keyValueCode + keyValueNames + keyValueConcurrency
        + keyValueErrors + keyValueThreads + keyValueReports

    /// The promises of a key-value store with raw values, those of ``keyValueStore`` included.
    public static let rawKeyValueStore: [ConformanceCheck<any KVRawStoring>] =
        keyValueStore.map { check in check.on { $0 } } + keyValueRawValues

    /// The promises of a transactional key-value store, those of ``rawKeyValueStore`` included.
    public static let transactionalKeyValueStore: [ConformanceCheck<any KVTransactionalStoring>] =
        rawKeyValueStore.map { check in check.on { $0 } } + keyValueRevisions + keyValueBatches + keyValueSnapshots
        + keyValueAtomicity + transactionalKeyValueThreads

    static let keyValuePresence: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("a key that was never set is absent") { store in
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get")
            try expectEqual(store.contains(KVKey<Int>("a")), false, "contains(a) in an empty store")
        },
        ConformanceCheck("a value that was set can be read") { store in
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get")
            try expectEqual(store.contains(KVKey<String>("a")), true, #"contains(a) after set(a, "one")"#)
        },
        ConformanceCheck("a value that equals the present one replaces it, if its encoding is another") { store in
            let (zero, text) = (KVKey<Double>("zero"), KVKey<String>("text"))
            for value in [0.0, -0.0, 0.0] {
                try store.set(zero, value: value)
                try expectEqual(store.get(zero)?.sign, value.sign, "the sign of get(zero) after set(zero) of \(value)")
            }
            for value in ["\u{E9}", "e\u{301}", "\u{E9}"] {
                try store.set(text, value: value)
                try expectEqual(
                    store.get(text).map { Array($0.utf8) }, Array(value.utf8),
                    "the bytes of get(text) after set(text) of \(value.escaped)")
            }
        },
        ConformanceCheck("setting again replaces the value") { store in
            let key = KVKey<Int>("a")
            for value in [1, 2, 3] { try store.set(key, value: value) }
            try expectEqual(store.get(key), 3, "get")
        },
        ConformanceCheck("setting again can change the type") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get as String")
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get as Int")
        },
        ConformanceCheck("a removed key is absent") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            try store.remove(key)
            try expectEqual(store.get(key), nil, "get")
            try expectEqual(store.contains(key), false, "contains(a) after remove(a)")
        },
        ConformanceCheck("a key can be set again after it was removed") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            try store.remove(key)
            try store.set(key, value: 2)
            try expectEqual(store.get(key), 2, "get")
        },
        ConformanceCheck("removing an absent key succeeds") { store in
            try store.remove(KVKey<Int>("a"))
            try expectEqual(store.contains(KVKey<Int>("a")), false, "contains(a) after remove(a) in an empty store")
        },
        ConformanceCheck("removing a key keeps the others") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<Int>("b"), value: 2)
            try store.remove(KVKey<Int>("a"))
            try expectEqual(store.get(KVKey<Int>("b")), 2, "get")
        },
        ConformanceCheck("removing ignores the type") { store in
            try store.set(KVKey<String>("a"), value: "one")
            try store.remove(KVKey<Int>("a"))
            try expectEqual(store.contains(KVKey<String>("a")), false, "contains(a) after remove(a) as another type")
        },
        ConformanceCheck("removeAll removes every key") { store in
            for index in 0..<50 { try store.set(KVKey<Int>("key \(index)"), value: index) }
            try store.removeAll()
            for index in 0..<50 {
                try expect(!store.contains(KVKey<Int>("key \(index)")), "key \(index) is still there")
            }
        },
        ConformanceCheck("removeAll of an empty store succeeds") { store in
            try store.removeAll()
            try store.removeAll()
        },
        ConformanceCheck("a store can be filled again after removeAll") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.removeAll()
            try store.set(KVKey<Int>("b"), value: 2)
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get a")
            try expectEqual(store.get(KVKey<Int>("b")), 2, "get b")
        },
        ConformanceCheck("a stored nil is not an absent key") { store in
            let key = KVKey<Int?>("a")
            if let found = store.get(key) {
                throw ConformanceViolation(
                    "get(a as Int?) of an absent key: expected none, got \(String(describing: Optional(found)))")
            }
            try store.set(key, value: nil)
            try expectEqual(store.contains(key), true, "contains(a) after set(a, nil)")
            try expect(store.get(key) == .some(.none), "get(a) after set(a, nil): expected a stored nil, got none")
            try store.set(key, value: 5)
            try expectEqual(store.get(key) ?? nil, 5, "get")
            try store.remove(key)
            try expect(store.get(key) == nil, "a removed nil is still there")
        },
        ConformanceCheck("contains checks the name, not the type") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try expectEqual(store.contains(KVKey<String>("a")), true, "contains(a) as another type, after set(a, 1)")
        },
        ConformanceCheck("a value of another type reads as nil and is kept") { store in
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get as Int")
            try expectEqual(store.get(KVKey<[Int]>("a")), nil, "get as [Int]")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get as String")
        },
        ConformanceCheck("a number too large for the type reads as nil") { store in
            try store.set(KVKey<Int>("a"), value: 300)
            try expectEqual(store.get(KVKey<UInt8>("a")), nil, "get as UInt8")
            try expectEqual(store.get(KVKey<Int16>("a")), 300, "get as Int16")
        },
        ConformanceCheck("reading returns another object than the one that was set") { store in
            let key = KVKey<CheckObject>("a")
            let object = CheckObject(7)
            try store.set(key, value: object)
            let first = store.get(key)
            let second = store.get(key)
            try expectEqual(first?.number, 7, "number")
            try expect(
                first !== object && second !== first,
                "get(a), twice after set(a): two of the three objects are the same")
        },
    ]
}

final class CheckObject: Codable, Sendable {
    let number: Int

    init(_ number: Int) { self.number = number }
}

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
            try expectEqual(store.get(key), large, "get(large)")
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
    /// What no error may show.
    var text = "secret"

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

extension ConformanceChecks {
    static let keyValueNames: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("every text is a distinct name") { store in
            let names = hostileNames
            for (index, name) in names.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            for (index, name) in names.enumerated() {
                try expectEqual(store.get(KVKey<Int>(name)), index, "the value of \(KVKey<Int>(name))")
            }
            for (index, name) in names.enumerated() where index.isMultiple(of: 2) {
                try store.remove(KVKey<Int>(name))
            }
            for (index, name) in names.enumerated() {
                try expectEqual(
                    store.contains(KVKey<Int>(name)), !index.isMultiple(of: 2), "contains \(KVKey<Int>(name))")
            }
        },
        ConformanceCheck("a name may have 1,024 bytes", needs: [.longestNames]) { store in
            for name in longestNames {
                try store.set(KVKey<String>(name), value: String(name.prefix(1)))
                try expectEqual(store.get(KVKey<String>(name)), String(name.prefix(1)), "\(KVKey<Int>(name))")
                try store.remove(KVKey<String>(name))
                try expect(!store.contains(KVKey<String>(name)), "contains a removed name")
            }
        },
        ConformanceCheck("names of 1,024 bytes that differ in the last one are different keys", needs: [.longestNames])
        {
            store in
            let names = neighboursOfLongestName
            for (index, name) in names.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            for (index, name) in names.enumerated() {
                try expectEqual(
                    store.get(KVKey<Int>(name)), index,
                    "get of \(name.utf8.count) bytes that end with \(name.suffix(1))")
            }
            try store.remove(KVKey<Int>(names[0]))
            try expectEqual(
                names.map { store.contains(KVKey<Int>($0)) }, [false, true, true, true],
                "contains of the names that were set, after remove of the first")
        },
        ConformanceCheck("canonically equivalent names are different keys") { store in
            try store.set(KVKey<Int>("\u{E9}"), value: 1)
            try store.set(KVKey<Int>("e\u{301}"), value: 2)
            try expectEqual(store.get(KVKey<Int>("\u{E9}")), 1, "the composed name")
            try expectEqual(store.get(KVKey<Int>("e\u{301}")), 2, "the decomposed name")
        },
        ConformanceCheck("names that differ in case are different keys") { store in
            try store.set(KVKey<Int>("name"), value: 1)
            try store.set(KVKey<Int>("NAME"), value: 2)
            try expectEqual(store.get(KVKey<Int>("name")), 1, "name")
            try expectEqual(store.get(KVKey<Int>("NAME")), 2, "NAME")
        },
        ConformanceCheck("a name that is a prefix of another is a distinct key") { store in
            let names = ["a", "a.b", "a.b.c", "a/b", "a/b/c"]
            for (index, name) in names.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            try store.remove(KVKey<Int>("a.b"))
            try store.remove(KVKey<Int>("a/b"))
            try expectEqual(
                names.map { store.get(KVKey<Int>($0)) }, [0, nil, 2, nil, 4], "what is left")
            // A text, unlike a number, may take more than one word beside a name of any length.
            let lengths = 0...26
            for length in lengths {
                try store.set(KVKey<String>(String(repeating: "x", count: length)), value: "value \(length)")
            }
            for length in lengths {
                try expectEqual(
                    store.get(KVKey<String>(String(repeating: "x", count: length))), "value \(length)",
                    "get of a text under a name of \(length) bytes")
            }
        },
        ConformanceCheck("a name longer than 1,024 bytes is refused and changes nothing") { store in
            let key = KVKey<Int>(String(repeating: "é", count: 513))
            let error = try await expectError(KVStoreError.self, "set of 513 × \u{E9}, 1,026 bytes") {
                try store.set(key, value: 1)
            }
            try expectEqual(error.code, .invalidKey, "code")
            try expectEqual(error.operation, .set, "operation")
            try expectEqual(error.key, key.name, "key")
            try expectEqual(store.get(key), nil, "get")
            try expectEqual(store.contains(key), false, "contains, with the name that set has refused")
            // A store may encode other values than a number elsewhere, and long texts elsewhere again.
            let others: [(value: String, set: () throws -> Void)] = [
                ("[1]", { try store.set(KVKey<[Int]>(key.name), value: [1]) }),
                ("nil", { try store.set(KVKey<Int?>(key.name), value: nil) }),
                (
                    "70,000 bytes of text",
                    { try store.set(KVKey<String>(key.name), value: String(repeating: "x", count: 70_000)) }
                ),
            ]
            for (value, set) in others {
                let call = "set of 513 × \u{E9}, 1,026 bytes, to \(value)"
                let error = try await expectError(KVStoreError.self, call) { try set() }
                try expectEqual(error.code, .invalidKey, "the code of \(call)")
                try expectEqual(error.key, key.name, "the key of \(call)")
                try expectEqual(store.contains(key), false, "contains after \(call)")
            }
        },
        ConformanceCheck("many keys keep distinct values") { store in
            for index in 0..<300 { try store.set(KVKey<String>("key \(index)"), value: "value \(index)") }
            for index in 0..<300 {
                try expectEqual(store.get(KVKey<String>("key \(index)")), "value \(index)", "key \(index)")
            }
        },
    ]

    /// Names that break stores which treat them as paths, patterns, properties or markup.
    static let hostileNames =
        [
            "", " ", ".", "..", "../x", "../../etc/passwd", "/", "/etc/passwd", "a/../b", "~", "~root", "a\0b", "\0",
            "\n", "\r\n", "\u{1}", "\u{7F}", "\u{FEFF}", "\u{202E}abc", "é", "e\u{301}", "ß", "ss", "İ", "😀", "<key>",
            "&amp;",
            "%2e%2e", "%", "#lock", "#tmp-x", "#forge:", "#forge:%00", "log", "NSGlobalDomain", "AppleLanguages.x",
            "@count", "self", "a.b",
            "a[0]", "*", "?", "$(id)", "'; --", "con", "nul.txt", "A", "a", String(repeating: "x", count: 900),
            String(repeating: "é", count: 450),
        ] + substitutedNames

    /// Different names. A store that replaces, escapes or omits what the names of files cannot have takes some for equal.
    static let substitutedNames = [
        "s/x", "s_x", "s-x", "s:x", "s.x", "s x", "s+x", "s\\x", "s%2Fx", "s%2fx", "s%252Fx", "s%20x", "sx", "s//x",
        "s/x/", "s/./x", "s\u{2215}x", "S/x",
    ]

    /// Two names of 1,024 bytes that differ in the last one, and two of their prefixes.
    static let neighboursOfLongestName = {
        let common = String(repeating: "x", count: 1023)
        return [common + "y", common + "z", common, String(repeating: "x", count: 1022)]
    }()

    static let longestNames = [String(repeating: "x", count: 1024), String(repeating: "é", count: 512)]
}
