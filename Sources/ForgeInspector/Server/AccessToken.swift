#if Inspector
import Crypto

/// The secret that a page sends with every request: 256 random bits in base64url.
///
/// It is in the fragment of the page's URL only, which browsers send to no server and in no `Referer`.
struct AccessToken: Sendable {
    let text: String

    /// A new random token.
    init() {
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        text = Self.base64URL(bytes)
    }

    /// Whether an `Authorization` header contains the token; takes the same time for every header.
    func matches(_ authorization: String?) -> Bool {
        guard let authorization, authorization.hasPrefix("Bearer ") else { return false }
        // Digests of equal length: neither the position of a difference nor the length shows in the time.
        let given = SHA256.hash(data: Array(authorization.utf8.dropFirst("Bearer ".utf8.count)))
        let own = SHA256.hash(data: Array(text.utf8))
        return zip(given, own).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private static func base64URL(_ bytes: [UInt8]) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var (text, bits, count): ([UInt8], UInt32, UInt32) = ([], 0, 0)
        for byte in bytes {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 6 {
                count -= 6
                text.append(alphabet[Int(bits >> count & 63)])
            }
            bits &= (1 << count) - 1
        }
        if count > 0 { text.append(alphabet[Int(bits << (6 - count) & 63)]) }
        return String(decoding: text, as: UTF8.self)
    }
}
#endif
