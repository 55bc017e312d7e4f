/// A store of secrets: small Codable values under names, readable by the app only.
///
/// Depend on this protocol and inject ``VaultCrypt``, ``KeychainCrypt`` or, in tests, ``InMemoryCrypt``. A type of your
/// own needs the first five calls; the rest have defaults that throw ``CryptError/Code/unsupported``.
///
/// What every store promises:
/// - A value that was set is what any later `get` returns, in this process or another, until it is set or deleted
///   again. When `set` returns, a store on disk has made it durable.
/// - Present, absent, undecodable and unavailable are four results: nil says that there is no such secret, and nothing
///   else; all else is thrown. A stored nil of an optional type is a value.
/// - An operation that throws has changed nothing, unless the code is ``CryptError/Code/durabilityUnknown``.
/// - No error, description, reflection or log holds a value or a key of encryption.
/// - All calls may come from any thread at once. They block the calling thread for as long as the storage takes.
public protocol CryptStoring: Sendable {
    /// The value of a secret, nil if there is none.
    ///
    /// - Throws: ``CryptError``; `.undecodable` if the value is not of the key's type, in which case it stays as it is.
    func get<Value>(_ key: CryptKey<Value>) throws -> Value?

    /// Stores a value, replacing the one that was there, together with the key's accessibility.
    ///
    /// - Throws: ``CryptError``; `.unencodable` or `.tooLarge` for a value that cannot be stored.
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws

    /// Removes a secret; it is no error if there is none.
    func delete<Value>(_ key: CryptKey<Value>) throws

    /// Whether there is a value, of whatever type.
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool

    /// Removes every secret of this store.
    func deleteAll() throws

    // MARK: For tools

    /// The names of all secrets, in the order of their bytes.
    func keys() throws -> [String]

    /// The encoded value of a secret as the store keeps it, before encryption; nil if there is none.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores bytes that ``rawValue(named:)`` gave, or that the value coder made.
    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws

    /// Removes a secret by its name alone; it is no error if there is none.
    func deleteValue(named name: String) throws
}

extension CryptStoring {
    public func keys() throws -> [String] {
        throw CryptError(.unsupported, .keys)
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        throw CryptError(.unsupported, .get, key: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        throw CryptError(.unsupported, .set, key: name)
    }

    public func deleteValue(named name: String) throws {
        throw CryptError(.unsupported, .delete, key: name)
    }
}
