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
