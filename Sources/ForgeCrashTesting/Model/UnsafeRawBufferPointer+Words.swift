/// Loops over the words of blocks that are fast in debug builds too.
///
/// Debug builds inline the subscript of a typed pointer, but not the generic loads of a raw buffer, and the crash
/// explorer spends most of its time on the content of blocks.
extension UnsafeRawBufferPointer {
    /// Calls `body` with the whole words of the buffer, copied if they are not aligned.
    func withWords<Result>(_ body: (UnsafePointer<UInt64>) -> Result) -> Result {
        let wordCount = count / 8
        if let baseAddress, UInt(bitPattern: baseAddress) % 8 == 0 {
            return baseAddress.withMemoryRebound(to: UInt64.self, capacity: wordCount, body)
        }
        return withUnsafeTemporaryAllocation(of: UInt64.self, capacity: wordCount + 1) { copy in
            UnsafeMutableRawBufferPointer(copy)
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: self[..<(8 * wordCount)]))
            return body(UnsafePointer(copy.baseAddress.unsafelyUnwrapped))
        }
    }

    /// A range of whole words outside which two buffers of equal length, a multiple of 8, are equal.
    func difference(from other: UnsafeRawBufferPointer) -> Range<Int> {
        withWords { words in
            other.withWords { otherWords in
                var start = 0
                var end = count / 8
                while start < end, words[start] == otherWords[start] { start = start &+ 1 }
                while end > start, words[end &- 1] == otherWords[end &- 1] { end = end &- 1 }
                return 8 * start..<8 * end
            }
        }
    }
}
