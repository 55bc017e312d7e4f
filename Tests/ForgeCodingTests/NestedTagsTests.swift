import Foundation
import Testing

@testable import ForgeCoding

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
