/// Secret bytes in a separate buffer, which `deinit` overwrites with zeros and reflection does not show.
///
/// Copies made by callers or by the encoder, and pages that the operating system has swapped out, are not erased.
final class SecretBytes: @unchecked Sendable {
    // Invariant of the unchecked conformance: only the initialiser and `deinit` write to the memory.
    private let memory: UnsafeMutableRawBufferPointer

    /// Copies the bytes and erases the array, unless its buffer is shared.
    init(_ bytes: consuming [UInt8]) {
        var bytes = bytes
        memory = .allocate(byteCount: bytes.count, alignment: 1)
        memory.copyBytes(from: bytes)
        erase(&bytes)
    }

    /// A copy, which the caller must erase.
    var bytes: [UInt8] { [UInt8](memory) }

    deinit {
        secureErase(memory)
        memory.deallocate()
    }
}

extension SecretBytes: CustomReflectable, CustomStringConvertible {
    var customMirror: Mirror { Mirror(self, children: []) }

    var description: String { "SecretBytes" }
}

/// Overwrites an array with zeros in place, if no other variable shares its memory.
func erase(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes(secureErase)
    bytes = []
}
