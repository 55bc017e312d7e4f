import Foundation
import Testing

@testable import ForgeCoding

/// Every type beside every tag that the format writes: a type reads only values that its tags stand for.
@Suite("Types and tags") struct TypeAndTagTests {
    enum Tagged: CaseIterable {
        case date, fineDate, integer, negativeInteger, decimal, wideDecimal, url, uuid

        var hex: String {
            switch self {
            case .date: "c1 05"
            case .fineDate: "da3a4fc880 fb3ff8000000000000"
            case .integer: "c2 41 05"
            case .negativeInteger: "c3 41 05"
            case .decimal: "c4 82 01 05"
            case .wideDecimal: "c4 82 00 c2 49 010000000000000000"
            case .url: "d820 6161"
            case .uuid: "d825 50" + String(repeating: "05", count: 16)
            }
        }
    }

    struct Point: Codable {
        var x: Int
        var y: Int
    }

    enum Level: Int, Codable { case low = 5 }

    static let signed: Set<Tagged> = [.integer, .negativeInteger, .decimal]
    static let unsigned: Set<Tagged> = [.integer, .decimal]
    static let wide = signed.union([.wideDecimal])
    static let dates: Set<Tagged> = [.date, .fineDate]

    static let types: [(any (Decodable & Sendable).Type, Set<Tagged>)] = [
        (Int.self, signed), (Int8.self, signed), (Int16.self, signed), (Int32.self, signed), (Int64.self, signed),
        (Int128.self, wide), (UInt.self, unsigned), (UInt8.self, unsigned), (UInt16.self, unsigned),
        (UInt32.self, unsigned), (UInt64.self, unsigned), (UInt128.self, unsigned.union([.wideDecimal])),
        (Double.self, wide), (Float.self, wide), (Decimal.self, wide), (Int?.self, signed), (Double?.self, wide),
        (Date.self, dates), (Date?.self, dates), (String.self, [.url]), (String?.self, [.url]), (URL.self, [.url]),
        (URL?.self, [.url]), (UUID.self, [.uuid]), (Level.self, [.integer]),
        (Bool.self, []), (Data.self, []), (Data?.self, []), ([UInt8].self, []), ([Int].self, []), ([Double].self, []),
        ([Float].self, []), ([String].self, []), ([Bool].self, []), ([Int8].self, []), ([Point].self, []),
        (Set<Int>.self, []), (Range<Int>.self, []), (ClosedRange<Int>.self, []), (CGPoint.self, []),
        (CGSize.self, []), (Duration.self, []), ([String: Int].self, []), ([Int: Int].self, []), (Point.self, []),
    ]

    @Test("a type reads exactly the tags that stand for it, behind unknown tags too", arguments: types.indices)
    func table(_ index: Int) throws {
        let (type, accepted) = Self.types[index]
        func expect(_ hex: String, _ type: any Decodable.Type, _ tagged: Tagged) {
            let isAccepted: Bool
            do {
                _ = try BinaryDecoder().decode(type, from: hex.unhexed)
                isAccepted = true
            } catch {
                isAccepted = false
            }
            #expect(isAccepted == accepted.contains(tagged), "\(type) from \(hex)")
        }
        func optional<Value: Decodable>(_ type: Value.Type) -> any Decodable.Type { [Value?].self }
        for tagged in Tagged.allCases {
            for prefix in ["", "c6", "d9d9f7 d863"] {
                expect(prefix + tagged.hex, type, tagged)
                expect("81" + prefix + tagged.hex, optional(type), tagged)
            }
        }
    }

    @Test("a single-value container does not turn a tagged value into a container or into bytes")
    func singleValue() throws {
        struct Reader: Decodable {
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                #expect(throws: DecodingError.self) { try container.decode([Int].self) }
                #expect(throws: DecodingError.self) { try container.decode(Data.self) }
                #expect(throws: DecodingError.self) { try decoder.unkeyedContainer() }
                #expect(throws: DecodingError.self) { try decoder.container(keyedBy: Odd.Key.self) }
            }
        }
        for tagged in Tagged.allCases { _ = try BinaryDecoder().decode(Reader.self, from: tagged.hex.unhexed) }
    }

    @Test(
        "a tag is not read over content of another shape, whatever follows it",
        arguments: [
            "82 c4 83 01 05 06", "81 c4 81 01 05", "81 c4 80 01 05", "81 c4 a1 01 05", "81 c4 9f 01 05", "82 c4 01 05",
            "81 c4 42 01 05", "81 c4 82 61 31 05", "81 c4 82 01 61 31", "82 c2 05 05", "81 c2 61 05", "81 c3 81 05",
            "82 c1 61 31 05", "81 da3a4fc880 61 31",
        ])
    func shapes(hex: String) {
        for type in [[Decimal].self, [Double].self, [Int128].self, [Int].self, [Date].self] as [any Decodable.Type] {
            #expect(throws: DecodingError.self, "\(type)") { try BinaryDecoder().decode(type, from: hex.unhexed) }
        }
    }

    @Test("the error names the kind of value that was found")
    func kinds() {
        let expected = [
            "c1 05": "a date", "c2 41 05": "an integer of more than 64 bits", "c4 82 01 05": "a decimal number",
            "d820 6161": "a URL", "d825 50" + String(repeating: "05", count: 16): "a UUID",
        ]
        for (hex, kind) in expected {
            #expect {
                try BinaryDecoder().decode([Bool].self, from: hex.unhexed)
            } throws: { error in
                guard case DecodingError.typeMismatch(_, let context) = error else { return false }
                return context.debugDescription.hasSuffix("found \(kind)")
            }
        }
    }

    @Test(
        "an integer beyond 64 bits reads as the Double of its value, or the one that is printed as it",
        arguments: [
            ("18446744073709551616", 0x1p64), ("-18446744073709551616", -0x1p64), ("100000000000000000000", 1e20),
            ("-100000000000000000000", -1e20), ("590295810358705700000", 0x1p69), ("1152921504606847000", 0x1p60),
            ("-170141183460469231731687303715884105728", -0x1p127),
            ("170141183460469231731687303715884105728", 0x1p127),
            ("18446744073709551617", nil), ("9007199254740993", nil),
            ("340282366920938463463374607431768211455", nil), ("-340282366920938463463374607431768211455", nil),
        ] as [(String, Double?)])
    func largeIntegers(_ text: String, _ value: Double?) throws {
        let bytes = try CodedValue(json: text).encoded()
        guard let value else {
            #expect(throws: DecodingError.self) { try BinaryDecoder().decode(Double.self, from: bytes) }
            return
        }
        #expect(try BinaryDecoder().decode(Double.self, from: bytes) == value)
        #expect(try BinaryDecoder().decode([Double].self, from: [0x81] + bytes) == [value])
    }

    @Test("a Float is an integer beyond 64 bits only if it has its value")
    func largeFloats() throws {
        #expect(try BinaryDecoder().decode(Float.self, from: "c2 49 010000000000000000".unhexed) == 0x1p64)
        #expect(try BinaryDecoder().decode(Float.self, from: "c3 48 ffffffffffffffff".unhexed) == -0x1p64)
        #expect(throws: DecodingError.self) {
            try BinaryDecoder().decode(Float.self, from: "c2 49 010000000000000001".unhexed)
        }
        let lowest = "c350" + String(repeating: "ff", count: 16)
        #expect(try BinaryDecoder().decode(Double.self, from: lowest.unhexed) == -0x1p128)
        #expect(throws: DecodingError.self) { try BinaryDecoder().decode(Float.self, from: lowest.unhexed) }
    }

    @Test("every Decimal is read with all of its digits, whatever zeros they end in")
    func everyDecimal() throws {
        for exponent in [-128, -1, 0, 1, 100, 127] {
            for magnitude in [0, 1, 10, 100_000_000_000_000_000_000, UInt128.max, UInt128.max / 10 * 10] {
                for isNegative in [false, true] where !isNegative || magnitude > 0 {
                    let mantissa = CodedValue(magnitude: magnitude, isNegative: isNegative)
                    let tree = CodedValue.tagged(
                        Tag.decimalFraction, .array([.integer(Int64(exponent)), mantissa]))
                    let value = try BinaryDecoder().decode(Decimal.self, from: tree.encoded())
                    let text = "\(isNegative ? "-" : "")\(magnitude)e\(exponent)"
                    #expect(DecimalNumeral(value.description) == DecimalNumeral(text), "\(text)")
                    #expect(try BinaryDecoder().decode(Decimal.self, from: BinaryEncoder().encode(value)) == value)
                }
            }
        }
    }
}

@Suite("Nested tags") struct NestedTagsTests {
    struct Field: Decodable {
        var x: Int
        var y: Int?
    }

    struct Wrapped: Decodable {
        var value: Int

        init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(Int.self) }
    }

    struct Elements: Decodable {
        init(from decoder: any Decoder) throws {
            var container = try decoder.unkeyedContainer()
            while !container.isAtEnd { _ = try container.decode(Int.self) }
        }
    }

    /// A map in each level, and null or nothing in the last.
    final class Chain: Decodable, Sendable {
        let x: Chain?
    }

    /// Types with the items that they are decoded from: `^` marks where tags are put.
    static let items: [(String, any (Decodable & Sendable).Type)] = [
        ("^05", Int.self), ("^20", Int8.self), ("^1b8000000000000000", UInt64.self), ("^fb4000000000000000", Int.self),
        ("c249010000000000000000", Int128.self), ("^05", UInt128.self), ("^05", Int?.self),
        ("^fb3ff8000000000000", Double.self), ("^01", Double.self), ("^f93c00", Float.self), ("^01", Float?.self),
        ("^f5", Bool.self), ("^6161", String.self), ("^7f6161ff", String.self), ("^6161", URL.self),
        ("^43010203", Data.self), ("^5f4101ff", Data.self), ("^43010203", [UInt8].self), ("^81^05", [UInt8].self),
        ("^50" + String(repeating: "00", count: 16), UUID.self), ("^c1^00", Date.self),
        ("^da3a4fc880^fb3ff8000000000000", Date.self), ("^05", Decimal.self), ("^c4820105", Decimal.self),
        ("^c4822149010000000000000000".replacingOccurrences(of: "2149", with: "21c249"), Decimal.self),
        ("^fb3ff8000000000000", Decimal.self), ("^c482^01^05", Decimal.self),
        ("^81^05", [Int].self), ("^9f^05ff", [Int].self), ("^81^fb3ff8000000000000", [Double].self),
        ("^81^01", [Float].self), ("^81^6161", [String].self), ("^81^81^05", [[Int]].self), ("^81^f5", [Bool].self),
        ("^81^05", [Wrapped].self), ("^81^05", Elements.self), ("^a16178^05", [String: Int].self),
        ("^a16178^05", Field.self), ("^bf6178^05ff", Field.self), ("^a26179^056178^05", Field.self),
        ("^a2617a^056178^05", Field.self), ("^81^a16178^05", [Field].self), ("^81^a16178^a0", [Chain].self),
        ("^a16178^a16178^a16178f6", Chain.self), ("^82^a16178^a0^a16178^a0", [Chain].self),
    ]

    private func isAccepted(_ bytes: [UInt8], as type: any Decodable.Type) -> Bool {
        do {
            _ = try BinaryDecoder().decode(type, from: bytes)
            return true
        } catch {
            return false
        }
    }

    private func isTree(_ bytes: [UInt8]) -> Bool {
        do {
            _ = try CodedValue(decoding: bytes)
            return true
        } catch {
            return false
        }
    }

    @Test("every type accepts as many levels of arrays, maps and tags as a tree", arguments: items.indices)
    func limits(_ index: Int) throws {
        let (item, type) = Self.items[index]
        let parts = item.split(separator: "^", omittingEmptySubsequences: false).map { String($0).unhexed }
        #expect(isAccepted(Array(parts.joined()), as: type), "\(item)")
        // The same number of tags at each place, and all tags at one place.
        for count in [1, 20, 21, 22, 30, 31, 32, 58, 59, 60, 61, 62, 63, 64, 65, 1_000] {
            let tags = [UInt8](repeating: 0xC6, count: count)
            for place in 0..<parts.count {
                let bytes = parts.enumerated().flatMap { number, part in
                    number > 0 && (place == 0 || place == number) ? tags + part : part
                }
                #expect(isAccepted(bytes, as: type) == isTree(bytes), "\(item), \(count) tags, place \(place)")
            }
        }
    }

    @Test("a million tags in front of a value are refused", arguments: [65, 1_000, 1_000_000])
    func manyTags(_ count: Int) {
        let bytes = [0x11, 1] + [UInt8](repeating: 0xC6, count: count) + [0]
        #expect(throws: DecodingError.self) { try ValueCoder().decode(Int.self, from: bytes) }
    }

    @Test("a larger maximum depth holds for tags too")
    func maximumDepth() throws {
        var decoder = BinaryDecoder()
        decoder.maximumDepth = 100
        let bytes = { (count: Int) in [UInt8](repeating: 0xC6, count: count) + [5] }
        #expect(try decoder.decode(Int.self, from: bytes(100)) == 5)
        #expect(throws: DecodingError.self) { try decoder.decode(Int.self, from: bytes(101)) }
        decoder.maximumDepth = 0
        #expect(try decoder.decode(Int.self, from: bytes(0)) == 5)
        #expect(throws: DecodingError.self) { try decoder.decode(Int.self, from: bytes(1)) }
    }
}
