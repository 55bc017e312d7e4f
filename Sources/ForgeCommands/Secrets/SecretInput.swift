import Foundation
import SystemPackage

/// A secret on standard input.
enum SecretInput {
    /// The longest secret, as long as a value of a vault may be.
    private static let limit = 16 << 20

    /// Reads the secret: one line without echo from a terminal, all of standard input from anything else.
    ///
    /// One line feed at the end is removed.
    ///
    /// - Returns: The secret, which is not empty.
    /// - Throws: ``CommandFailure`` for input that is empty, longer than 16 MiB or not UTF-8, for a line that a
    ///   terminal may have cut short, and for a failed read.
    static func read() throws(CommandFailure) -> String {
        var bytes = isatty(STDIN_FILENO) == 1 ? try readHiddenLine() : try StandardInput.readToEnd(limit: limit)
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        let content = bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes
        guard !content.isEmpty else { throw CommandFailure("there is no secret on standard input") }
        guard let text = String(validating: content, as: UTF8.self) else {
            throw CommandFailure("the secret on standard input is not UTF-8 text; encode it, with base64 for example")
        }
        return text
    }

    private static func readHiddenLine() throws(CommandFailure) -> Data {
        let echo = try TerminalEcho.turnOff()
        defer { echo.restore() }
        StandardError.write("Secret (not shown): ")
        return try StandardInput.readLine()
    }
}
