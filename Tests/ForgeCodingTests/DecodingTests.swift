import Foundation
import Testing

@testable import ForgeCoding

@Suite("Decoding") struct DecodingTests {
    struct Point: Codable, Equatable {
        var x: Int
        var y: Int
    }

    struct Newer: Codable, Equatable {
        var added: String?
        var x: Int
        var nested: Point?
        var y: Int
        var last: [Int]?
    }

    func decode<T: Decodable>(_ type: T.Type, _ hex: String) throws -> T {
        try BinaryDecoder().decode(type, from: hex.unhexed)
    }

    @Test("types with added optional fields decode old values, and old types decode new ones")
    func evolution() throws {
        let old = try BinaryEncoder().encode(Point(x: 1, y: 2))
        #expect(try BinaryDecoder().decode(Newer.self, from: old) == Newer(x: 1, y: 2))
        let new = try BinaryEncoder().encode(Newer(added: "a", x: 1, nested: Point(x: 3, y: 4), y: 2, last: [1]))
        #expect(try BinaryDecoder().decode(Point.self, from: new) == Point(x: 1, y: 2))
        #expect(try BinaryDecoder().decode([Point].self, from: [0x82] + new + old).count == 2)
        let reordered = "82 a2 6179 02 6178 01 a2 6179 04 6178 03"
        #expect(try decode([Point].self, reordered) == [Point(x: 1, y: 2), Point(x: 3, y: 4)])
    }

    @Test(
        "key order, indefinite lengths, long heads, unknown tags and nulls are accepted",
        arguments: [
            "a2 6178 01 6179 02", "a2 6179 02 6178 01", "bf 6178 01 6179 02 ff", "b802 6178 01 6179 02",
            "bb0000000000000002 7801 78 1801 6179 190002", "d9d9f7 a2 6178 01 6179 02",
            "a3 6178 01 617a 83 01 a1 01 02 5f 4101 4102 ff 6179 02", "a2 6178 d864 01 6179 02",
            "a2 6178 f93c00 6179 fa40000000", "a2 6178 c24101 6179 c249000000000000000002",
            "bf 617a f6 6179 02 6178 01 ff", "a3 6178 01 6179 02 617a d9d9f7 f4",
        ])
    func otherWriters(_ hex: String) throws {
        #expect(try decode(Point.self, hex) == Point(x: 1, y: 2))
        #expect(try decode([String: Point].self, "bf 6161" + hex + "6162" + hex + "ff").count == 2)
    }

    @Test("an optional decodes null, an absent key and undefined as nil")
    func optionals() throws {
        for hex in [
            "a2 6178 01 6179 02", "a3 6178 01 66 6e6573746564 f6 6179 02", "a3 666e6573746564 f7 6178 01 6179 02",
        ] {
            #expect(try decode(Newer.self, hex).nested == nil)
        }
        #expect(try decode(Int?.self, "f6") == nil)
        #expect(try decode([Int?].self, "82f601") == [nil, 1])
        #expect(try decode(Int??.self, "05") == 5)
    }

    static let corrupted: [(String, any (Decodable & Sendable).Type)] = [
        ("", Int.self), ("", Point.self), ("", Data?.self), ("18", Int.self), ("1b00000000000000", Int.self),
        ("1c", Int.self), ("1f", Int.self), ("ff", Int.self), ("ff", Point.self), ("0101", Int.self),
        ("6261", String.self), ("61ff", String.self), ("62c080", String.self), ("63eda080", String.self),
        ("7bffffffffffffffff", String.self), ("5bffffffffffffffff", Data.self), ("9bffffffffffffffff", [Int].self),
        ("9bffffffffffffffff", [Point].self), ("bbffffffffffffffff", Point.self), ("bb7fffffffffffffff", Point.self),
        ("9b7fffffffffffffff", [Double].self), ("a2 6178 01", Point.self), ("a2 6178 01 6179", Point.self),
        ("bf 6178 01 6179 02", Point.self), ("bf 6178 ff", Point.self), ("a2 6178 01 6179 02 00", Point.self),
        ("a3 6178 01 6178 01 6179 02", Point.self), ("a3 6178 01 6179 02 6178 01", Point.self),
        ("a3 6178 01 6179 02 6161", Point.self), ("a3 6178 01 6179 02 61ff 00", Point.self),
        ("a3 6178 01 6179 02 6161 61ff", Point.self), ("a3 6178 01 6179 02 6161 1c", Point.self),
        ("a4 6178 01 6179 02 6161 00 6161 00", Point.self), ("a1 01 02", [String: Int].self),
        ("a2 7f 6178 ff 01 6179 02", Point.self), ("a1 6161 1c", [String: Int].self),
        ("a3 6178 01 6179 02 6161 f818", Point.self), ("a3 6178 01 6179 02 6161 5f 6100 ff", Point.self),
        ("a3 6178 01 6179 02 6161 9f 01", Point.self), ("a3 6178 01 6179 02 6161 bf 01 ff", Point.self),
        ("190100", UInt8.self), ("20", UInt.self), ("3880", Int8.self), ("1bffffffffffffffff", Int.self),
        ("3bffffffffffffffff", Int.self), ("c2510100000000000000000000000000000000", UInt128.self),
        ("c3510100000000000000000000000000000000", Int128.self), ("c35080000000000000000000000000000000", Int128.self),
        ("fb7e37e43c8800759c", Float.self), ("fb3ff8000000000000", Int.self), ("f97e00", Int.self),
        ("1b0020000000000001", Double.self), ("c201", Int.self), ("82 01", [Int].self), ("9f 01", [Int].self),
        ("9f f6", [Point?].self), ("d825 41ff", UUID.self), ("d820 60", URL.self),
        ("c4 8119", Decimal.self), ("c4 83010101", Decimal.self),
        ("c4 82 1880 01", Decimal.self), ("c4 82 00 c251010000000000000000000000000000000000", Decimal.self),
        ("fb7ff0000000000000", Decimal.self), ("c4 82 00 c350ffffffffffffffffffffffffffffffff", Decimal.self),
        ("7f 61c3 61a4 ff", String.self), ("7f 6161", String.self), ("7f 4161 ff", String.self),
        ("7f 7f 6161 ff ff", String.self), ("5f 41", Data.self),
    ]

    @Test("malformed and out-of-range input is an error", arguments: corrupted.indices)
    func corruption(_ index: Int) {
        let (hex, type) = Self.corrupted[index]
        let expected = "\(hex) as \(type)"
        #expect {
            try decode(type, hex)
        } throws: { error in
            if case DecodingError.dataCorrupted = error { return true }
            Issue.record("\(expected): \(error)")
            return false
        }
    }

    static let mismatched: [(String, any (Decodable & Sendable).Type)] = [
        ("01", String.self), ("6161", Int.self), ("80", Point.self), ("a0", [Int].self), ("a0", [Point].self),
        ("f5", Int.self), ("01", Bool.self), ("40", String.self), ("60", Data.self), ("fb3ff0000000000000", Date.self),
        ("01", Date.self), ("60", Double.self), ("01", UUID.self), ("01", URL.self), ("60", Decimal.self),
        ("f0", Int.self),
        ("a2 6178 6161 6179 02", Point.self), ("01", [String: Int].self), ("c101", String.self), ("60", [UInt8].self),
        ("60", Float.self), ("40", [String].self), ("c1 01", Int.self), ("c1 01", Double.self),
        ("c1 fb3ff8000000000000", Double.self), ("d9d9f7 c1 01", Float.self), ("81 c1 01", [Double].self),
        ("da3a4fc880 fb3ff8000000000000", Double.self), ("da3a4fc880 fb3ff0000000000000", Int.self),
        ("c1 01", Decimal.self), ("c1 01", Double?.self),
    ]

    @Test("a value of another type is a type mismatch", arguments: mismatched.indices)
    func mismatch(_ index: Int) {
        let (hex, type) = Self.mismatched[index]
        #expect {
            try decode(type, hex)
        } throws: { error in
            guard case DecodingError.typeMismatch = error else {
                Issue.record("\(hex) as \(type): \(error)")
                return false
            }
            return true
        }
    }

    @Test("errors tell null from missing values and have the coding path")
    func missing() throws {
        #expect {
            try decode([String: [Point]].self, "a1 616b 82 a2 6178 01 6179 02 a2 6178 01 6179 f6")
        } throws: { error in
            guard case DecodingError.valueNotFound(_, let context) = error else { return false }
            return context.codingPath.map(\.stringValue) == ["k", "Index 1", "y"]
        }
        #expect {
            try decode([Point].self, "81 a1 6178 01")
        } throws: { error in
            guard case DecodingError.keyNotFound(let key, let context) = error else { return false }
            return key.stringValue == "y" && context.codingPath.map(\.intValue) == [0]
        }
        for type: any Decodable.Type in [Int.self, String.self, Point.self, [Int].self, [Point].self, Date.self] {
            #expect {
                try decode(type, "f6")
            } throws: { error in
                if case DecodingError.valueNotFound = error { true } else { false }
            }
        }
    }

    @Test("numbers convert if the value is preserved")
    func conversions() throws {
        #expect(try decode(Double.self, "01") == 1 && decode(Double.self, "20") == -1)
        #expect(try decode(Double.self, "f90001") == 5.960464477539063e-8 && decode(Double.self, "fa3fc00000") == 1.5)
        #expect(try decode(Float.self, "fb3ff199999999999a") == 1.1 && decode(Float.self, "01") == 1)
        #expect(try decode(Int.self, "fb4000000000000000") == 2 && decode(UInt8.self, "f95bf8") == 255)
        #expect(try decode([UInt8].self, "83010203") == [1, 2, 3] && decode([UInt8].self, "43010203") == [1, 2, 3])
        #expect(
            try decode(Decimal.self, "05") == 5 && decode(Decimal.self, "fb3fb999999999999a") == Decimal(string: "0.1"))
        #expect(try decode(Decimal.self, "c249010000000000000000") == Decimal(string: "18446744073709551616"))
        #expect(try decode(Decimal.self, "fb7ff8000000000000").isNaN)
        #expect(try decode(Decimal.self, "d9d9f7 c4822103") == Decimal(string: "0.03"))
        #expect(try decode(Date.self, "c1 1a514b67b0") == Date(timeIntervalSince1970: 1_363_896_240))
        #expect(try decode(Date.self, "d9d9f7 c1 f93c00") == Date(timeIntervalSince1970: 1))
        #expect(try decode(String.self, "7f 6161 6162 ff") == "ab" && decode(Data.self, "5f 4101 40 ff") == Data([1]))
        #expect(try decode(UUID.self, "50" + String(repeating: "00", count: 16)).uuidString.hasPrefix("00000000-"))
        #expect(try decode([Int].self, "9f 01 02 ff") == [1, 2] && decode([Point].self, "9fff").isEmpty)
    }

    /// Decodes itself with a closure from the user info.
    struct Custom: Decodable {
        struct Body: @unchecked Sendable { let run: (any Decoder) throws -> Void }
        static var key: CodingUserInfoKey? { CodingUserInfoKey(rawValue: "body") }
        init(from decoder: any Decoder) throws {
            try Self.key.flatMap { decoder.userInfo[$0] as? Body }?.run(decoder)
        }
    }

    func run(_ hex: String, _ body: @escaping (any Decoder) throws -> Void) throws {
        var decoder = BinaryDecoder()
        if let key = Custom.key { decoder.userInfo[key] = Custom.Body(run: body) }
        _ = try decoder.decode(Custom.self, from: hex.unhexed)
    }

    @Test("an array that has no further element, or a malformed one, is an error at the path of the element")
    func elements() {
        func failure(_ hex: String, _ body: @escaping (any Decoder) throws -> Void) -> CodingFailure? {
            do {
                try run(hex, body)
                return nil
            } catch {
                return CodingFailure(.decode, describing: error)
            }
        }
        let ended = failure("a1 6162 81 01") { decoder in
            var array = try decoder.container(keyedBy: Odd.Key.self).nestedUnkeyedContainer(forKey: "b")
            for _ in 0..<2 { _ = try array.decode(Int.self) }
        }
        #expect(ended == CodingFailure(.decode, .valueNotFound(expected: "Int"), codingPath: "b.1"))
        let truncated = failure("9f") { decoder in
            var array = try decoder.unkeyedContainer()
            _ = try array.decodeNil()
        }
        let end = CodingFailure.Reason.corrupted("the bytes end inside the item at byte 1")
        #expect(truncated == CodingFailure(.decode, end, codingPath: "0"))
        let malformed = failure("82 01 1c") { decoder in
            var array = try decoder.unkeyedContainer()
            _ = try array.decode(Int.self)
            _ = try array.nestedUnkeyedContainer()
        }
        let reserved = CodingFailure.Reason.corrupted("no well-formed item at byte 2")
        #expect(malformed == CodingFailure(.decode, reserved, codingPath: "1"))
    }

    @Test("the key of an element is its index, and that of a superclass is no text of an app")
    func pathKeys() {
        #expect(IndexKey(intValue: 3)?.stringValue == "Index 3" && IndexKey(intValue: 3)?.intValue == 3)
        #expect(IndexKey(stringValue: "Index 3") == nil)
        #expect(SuperKey(intValue: 0) == nil && SuperKey(stringValue: "super") == nil)
        #expect(SuperKey().stringValue == "super" && SuperKey().intValue == nil)
    }

    @Test("containers can be read in any order and repeatedly")
    func anyOrder() throws {
        try run("a4 6161 01 6162 82 01 a1 6178 02 6163 a1 6179 03 6164 f6") { decoder in
            let map = try decoder.container(keyedBy: Odd.Key.self)
            #expect(map.allKeys.map(\.stringValue) == ["a", "b", "c", "d"])
            let inner = try map.nestedContainer(keyedBy: Odd.Key.self, forKey: "c")
            var array = try map.nestedUnkeyedContainer(forKey: "b")
            #expect(try map.decode(Int.self, forKey: "a") == 1 && map.decode(Int.self, forKey: "a") == 1)
            #expect(try map.decodeNil(forKey: "d") && !map.decodeNil(forKey: "a"))
            #expect(map.contains("d") && !map.contains("e"))
            #expect(try map.decodeIfPresent(String.self, forKey: "e") == nil)
            #expect(try map.decodeIfPresent([Int].self, forKey: "d") == nil)
            #expect(throws: DecodingError.self) { try map.decodeNil(forKey: "e") }
            #expect(throws: DecodingError.self) { try map.superDecoder() }
            #expect(try inner.decode(Int.self, forKey: "y") == 3)
            #expect(array.count == 2 && array.currentIndex == 0)
            #expect(throws: DecodingError.self) { try array.decode(String.self) }
            #expect(try !array.decodeNil() && array.decode(Int.self) == 1)
            let last = try array.nestedContainer(keyedBy: Odd.Key.self)
            #expect(try last.decode(Int.self, forKey: "x") == 2 && array.isAtEnd)
            #expect(throws: DecodingError.self) { try array.decode(Int.self) }
            #expect(throws: DecodingError.self) { try array.decodeNil() }
            #expect(throws: DecodingError.self) { try array.nestedUnkeyedContainer() }
            #expect(last.codingPath.map(\.stringValue) == ["b", "Index 1"] && array.codingPath.count == 1)
            #expect(map.codingPath.isEmpty)
        }
        try run("9f f6 80 81 05 01 ff") { decoder in
            var array = try decoder.unkeyedContainer()
            #expect(array.count == 4)
            #expect(try array.decodeNil())
            var empty = try array.nestedUnkeyedContainer()
            #expect(empty.isAtEnd)
            #expect(throws: DecodingError.self) { try empty.superDecoder() }
            var five = try array.superDecoder().unkeyedContainer()
            #expect(try five.decode(Int.self) == 5)
            #expect(try array.decodeIfPresent(Int.self) == 1 && array.isAtEnd)
        }
        try run("a1 657375706572 01") { decoder in
            let map = try decoder.container(keyedBy: Odd.Key.self)
            #expect(try map.superDecoder(forKey: "super").singleValueContainer().decode(Int.self) == 1)
        }
    }

    @Test("a duplicate key is refused even if the type requests it twice")
    func repeatedKeys() throws {
        let letters = "abcdefghijklmnopqrstuvwxyz".map { String($0) }
        for name in ["", "name", "a longer name"] + letters {
            let key = try BinaryEncoder().encode(name)
            let twice: [UInt8] = [0xA2] + key + [1] + key + [2]
            #expect(throws: DecodingError.self, "\(name)") {
                try run(twice.hex) { decoder in
                    let map = try decoder.container(keyedBy: Odd.Key.self)
                    for _ in 0..<2 { _ = try map.decode(Int.self, forKey: Odd.Key(stringValue: name)) }
                }
            }
        }
        for hex in ["a2 6161 01 6161 02", "bf 6161 01 6161 02 ff", "a3 6161 01 6162 02 6161 03"] {
            #expect(throws: DecodingError.self) {
                try run(hex) { decoder in
                    let map = try decoder.container(keyedBy: Odd.Key.self)
                    _ = try map.decode(Int.self, forKey: "a")
                    _ = try map.decodeIfPresent(Int.self, forKey: "b")
                    _ = try map.decode(Int.self, forKey: "a")
                }
            }
            #expect(throws: DecodingError.self) {
                try run(hex) { decoder in
                    let map = try decoder.container(keyedBy: Odd.Key.self)
                    _ = try (map.decode(Int.self, forKey: "a"), map.decode(Int.self, forKey: "a"))
                }
            }
        }
        let many = (0..<40).map { "6261" + [UInt8($0 % 39 + 0x30)].hex + "00" }.joined()
        #expect(throws: DecodingError.self) { try decode([String: Int].self, "b828" + many) }
    }

    @Test("a value may try several types")
    func alternatives() throws {
        try run("a2 6178 01 6179 02") { decoder in
            #expect(throws: DecodingError.self) { try decoder.unkeyedContainer() }
            let single = try decoder.singleValueContainer()
            #expect(throws: DecodingError.self) { try single.decode(Int.self) }
            #expect(throws: DecodingError.self) { try single.decode([Int].self) }
            #expect(!single.decodeNil())
            #expect(try single.decode(Point.self) == Point(x: 1, y: 2))
            #expect(single.codingPath.isEmpty)
        }
    }

    @Test("unread items are skipped but must be well-formed")
    func unread() throws {
        try run("82 01 82 02 f6") { _ in }
        try run("82 01 82 02 f6") { decoder in
            var array = try decoder.unkeyedContainer()
            _ = try array.decode(Int.self)
        }
        #expect(throws: DecodingError.self) { try run("82 01 82 02 1c") { _ in } }
        #expect(throws: DecodingError.self) { try run("a1 6161 1c") { _ = try $0.container(keyedBy: Odd.Key.self) } }
        #expect(throws: DecodingError.self) {
            try run("9f 01 1c") { decoder in
                let array = try decoder.unkeyedContainer()
                #expect(array.count == nil)
            }
        }
        #expect(throws: DecodingError.self) {
            try run("a1 6161 1c") { decoder in
                let map = try decoder.container(keyedBy: Odd.Key.self)
                #expect(map.allKeys.isEmpty && map.contains("a") && map.contains("b"))
            }
        }
    }

    @Test("a retained decoder and its containers can be read after the decoding")
    func lateDecoder() throws {
        let keeper = Odd.Keeper()
        nonisolated(unsafe) var kept: [KeyedDecodingContainer<Odd.Key>] = []
        nonisolated(unsafe) var arrays: [any UnkeyedDecodingContainer] = []
        try run("a2 6161 01 6162 82 01 02") { decoder in
            keeper.decoder = decoder
            let map = try decoder.container(keyedBy: Odd.Key.self)
            kept.append(map)
            arrays.append(try map.nestedUnkeyedContainer(forKey: "b"))
            _ = map.allKeys
        }
        #expect(try kept[0].decode(Int.self, forKey: "a") == 1)
        #expect(throws: DecodingError.self) { try kept[0].decode(Int.self, forKey: "b") }
        #expect(try arrays[0].decode(Int.self) == 1 && arrays[0].decode(Int.self) == 2)
        #expect(throws: DecodingError.self) { try keeper.decoder?.unkeyedContainer() }
        #expect(try keeper.decoder?.singleValueContainer().decodeNil() == false)
        #expect(throws: DecodingError.self) { try keeper.decoder?.singleValueContainer().decode(Int.self) }
    }

    struct AllWidths: Codable, Equatable {
        var a: Int8?, b: Int16?, c: Int32?, d: Int64?, e: Int128?, f: UInt?, g: UInt8?, h: UInt16?, i: UInt32?
        var j: UInt64?, k: UInt128?, l: Bool?, m: String?, n: Double?, o: Float?, p: Int?, q: Point?
        static let full = AllWidths(
            a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10, k: 11, l: true, m: "m", n: 1.5, o: 2.5, p: -1,
            q: Point(x: 1, y: 2))
    }

    struct Required: Codable, Equatable {
        var a: Int8, b: Int16, c: Int32, d: Int64, e: Int128, f: UInt, g: UInt8, h: UInt16, i: UInt32
        var j: UInt64, k: UInt128, l: Bool, m: String, n: Double, o: Float, p: Int, q: Point
    }

    @Test("integer fields of every width decode, present and absent")
    func widths() throws {
        for value in [AllWidths(), .full] {
            #expect(try BinaryDecoder().decode(AllWidths.self, from: BinaryEncoder().encode(value)) == value)
        }
        let bytes = try BinaryEncoder().encode(AllWidths.full)
        let required = try BinaryDecoder().decode(Required.self, from: bytes)
        #expect(try BinaryEncoder().encode(required) == bytes)
        var array = "8f".unhexed
        array += (1...15).map { UInt8($0) }
        try run(array.hex) { decoder in
            var array = try decoder.unkeyedContainer()
            let sum: [Double] = [
                Double(try array.decode(Int8.self)), Double(try array.decode(Int16.self)),
                Double(try array.decode(Int32.self)),
                Double(try array.decode(Int64.self)), Double(try array.decode(Int128.self)),
                Double(try array.decode(UInt.self)),
                Double(try array.decode(UInt8.self)), Double(try array.decode(UInt16.self)),
                Double(try array.decode(UInt32.self)),
                Double(try array.decode(UInt64.self)), Double(try array.decode(UInt128.self)),
                Double(try array.decode(Float.self)),
                try array.decode(Double.self), Double(try array.decode(Int.self)),
            ]
            #expect(sum == (1...14).map { Double($0) })
        }
        try run("18 2a") { decoder in
            let single = try decoder.singleValueContainer()
            #expect(
                try single.decode(Int8.self) == 42 && single.decode(Int16.self) == 42 && single.decode(Int32.self) == 42
            )
            #expect(
                try single.decode(Int64.self) == 42 && single.decode(Int128.self) == 42
                    && single.decode(UInt.self) == 42)
            #expect(
                try single.decode(UInt8.self) == 42 && single.decode(UInt16.self) == 42
                    && single.decode(UInt32.self) == 42)
            #expect(
                try single.decode(UInt64.self) == 42 && single.decode(UInt128.self) == 42
                    && single.decode(Int.self) == 42)
            #expect(try single.decode(Float.self) == 42 && single.decode(Double.self) == 42)
        }
        try run("82 f5 6161") { decoder in
            var array = try decoder.unkeyedContainer()
            #expect(try array.decode(Bool.self) && array.decode(String.self) == "a")
        }
    }
}
