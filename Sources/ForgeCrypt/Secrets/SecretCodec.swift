import ForgeCoding

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
            let failure = CodingFailure(redacting: error, .encode)
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
            throw CryptError(.undecodable, .get, key: key.key, underlying: CodingFailure(redacting: error, .decode))
        }
    }
}

extension CodingFailure {
    /// Removes everything that may come from the value: dictionary keys are part of the coding path.
    fileprivate init(redacting error: any Error, _ operation: Operation) {
        self.init(operation, describing: error)
        codingPath = ""
        if case .keyNotFound = reason { reason = .corrupted("a coding key is missing") }
    }
}
