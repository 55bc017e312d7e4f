import Foundation
import SystemPackage

/// Standard output, written without a buffer, so that each failed write is an error of the command.
enum StandardOutput {
    /// Writes bytes unchanged.
    static func write(_ data: Data) throws(CommandFailure) {
        do {
            _ = try FileDescriptor.standardOutput.writeAll(data)
        } catch let error as Errno {
            throw CommandFailure("cannot write to standard output: \(error.text)")
        } catch {
            throw CommandFailure("cannot write to standard output: \(error)")
        }
    }

    /// Writes text and a line feed; control characters in the text are escaped.
    static func print(_ text: String, keeping kept: Set<Unicode.Scalar> = []) throws(CommandFailure) {
        try write(Data((text.escapingControls(except: kept) + "\n").utf8))
    }

    /// Writes lines in one call.
    static func print(_ lines: [String]) throws(CommandFailure) {
        try write(Data(lines.map { $0.escapingControls() + "\n" }.joined().utf8))
    }

    /// Writes a value as JSON on a line of its own.
    static func print(line value: some Encodable) throws {
        try write(Data(try JSONText.line(value).utf8))
    }

    /// Writes JSON text and a line feed; control characters become escapes of JSON, so that the value is unchanged.
    static func print(json text: String) throws(CommandFailure) {
        try write(Data((text.escapingControlsOfJSON() + "\n").utf8))
    }
}
