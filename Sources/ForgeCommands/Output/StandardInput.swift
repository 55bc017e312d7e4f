import Foundation
import SystemPackage

/// Standard input, read without a buffer of the C library.
enum StandardInput {
    /// Reads all bytes.
    ///
    /// - Parameter limit: The most bytes to accept; nil for no limit.
    /// - Returns: The bytes up to the end of the input.
    /// - Throws: ``CommandFailure`` with the error of the system, or for more bytes than the limit.
    static func readToEnd(limit: Int? = nil) throws(CommandFailure) -> Data {
        try read(limit: limit) { _ in false }
    }

    /// Reads one line, with the line feed that ends it, from a terminal.
    static func readLine(limit: Int) throws(CommandFailure) -> Data {
        // A terminal in canonical mode gives at most one line with each call.
        try read(limit: limit) { $0.last == UInt8(ascii: "\n") }
    }

    private static func read(limit: Int?, until isComplete: (Data) -> Bool) throws(CommandFailure) -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count: Int
            do {
                count = try buffer.withUnsafeMutableBytes { try FileDescriptor.standardInput.read(into: $0) }
            } catch let error as Errno {
                throw CommandFailure("cannot read standard input: \(error.text)")
            } catch {
                throw CommandFailure("cannot read standard input: \(error)")
            }
            if count == 0 { return data }
            data.append(contentsOf: buffer[..<count])
            if let limit, data.count > limit {
                throw CommandFailure("standard input is longer than \(readableSize(limit))")
            }
            if isComplete(data) { return data }
        }
    }
}
