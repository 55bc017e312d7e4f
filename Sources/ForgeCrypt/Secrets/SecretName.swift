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
