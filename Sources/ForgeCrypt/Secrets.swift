import CForgeFileSystem
import Crypto
import ForgeCoding

// Memory safety: The memory of secret bytes is allocated and freed by its object alone, written only by its
// initialiser and `deinit`, and read only in its lifetime.

/// The validated name of a secret, compared by bytes.
struct SecretName: Hashable, Sendable {
    /// The UTF-8 of the name, 1 to 1,024 bytes without a NUL.
    let bytes: [UInt8]

    static let maximumLength = 1024

    /// Validates a name from a caller.
    init(_ name: String, _ operation: CryptError.Operation) throws(CryptError) {
        guard let checked = SecretName(bytes: Array(name.utf8)) else {
            let detail = name.isEmpty ? "empty" : name.utf8.count > Self.maximumLength ? "too long" : "contains a NUL"
            throw CryptError(.invalidKey, operation, key: name, detail: detail)
        }
        self = checked
    }

    /// Validates bytes from outside; nil unless the other initialiser would accept them.
    init?(bytes: [UInt8]) {
        guard (1...Self.maximumLength).contains(bytes.count), !bytes.contains(0),
            String(validating: bytes, as: UTF8.self) != nil
        else { return nil }
        self.bytes = bytes
    }

    /// The name as text; the bytes are UTF-8, so nothing is replaced.
    var string: String { String(decoding: bytes, as: UTF8.self) }
}

extension SecretName: Comparable {
    static func < (left: SecretName, right: SecretName) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}

/// The conversion between typed values and the bytes that stores seal, the same for every store, including errors.
enum SecretCodec {
    /// The maximum size of an encoded value, 16 MiB.
    static let maximumSizeInBytes = 16 << 20

    /// Encodes a value; the caller must erase the bytes after sealing them.
    static func encode<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) -> [UInt8] {
        var coder = ValueCoder()
        coder.maximumSize = maximumSizeInBytes
        let bytes: [UInt8]
        do {
            bytes = try coder.encode(value)
        } catch {
            let failure = CodingFailure(.encode, redacting: error)
            if case .tooLarge = failure.reason { throw tooLarge(key.key) }
            throw CryptError(.unencodable, .set, key: key.key, underlying: failure)
        }
        try check(bytes, named: key.key)
        return bytes
    }

    /// Refuses a value that is too long to store.
    static func check(_ bytes: [UInt8], named name: String) throws(CryptError) {
        guard bytes.count <= maximumSizeInBytes else { throw tooLarge(name) }
    }

    private static func tooLarge(_ name: String) -> CryptError {
        CryptError(.tooLarge, .set, key: name, detail: "the encoded value exceeds 16 MiB")
    }

    /// Decodes a value and erases the bytes.
    static func decode<Value>(_ encoded: consuming [UInt8], for key: CryptKey<Value>) throws(CryptError) -> Value {
        var bytes = encoded
        defer { erase(&bytes) }
        do {
            return try ValueCoder().decode(Value.self, from: bytes)
        } catch {
            throw CryptError(.undecodable, .get, key: key.key, underlying: CodingFailure(.decode, redacting: error))
        }
    }
}

/// Secret bytes in a separate buffer, which `deinit` overwrites with zeros and reflection does not show.
///
/// Copies made by callers or by the encoder, and pages that the operating system has swapped out, are not erased.
@safe
final class SecretBytes: @unchecked Sendable {
    private let memory: UnsafeMutableRawBufferPointer

    /// Copies the bytes and erases the array, unless its buffer is shared.
    init(_ bytes: consuming [UInt8]) {
        var bytes = bytes
        unsafe memory = .allocate(byteCount: bytes.count, alignment: 1)
        unsafe memory.copyBytes(from: bytes)
        erase(&bytes)
    }

    /// A copy, which the caller must erase.
    var bytes: [UInt8] { unsafe [UInt8](memory) }

    deinit {
        unsafe secureErase(memory)
        unsafe memory.deallocate()
    }
}

extension SecretBytes: CustomReflectable, CustomStringConvertible {
    var customMirror: Mirror { Mirror(self, children: []) }

    var description: String { "SecretBytes" }
}

/// Writes zeros that the optimiser must not remove.
func secureErase(_ memory: UnsafeMutableRawBufferPointer) {
    unsafe forge_erase(memory.baseAddress, memory.count)
}

/// Overwrites an array with zeros in place, if no other variable shares its memory.
func erase(_ bytes: inout [UInt8]) {
    unsafe bytes.withUnsafeMutableBytes { unsafe secureErase($0) }
    bytes = []
}

extension [UInt8] {
    /// Appends the bytes of a key.
    mutating func append(_ key: SymmetricKey) {
        unsafe key.withUnsafeBytes { unsafe append(contentsOf: $0) }
    }
}
