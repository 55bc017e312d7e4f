/// The name of a secret and the type of its value.
///
/// ```swift
/// enum AuthKeys {
///     static let accessToken = CryptKey<String>(key: "auth.access", accessibility: .afterFirstUnlock)
/// }
/// ```
///
/// The name alone identifies the secret: two keys with one name are the same secret, whatever their types and
/// accessibilities. Names are compared byte by byte (`é` composed and decomposed are two names). A name is not empty,
/// contains no NUL and has at most 1,024 bytes of UTF-8; stores refuse other names with ``CryptError/Code/invalidKey``.
public struct CryptKey<Value: Codable & Sendable>: Sendable {
    /// The name of the secret.
    public let key: String

    /// When the value may be read, for stores that the operating system protects; every store records it.
    public let accessibility: CryptAccessibility

    /// Creates a key.
    ///
    /// - Parameters:
    ///   - key: The name; it appears in errors, so it should not itself be secret.
    ///   - accessibility: When the value may be read; it takes effect when the value is next set.
    public init(key: String, accessibility: CryptAccessibility = .whenUnlocked) {
        self.key = key
        self.accessibility = accessibility
    }
}
