import ForgeCoding

/// A typed value ⇄ the bytes that stores seal: the same for every store, errors included.
enum SecretCodec {
    /// The longest encoded value, 16 MiB.
    static let maximumSizeInBytes = 16 << 20

    /// Encodes a value; the caller erases the bytes when it has sealed them.
    static func encode<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) -> [UInt8] {
        let bytes: [UInt8]
        do {
            bytes = try ValueCoder().encode(value)
        } catch {
            throw CryptError(.unencodable, .set, key: key.key, underlying: CodingFailure(error))
        }
        try check(bytes, named: key.key)
        return bytes
    }

    /// Refuses a value that is too long to store.
    static func check(_ bytes: [UInt8], named name: String) throws(CryptError) {
        guard bytes.count <= maximumSizeInBytes else {
            throw CryptError(.tooLarge, .set, key: name, detail: "the encoded value exceeds 16 MiB")
        }
    }

    /// Decodes a value and erases the bytes.
    static func decode<Value>(_ encoded: consuming [UInt8], for key: CryptKey<Value>) throws(CryptError) -> Value {
        var bytes = encoded
        defer { erase(&bytes) }
        do {
            return try ValueCoder().decode(Value.self, from: bytes)
        } catch {
            throw CryptError(.undecodable, .get, key: key.key, underlying: CodingFailure(error))
        }
    }
}

/// What an encoder or decoder threw, reduced to what cannot quote the value: its text, its coding path and its
/// associated values may, and so may those of an error that the value's own type threw.
struct CodingFailure: Error, CustomStringConvertible {
    let description: String

    init(_ error: any Error) {
        description =
            switch error {
            case DecodingError.typeMismatch: "type mismatch"
            case DecodingError.valueNotFound: "a value is missing"
            case DecodingError.keyNotFound: "a coding key is missing"
            case DecodingError.dataCorrupted: "not valid data for the type"
            case EncodingError.invalidValue: "a value that has no encoding"
            default: "an error of type \(String(describing: type(of: error)))"
            }
    }
}
