/// A log and an index that version 1 wrote, and what each of their bytes says; never to be changed.
enum GoldenLog {
    static let log = bytes(of: logText)
    static let index = bytes(of: indexText)

    private static let logText = """
        """

    private static let indexText = """
        """

    /// The bytes of a text: of each line what stands before its comment, as hexadecimal digits, or as `00*12`, a byte
    /// that is repeated.
    private static func bytes(of text: String) -> [UInt8] {
        text.split(separator: "\n").flatMap { line -> [UInt8] in
            let digits = line.prefix { $0 != " " }.split(separator: "*")
            let single = Array((digits.first ?? "").utf8)
            let bytes = stride(from: 0, to: single.count - 1, by: 2).compactMap {
                UInt8(String(decoding: single[$0...($0 + 1)], as: UTF8.self), radix: 16)
            }
            let count = digits.count > 1 ? Int(digits[1]) ?? 0 : 1
            return Array(repeatElement(bytes, count: count).joined())
        }
    }

    /// The bytes as hexadecimal digits, for the message of a test that fails.
    static func text(of bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
