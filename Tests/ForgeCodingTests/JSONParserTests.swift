import ForgeStorageTesting
import Foundation
import Testing

@testable import ForgeCoding

@Suite("Parsing of JSON text") struct JSONParserTests {
    @Test(
        "the error for text that is not JSON says what was expected, and where",
        arguments: [
            ("x", "expected a value at byte 0"), ("[,1]", "expected a value at byte 1"),
            ("{\"a\":}", "expected a value at byte 5"), ("-x", "expected a digit at byte 1"),
            ("1.x", "expected a digit at byte 2"), ("1ex", "expected a digit at byte 2"),
            ("{1:2}", "expected a key at byte 1"), ("{\"a\" 1}", "expected a colon at byte 5"),
            ("[1 2]", "expected a comma or a closing bracket at byte 3"),
            ("{\"a\":1 2}", "expected a comma or a closing brace at byte 7"),
            (#""\u00g0""#, "expected a hexadecimal digit at byte 5"), ("nulL", "an invalid literal at byte 0"),
            ("{\"a\":1,\"a\":2}", "a duplicate key at byte 11"),
        ])
    func failures(_ text: String, _ reason: String) {
        #expect(throws: CodingFailure(.decode, .corrupted("JSON: \(reason)"))) { try CodedValue(json: text) }
    }

    @Test("text that ends too early is truncated", arguments: ["", " ", "-", "[1,", "{\"a\":", #""\u12"#])
    func truncated(_ text: String) {
        #expect(throws: CodingFailure(.decode, .truncated)) { try CodedValue(json: text) }
    }

    @Test("members of an object are parsed only from an object")
    func noObject() {
        #expect(throws: CodingFailure(.decode, .corrupted("JSON: expected an object at byte 1"))) {
            try JSONMembers(" []", levels: 64)
        }
    }

    @Test("canonically equivalent keys are different keys, in text and in bytes")
    func equivalentKeys() throws {
        let names = ["\u{E9}", "e\u{301}"]
        try #require(names[0] == names[1])
        let tree = CodedValue.map([.init(.string(names[0]), .integer(1)), .init(.string(names[1]), .integer(2))])
        let text = try tree.json()
        for parsed in [try CodedValue(json: text), try CodedValue(decoding: tree.encoded())] {
            #expect(names.map { parsed[$0] } == [.integer(1), .integer(2)])
            #expect(try parsed.json() == text)
        }
        #expect(try JSONMembers(text, levels: 64).members.map(\.name.utf8.count) == [2, 3])
    }
}

@Suite("Numbers in JSON text") struct JSONNumberTests {
    @Test(
        "a number that a Double would change is a decimal",
        arguments: [
            "99999999999999999.99", "-99999999999999999.99", "0.12345678901234567890123456789",
            "12345678901234567890.0", "-9007199254740993.0", "9007199254740993e0", "100000000000000000.01e2",
            "340282366920938463463374607431768211455e-128", "340282366920938463463374607431768211455e127",
            "340282366920938463463374607431768211455" + String(repeating: "0", count: 127),
            "-1234567890123456789012.5E+100", "0.0000000000000000000000000000000000000001234567890123456789",
        ])
    func decimals(_ text: String) throws {
        let tree = try CodedValue(json: text)
        let decimal = try BinaryDecoder().decode(Decimal.self, from: tree.encoded())
        #expect(decimal == Decimal(string: text))
        guard case .tagged(Tag.decimalFraction, _) = tree else {
            Issue.record("\(tree)")
            return
        }
        let again = try CodedValue(json: tree.json())
        #expect(try BinaryDecoder().decode(Decimal.self, from: again.encoded()) == decimal)
        #expect(try BinaryDecoder().decode(Double.self, from: tree.encoded()) == Double(text))
        guard let float = Float(text), float.isFinite else { return }
        #expect(try BinaryDecoder().decode(Float.self, from: tree.encoded()) == float)
    }

    @Test(
        "a number whose shortest text has the same value is a Double",
        arguments: [
            "0.1", "1e2", "1E-2", "0.10", "100.000e-1", "1.7976931348623157e308", "5e-324", "-0.0", "0e99999", "1e22",
            "0.000000000000000000000000000000001", "123456789012345680.0", "3.4028235e+38", "2.2250738585072014E-308",
        ])
    func doubles(_ text: String) throws {
        guard case .double(let value) = try CodedValue(json: text) else {
            Issue.record("not a double")
            return
        }
        #expect(value == Double(text))
    }

    @Test(
        "a number that neither type holds is rounded to a Double",
        arguments: [
            "3.14159265358979323846264338327950288419716939937510", "1.00000000000000000001e300",
            "340282366920938463463374607431768211456.5",
            "0." + String(repeating: "0", count: 127) + "123456789012345678901",
        ])
    func rounded(_ text: String) throws {
        #expect(try CodedValue(json: text) == .double(try #require(Double(text))))
    }

    /// A number of one to forty digits, with or without a point and an exponent.
    static func randomNumber(_ generator: inout SplitMix64) -> String {
        func digits(_ count: Int) -> String {
            String((0..<count).map { _ in Character(String(Int.random(in: 0...9, using: &generator))) })
        }
        var text = Bool.random(using: &generator) ? "-" : ""
        text += Bool.random(using: &generator) ? "0" : "\(Int.random(in: 1...9, using: &generator))"
        if !text.hasSuffix("0") { text += digits(Int.random(in: 0...39, using: &generator)) }
        if Bool.random(using: &generator) { text += "." + digits(Int.random(in: 1...39, using: &generator)) }
        if Bool.random(using: &generator) {
            text += ["e", "E", "e+", "e-"].randomElement(using: &generator) ?? "e"
            text += "\(Int.random(in: 0...260, using: &generator))"
        }
        return text
    }

    @Test("a number comes back from its own text as the same kind and value", arguments: 1...4 as ClosedRange<UInt64>)
    func stable(_ seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        for _ in 0..<1_000 {
            let text = Self.randomNumber(&generator)
            let tree = try CodedValue(json: text)
            #expect(try CodedValue(json: tree.json()) == tree, "\(text)")
            let bytes = try tree.encoded()
            switch tree {
            case .integer, .unsigned, .tagged(Tag.bignum, _), .tagged(Tag.negativeBignum, _):
                #expect(try BinaryDecoder().decode(Decimal.self, from: bytes).description == tree.json(), "\(text)")
            case .tagged(Tag.decimalFraction, _):
                let decimal = try BinaryDecoder().decode(Decimal.self, from: bytes)
                #expect(DecimalNumeral(decimal.description) == DecimalNumeral(text), "\(text)")
                #expect(try BinaryDecoder().decode(Double.self, from: bytes) == Double(text), "\(text)")
            case .double(let value): #expect(value == Double(text), "\(text)")
            default: Issue.record("\(text) is \(tree)")
            }
        }
    }

    @Test("every Double keeps its type and its bits")
    func roundTrips() throws {
        var generator = SplitMix64(seed: 7)
        var changed: [Double] = []
        for _ in 0..<2_000 {
            let value = Double(bitPattern: generator.next())
            guard value.isFinite else { continue }
            let tree = CodedValue.double(value)
            if try CodedValue(json: tree.json()) != tree { changed.append(value) }
        }
        #expect(changed.isEmpty)
    }
}
