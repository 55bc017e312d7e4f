import ArgumentParser
import ForgeCoding
import ForgeStorageTesting
import Foundation

/// Shows what ForgeCoding makes of numbers, values and texts, for comparison with other programs.
///
/// `Lab/check-coding.py` makes the inputs and compares the output.
struct CodingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coding", abstract: "Show how values are encoded and JSON is read, for other programs to check.",
        subcommands: [Numbers.self, Values.self, Texts.self])

    /// Reads a JSON number in each line of standard input.
    struct Numbers: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read a JSON number in each line, and print its kind and value.")

        func run() {
            while let line = readLine() {
                do {
                    print(try Self.described(line))
                } catch {
                    print("error \(error)")
                }
            }
        }

        /// The kind of number, its digits or bits, for a decimal those of its nearest `Double` too, and whether its own
        /// text is read back as the same number.
        private static func described(_ line: String) throws -> String {
            let tree = try CodedValue(json: line)
            let payload = try tree.encoded()
            let isStable = try CodedValue(json: tree.json()) == tree ? "stable" : "unstable"
            switch tree {
            case .double(let value): return "double \(value.bitPattern.hexadecimal) \(isStable)"
            case .integer, .unsigned, .tagged(2, _), .tagged(3, _): return "integer \(try tree.json()) \(isStable)"
            default:
                let decimal = try BinaryDecoder().decode(Decimal.self, from: payload)
                let double = try BinaryDecoder().decode(Double.self, from: payload)
                return "decimal \(decimal) \(double.bitPattern.hexadecimal) \(isStable)"
            }
        }
    }

    /// Prints the encoded form and the content of random values.
    struct Values: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Encode random values; print their bytes, and what must be read from them.")

        @Option(help: "The seed of the values.") var seed: UInt64 = 1
        @Option(help: "The number of values.") var count = 20_000

        func run() throws {
            var generator = SplitMix64(seed: seed)
            for _ in 0..<count {
                let value = CodingSample.random(&generator, levels: 2)
                print(try BinaryEncoder().encode(value).hexadecimal, value.expected, separator: "\t")
            }
        }
    }

    /// Parses files as JSON.
    struct Texts: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Parse files as JSON; print the name and the outcome.")

        @Argument(help: "The files.") var files: [String]

        func run() throws {
            for file in files {
                let data = try Data(contentsOf: URL(fileURLWithPath: file))
                let name = URL(fileURLWithPath: file).lastPathComponent
                do {
                    guard let text = String(validating: data, as: UTF8.self) else {
                        throw CodingFailure(.decode, .corrupted("the text is not UTF-8"))
                    }
                    _ = try CodedValue(json: text)
                    print("accepted \(name)")
                } catch {
                    print("refused \(name): \(error)")
                }
            }
        }
    }
}

extension UInt64 {
    fileprivate var hexadecimal: String { String(self, radix: 16) }
}

extension Collection<UInt8> {
    var hexadecimal: String { map { String(UInt16($0) | 0x100, radix: 16).dropFirst() }.joined() }
}

/// A value of any kind that the format has, with what another program must read from its bytes.
indirect enum CodingSample: Encodable {
    case null
    case value(any Encodable, expected: String)
    case list([CodingSample])
    case map([(key: String, value: CodingSample)])

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .null:
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        case .value(let value, _):
            var container = encoder.singleValueContainer()
            try container.encode(value)
        case .list(let elements):
            var container = encoder.unkeyedContainer()
            for element in elements { try container.encode(element) }
        case .map(let entries):
            var container = encoder.container(keyedBy: Key.self)
            for entry in entries { try container.encode(entry.value, forKey: Key(stringValue: entry.key)) }
        }
    }

    /// The kind of each item, with its digits, bits or bytes in hexadecimal.
    var expected: String {
        switch self {
        case .null: "null"
        case .value(_, let expected): expected
        case .list(let elements): "[" + elements.map(\.expected).joined(separator: ",") + "]"
        case .map(let entries):
            "{" + entries.map { "\(Self.text($0.key)):\($0.value.expected)" }.joined(separator: ",") + "}"
        }
    }

    private static func text(_ text: String) -> String { "text \(Array(text.utf8).hexadecimal)" }

    private static func float(_ value: Double) -> String {
        "float \(String(value.isNaN ? Double.nan.bitPattern : value.bitPattern, radix: 16))"
    }
}

// MARK: Random values

extension CodingSample {
    /// A list or map, or a list around a single value.
    static func random(_ generator: inout SplitMix64, levels: Int) -> CodingSample {
        let value = any(&generator, levels)
        switch value {
        case .list, .map: return value
        case .null, .value: return .list([value])
        }
    }

    private static func any(_ generator: inout SplitMix64, _ levels: Int) -> CodingSample {
        switch Int.random(in: 0..<(levels > 0 ? 8 : 6), using: &generator) {
        case 0: return Bool.random(using: &generator) ? .null : bool(.random(using: &generator))
        case 1: return integer(&generator)
        case 2: return floatingPoint(&generator)
        case 3: return bytes(&generator)
        case 4: return tagged(&generator)
        case 5: return array(&generator)
        case 6:
            let count = Int.random(in: 0...30, using: &generator)
            return .list((0..<count).map { _ in any(&generator, levels - 1) })
        default:
            var names: Set<[UInt8]> = []
            var entries: [(key: String, value: CodingSample)] = []
            for _ in 0..<Int.random(in: 0...30, using: &generator) {
                let name = string(&generator)
                guard names.insert(Array(name.utf8)).inserted else { continue }
                entries.append((name, any(&generator, levels - 1)))
            }
            return .map(entries)
        }
    }

    private static func bool(_ value: Bool) -> CodingSample { .value(value, expected: "bool \(value)") }

    private static func number(_ value: some Encodable & BinaryInteger) -> CodingSample {
        .value(value, expected: "int \(value)")
    }

    private static func integer(_ generator: inout SplitMix64) -> CodingSample {
        let bits = generator.anyLength()
        let wide = UInt128(bits) << 64 | UInt128(generator.next())
        return switch Int.random(in: 0..<8, using: &generator) {
        case 0: number(Int8(truncatingIfNeeded: bits))
        case 1: number(UInt16(truncatingIfNeeded: bits))
        case 2: number(Int32(truncatingIfNeeded: bits))
        case 3: number(Int64(truncatingIfNeeded: bits))
        case 4: number(~Int64(truncatingIfNeeded: bits))
        case 5: number(bits)
        case 6: number(Int128(truncatingIfNeeded: wide))
        default: number(wide)
        }
    }

    private static func floatingPoint(_ generator: inout SplitMix64) -> CodingSample {
        let bits = generator.next()
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
            let value = Double(bitPattern: bits)
            return .value(value, expected: float(value))
        case 1:
            let value = Double(bits % 1_000_000) / 8
            return .value(value, expected: float(value))
        default:
            let value = Float(bitPattern: UInt32(truncatingIfNeeded: bits))
            return .value(value, expected: float(Double(value)))
        }
    }

    private static func string(_ generator: inout SplitMix64) -> String {
        let scalars: [Unicode.Scalar] = [
            "a", "\u{E9}", "e", "\u{301}", "\u{0}", "\u{1F600}", "\u{FEFF}", "\u{4E2D}", "\n", "\"", "\u{D7FF}",
            "\u{10FFFF}",
        ]
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...40, using: &generator) {
            text.append(scalars[Int.random(in: 0..<scalars.count, using: &generator)])
        }
        return String(text)
    }

    private static func bytes(_ generator: inout SplitMix64) -> CodingSample {
        let count = Int.random(in: 0...300, using: &generator)
        let bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        let expected = "bytes \(bytes.hexadecimal)"
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: return .value(Data(bytes), expected: expected)
        case 1: return .value(bytes, expected: expected)
        default:
            let string = string(&generator)
            return .value(string, expected: text(string))
        }
    }

    private static func tagged(_ generator: inout SplitMix64) -> CodingSample {
        let bits = generator.anyLength()
        switch Int.random(in: 0..<4, using: &generator) {
        case 0:
            let divisors: [Double] = [1, 8, 3, 1_000]
            let date = Date(
                timeIntervalSinceReferenceDate: Double(bits % 20_000_000_000)
                    / divisors[Int.random(in: 0..<4, using: &generator)])
            let seconds = [date.timeIntervalSinceReferenceDate, date.timeIntervalSince1970]
            return .value(
                date, expected: "date " + seconds.map { String($0.bitPattern, radix: 16) }.joined(separator: " "))
        case 1:
            guard let url = URL(string: "https://example.com/\(bits)?a=%20#b") else { return .null }
            return .value(url, expected: "uri \(Array(url.absoluteString.utf8).hexadecimal)")
        case 2:
            let id = UUID()
            return .value(id, expected: "uuid \(id.uuidString.lowercased())")
        default:
            let digits = UInt128(bits) << 60 | UInt128(generator.anyLength())
            let exponent = Int.random(in: -128...127, using: &generator)
            guard let decimal = Decimal(string: "\(Bool.random(using: &generator) ? "-" : "")\(digits)e\(exponent)")
            else { return .null }
            return .value(decimal, expected: "decimal \(decimal)")
        }
    }

    private static func array(_ generator: inout SplitMix64) -> CodingSample {
        let count = Int.random(in: 0...30, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
            let values = (0..<count).map { _ in Int(truncatingIfNeeded: generator.anyLength()) }
            return .value(values, expected: "[" + values.map { "int \($0)" }.joined(separator: ",") + "]")
        case 1:
            let values = (0..<count / 4).map { _ in string(&generator) }
            return .value(values, expected: "[" + values.map(text).joined(separator: ",") + "]")
        default:
            let values = (0..<count / 4).map { _ in Double(bitPattern: generator.next()) }
            return .value(values, expected: "[" + values.map(float).joined(separator: ",") + "]")
        }
    }
}

extension SplitMix64 {
    /// A number of up to 64 bits; each number of bits is as probable.
    fileprivate mutating func anyLength() -> UInt64 {
        let bits = next()
        return bits >> (next() % 64)
    }
}
