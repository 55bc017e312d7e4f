import ForgeStorageTesting
import Foundation
import Testing

@testable import ForgeCoding

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
    }

    @Test("a relative URL becomes the absolute one")
    func relativeURL() throws {
        let base = try #require(URL(string: "https://example.com/a/"))
        let relative = try #require(URL(string: "b?c", relativeTo: base))
        let coder = ValueCoder()
        #expect(try coder.decode(URL.self, from: coder.encode(relative)) == relative.absoluteURL)
    }
}
