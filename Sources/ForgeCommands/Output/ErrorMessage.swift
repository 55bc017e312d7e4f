import Foundation

/// The form of an error on standard error: a line of text, or a JSON object if the arguments contain `--json`.
enum ErrorMessage {
    private struct Object: Encodable {
        let code: Int32
        let kind: String
        let message: String
    }

    /// Whether the arguments of this process ask for JSON; known even if the arguments cannot be parsed.
    static let isJSON = CommandLine.arguments.dropFirst().prefix { $0 != "--" }.contains("--json")

    /// Writes the message of an error.
    ///
    /// - Parameters:
    ///   - message: The text, which may begin with `Error: `; of wrong usage it has several lines.
    ///   - code: The exit status.
    static func write(_ message: String, code: Int32) {
        StandardError.write(isJSON ? json(message, code: code) : text(message, code: code))
    }

    static func text(_ message: String, code: Int32) -> String {
        // Only the usage message has several lines.
        let isUsage = code == ExitStatus.usage.rawValue
        return message.escapingControls(except: isUsage ? ["\n"] : []) + "\n"
    }

    static func json(_ message: String, code: Int32) -> String {
        let kind = ExitStatus(rawValue: code)?.word ?? "failure"
        let prefix = "Error: "
        let text = message.hasPrefix(prefix) ? String(message.dropFirst(prefix.count)) : message
        do {
            return try JSONText.line(Object(code: code, kind: kind, message: text))
        } catch {
            return "{\"code\":\(code),\"kind\":\"\(kind)\"}\n"
        }
    }
}
