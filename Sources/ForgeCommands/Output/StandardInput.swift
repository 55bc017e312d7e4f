import Foundation
import SystemPackage

/// Standard input, read without a buffer of the C library.
enum StandardInput {
    /// Reads all bytes.
    ///
    /// - Parameter limit: The maximum number of bytes.
    /// - Returns: The bytes up to the end of the input.
    /// - Throws: ``CommandFailure`` with the error of the system, or for more bytes than the limit.
    static func readToEnd(limit: Int) throws(CommandFailure) -> Data {
        try read(limit: limit) { _ in false }
    }

    /// Reads what is available, up to 64 KiB; returns nil at the end of the input.
    static func readChunk() throws(CommandFailure) -> Data? {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        do {
            let count = try buffer.withUnsafeMutableBytes { try FileDescriptor.standardInput.read(into: $0) }
            return count == 0 ? nil : Data(buffer[..<count])
        } catch let error as Errno {
            throw CommandFailure("cannot read standard input: \(error.text)")
        } catch {
            throw CommandFailure("cannot read standard input: \(error)")
        }
    }

    /// Reads one line, with the line feed that ends it, from a terminal in canonical mode.
    ///
    /// - Throws: ``CommandFailure`` if a read fails, or returns as many bytes as the terminal buffers of a line: it
    ///   discards the rest without an error.
    static func readLine() throws(CommandFailure) -> Data {
        // A read returns at most one line, and less if the user has pressed control-D within it.
        var lengthBefore = 0
        return try read(limit: nil) { (line) throws(CommandFailure) in
            let isComplete = line.last == UInt8(ascii: "\n")
            let length = line.count - (isComplete ? 1 : 0)
            guard length - lengthBefore <= longestLine else {
                throw CommandFailure(
                    "a terminal passes no more than \(longestLine) bytes of a line for certain; use a pipe or a file")
            }
            lengthBefore = length
            return isComplete
        }
    }

    #if os(Linux)
    /// The longest line, without its end, that is guaranteed to be complete: `N_TTY` buffers 4,095 bytes
    /// (`termios(3)`).
    private static let longestLine = 4094
    #else
    /// The longest line, without its end, that is guaranteed to be complete: Darwin's `MAX_CANON` is 1,024.
    private static let longestLine = 1022
    #endif

    private static func read(
        limit: Int?, until isComplete: (Data) throws(CommandFailure) -> Bool
    ) throws(CommandFailure) -> Data {
        var data = Data()
        while let chunk = try readChunk() {
            data.append(chunk)
            if let limit, data.count > limit {
                throw CommandFailure("standard input is longer than \(readableSize(limit))")
            }
            if try isComplete(data) { return data }
        }
        return data
    }
}
