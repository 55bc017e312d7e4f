/// Bytes in memory of their own that is overwritten when the last reference goes, and that no reflection shows.
///
/// What is not promised: copies that callers make, that the encoder made on its way, or that the operating system put
/// into its swap are out of reach.
final class SecretBytes: @unchecked Sendable {
    // Sendable, because the memory is written by the initialiser alone until its last reference goes.
    private let memory: UnsafeMutableRawBufferPointer

    /// Takes a copy of the bytes and erases the array, unless its buffer is shared.
    init(_ bytes: consuming [UInt8]) {
        var bytes = bytes
        memory = .allocate(byteCount: bytes.count, alignment: 1)
        memory.copyBytes(from: bytes)
        erase(&bytes)
    }

    /// A copy, which the caller erases.
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
