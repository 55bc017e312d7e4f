import Foundation
import SystemPackage

/// The lines of a file, read in pieces.
struct LineReader {
    /// The longest value in base64, and its key.
    private static let limit = 512 << 20

    private let descriptor: FileDescriptor
    private var buffer: [UInt8] = []
    private var start = 0
    private var isAtEnd = false

    init(_ descriptor: FileDescriptor) {
        self.descriptor = descriptor
    }

    /// The next line without its end; nil after the last.
    ///
    /// - Throws: ``CommandFailure`` for a failed read, or a line of more than 512 MiB.
    mutating func next() throws(CommandFailure) -> ArraySlice<UInt8>? {
        var searched = start
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { start = end + 1 }
                return buffer[start..<end]
            }
            guard !isAtEnd else {
                defer { start = buffer.count }
                return start < buffer.count ? buffer[start...] : nil
            }
            buffer.removeFirst(start)
            start = 0
            searched = buffer.count
            guard buffer.count <= Self.limit else { throw CommandFailure("a line is longer than 512 MiB") }
            try fill()
        }
    }

    private mutating func fill() throws(CommandFailure) {
        let size = max(1 << 16, buffer.count)
        do {
            let chunk = try [UInt8](unsafeUninitializedCapacity: size) { bytes, count in
                count = try descriptor.read(into: UnsafeMutableRawBufferPointer(bytes))
            }
            isAtEnd = chunk.isEmpty
            buffer += chunk
        } catch let error as Errno {
            throw CommandFailure("cannot read the lines: \(error.text)")
        } catch {
            throw CommandFailure("cannot read the lines: \(error)")
        }
    }
}
