import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@testable import ForgeCoding

/// A type with a field of every kind, to be decoded from arbitrary bytes.
struct Everything: Codable, Equatable, Sendable {
    var settings = Settings()
    var shapes: [Shape] = [.point, .group(.circle(radius: 1), .polygon([1], name: "n"))]
    var decimal = Decimal(1.5)
    var wide = Int128.max
    var optional: [Int?] = [1, nil]
    var list = Array(0..<30)
    var octets: [UInt8] = [1, 2]
    var children: [Everything] = []
}

@Suite("Hostile bytes") struct HostileBytesTests {
    static func seeds() throws -> [[UInt8]] {
        var everything = Everything()
        everything.list = Array(0..<3)
        everything.children = [everything]
        let encoder = BinaryEncoder()
        return try [
            encoder.encode(everything), encoder.encode(Settings()), encoder.encode(["a": [1, 2]]),
            encoder.encode(Date()), encoder.encode(DecodingTests.AllWidths.full),
            encoder.encode([Shape.group(.point, .point)]),
            encoder.encode([Shape.circle(radius: 1)]), encoder.encode(Decimal(12.5)),
            "bf61619f0102ff61627f61616162ffff".unhexed,
        ]
    }

    /// Random bytes, or a seed with a few bytes changed, removed, duplicated or inserted.
    static func mutant(_ seeds: [[UInt8]], _ generator: inout SplitMix64) -> [UInt8] {
        if Bool.random(using: &generator) {
            return (0..<Int.random(in: 0..<24, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
        }
        let interesting: [UInt8] = [
            0x00, 0x1B, 0x3B, 0x5B, 0x5F, 0x7B, 0x7F, 0x9B, 0x9F, 0xBB, 0xBF, 0xC1, 0xC2, 0xC4, 0xF6, 0xFB, 0xFF,
        ]
        var bytes = seeds[Int.random(in: 0..<seeds.count, using: &generator)]
        for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
            let position = Int.random(in: 0..<bytes.count, using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: bytes[position] = UInt8.random(in: 0...255, using: &generator)
            case 1: bytes[position] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 2: bytes[position] = interesting[Int.random(in: 0..<interesting.count, using: &generator)]
            case 3: bytes.removeSubrange(position..<min(bytes.count, position + 3))
            case 4: bytes.insert(contentsOf: bytes[position..<min(bytes.count, position + 9)], at: position)
            default: bytes.removeLast(bytes.count - position)
            }
        }
        return bytes
    }

    /// Decodes as every type; an accepted value must round-trip.
    static func decodeAsEverything(_ bytes: [UInt8], _ accepted: inout Int) throws {
        let decoder = BinaryDecoder()
        func attempt<Value: Codable & Equatable>(_ type: Value.Type) throws {
            let value: Value
            do {
                value = try decoder.decode(type, from: bytes)
            } catch is DecodingError {
                return
            }
            accepted += 1
            let again = try BinaryEncoder().encode(value)
            let copy = try decoder.decode(type, from: again)
            // NaN does not equal itself but its bytes do; sets and dictionaries have no order.
            if try copy != value && BinaryEncoder().encode(copy) != again { throw Odd.Refusal() }
        }
        switch bytes.count & 3 {
        case 0: try attempt(Everything.self)
        case 1: try attempt(Settings.self)
        case 2:
            try attempt([Shape].self)
            try attempt([String: [Int]].self)
        default:
            try attempt(Date.self)
            try attempt(Decimal.self)
            try attempt(DecodingTests.AllWidths.self)
        }
        do {
            let tree = try CodedValue(decoding: bytes)
            accepted += 1
            let canonical = try tree.encoded()
            if try CodedValue(decoding: canonical).encoded() != canonical { throw Odd.Refusal() }
        } catch is CodingFailure {}
    }

    /// The long run is `FORGE_CODING_FUZZ=1000000 swift test -c release --filter HostileBytesTests`.
    static let count =
        ProcessInfo.processInfo.environment["FORGE_CODING_FUZZ"].flatMap { Int($0) }
        ?? TestDepth.limit(3_000, deep: 50_000)

    @Test("mutated bytes never trap, and accepted values round-trip", arguments: [1, 2, 3, 4] as [UInt64])
    func mutations(_ seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let seeds = try Self.seeds()
        var accepted = 0
        for index in 0..<Self.count {
            let bytes = Self.mutant(seeds, &generator)
            do {
                try Self.decodeAsEverything(bytes, &accepted)
            } catch {
                Issue.record("seed \(seed), input \(index): \(bytes.hex): \(error)")
                return
            }
        }
        #expect(accepted > Self.count / 50, "the inputs are too broken to test anything")
    }

    @Test("every bit flip and truncation of a small value is an error or another value")
    func flips() throws {
        for seed in try Self.seeds().dropFirst() {
            var accepted = 0
            for length in 0..<seed.count { try Self.decodeAsEverything(Array(seed.prefix(length)), &accepted) }
            for bit in 0..<(8 * seed.count) {
                var bytes = seed
                bytes[bit / 8] ^= 1 << UInt8(bit % 8)
                try Self.decodeAsEverything(bytes, &accepted)
            }
        }
    }

    @Test("damaged JSON text and envelopes never trap")
    func text() throws {
        var generator = SplitMix64(seed: 5)
        let seeds = try [
            ValueCoder().encode(Settings()), Array(#"{"theme":"dark","positions":[{"x":1.5,"y":-0.25}]}"#.utf8),
            Array(#"{"a":[1,-2.5e3,"\u00e4\ud83d\ude00",true,null,{}]}"#.utf8),
        ]
        for _ in 0..<(Self.count / 10) {
            let bytes = Self.mutant(seeds, &generator)
            do { _ = try CodedValue(json: String(decoding: bytes, as: UTF8.self)) } catch is CodingFailure {}
            do { _ = try ValueCoder().decode(Settings.self, from: bytes) } catch is CodingFailure {
            } catch is DecodingError {}
            do { _ = try CodedValue(decoding: ValueEnvelope(decoding: bytes)).json() } catch is CodingFailure {}
        }
    }

    @Test("the UTF-8 check agrees with the standard library")
    func text8() {
        var generator = SplitMix64(seed: 6)
        let scalars: [UInt8] = [
            0x00, 0x41, 0x7F, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xA0, 0x9F, 0xED, 0xEE, 0xEF, 0xF0, 0x90, 0x8F,
            0xF4, 0xF5, 0xFF,
        ]
        for _ in 0..<TestDepth.limit(5_000, deep: 50_000) {
            let bytes = (0..<Int.random(in: 0..<12, using: &generator)).map { _ in
                scalars[Int.random(in: 0..<scalars.count, using: &generator)]
            }
            let isValid = UTF8Check.isValid(bytes.span, 0..<bytes.count)
            #expect(isValid == (String(validating: bytes, as: UTF8.self) != nil), "\(bytes.hex)")
        }
    }
}
