public import Crypto
import Foundation

/// Keys of vaults as text, for environment variables and password managers.
public enum VaultKey {
    /// The length of a vault's key: 256 bits.
    public static let sizeInBytes = 32

    /// A new random key.
    public static func random() -> SymmetricKey {
        SymmetricKey(size: .bits256)
    }

    /// Decodes a key from 64 hexadecimal digits; surrounding white space is ignored.
    ///
    /// - Throws: ``CryptError`` with `.invalidKeyMaterial`, which does not quote the text.
    public static func decode(hexadecimal text: String) throws(CryptError) -> SymmetricKey {
        var bytes: [UInt8] = []
        defer { erase(&bytes) }
        var high: UInt8?
        for character in text.trimmingCharacters(in: .whitespacesAndNewlines).utf8 {
            guard let digit = digit(character) else { throw refusal("a character is not a hexadecimal digit") }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        guard high == nil else { throw refusal("an odd number of digits") }
        return try key(bytes)
    }

    /// Decodes a key from base 64 (RFC 4648, padded); surrounding white space is ignored.
    ///
    /// - Throws: ``CryptError`` with `.invalidKeyMaterial`, which does not quote the text.
    public static func decode(base64 text: String) throws(CryptError) -> SymmetricKey {
        guard let data = Data(base64Encoded: text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw refusal("no base 64")
        }
        return try key([UInt8](data))
    }

    private static func key(_ bytes: [UInt8]) throws(CryptError) -> SymmetricKey {
        guard bytes.count == sizeInBytes else { throw refusal("not 256 bits") }
        return SymmetricKey(data: bytes)
    }

    private static func refusal(_ detail: String) -> CryptError {
        CryptError(.invalidKeyMaterial, .importKey, detail: detail)
    }

    private static func digit(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
