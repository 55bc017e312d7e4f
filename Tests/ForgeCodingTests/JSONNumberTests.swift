import Foundation
import Testing

@testable import ForgeCoding

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
            "3.14159265358979323846264338327950288419716939937510", "1.00000000000000000001e300", "1e-400",
            "1e-99999999999999999999", "340282366920938463463374607431768211456.5",
            "0." + String(repeating: "0", count: 127) + "123456789012345678901",
        ])
    func rounded(_ text: String) throws {
        #expect(try CodedValue(json: text) == .double(try #require(Double(text))))
    }

    @Test("every Double keeps its type and its bits")
    func roundTrips() throws {
        var generator = SeededGenerator(seed: 7)
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
