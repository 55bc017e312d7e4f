/// A store of secrets: small Codable values under names, readable only by the app.
///
/// Depend on this protocol and inject ``VaultCrypt``, ``KeychainCrypt`` or, in tests, ``InMemoryCrypt``. A custom type
/// must implement the first five calls; the others have defaults that throw ``CryptError/Code/unsupported``.
///
/// Promises of every store:
/// - Every later `get`, in this process or another, returns the value that was set, until it is set again or deleted.
///   When `set` returns, a store on disk has made it durable.
/// - Present, absent, undecodable and unavailable are distinct results: nil means only that there is no such secret;
///   the others throw. A stored nil of an optional type is a value.
/// - An operation that throws has changed nothing, unless the code is ``CryptError/Code/durabilityUnknown``.
/// - No error, description, reflection or log contains a value or an encryption key.
/// - All calls are thread-safe. They block the calling thread while the storage is busy.
public protocol CryptStoring: Sendable {
    /// The value of a secret, nil if there is none.
    ///
    /// - Throws: ``CryptError``; `.undecodable` if the value is not of the key's type, in which case it is kept.
    func get<Value>(_ key: CryptKey<Value>) throws -> Value?

    /// Stores a value with the key's accessibility, replacing the previous one.
    ///
    /// - Throws: ``CryptError``; `.unencodable` or `.tooLarge` for a value that cannot be stored.
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws

    /// Removes a secret; succeeds if there is none.
    func delete<Value>(_ key: CryptKey<Value>) throws

    /// Whether there is a value of any type.
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool

    /// Removes every secret of this store.
    func deleteAll() throws

    /// Stores a value if the secret is absent; a value of any type counts as present.
    ///
    /// Atomic: of concurrent calls, also in other processes, exactly one stores its value.
    ///
    /// ```swift
    /// try store.createIfAbsent(UUID().uuidString, for: installationID)
    /// let id = try store.get(installationID)  // The same in every process.
    /// ```
    ///
    /// - Returns: Whether the value was stored.
    /// - Throws: ``CryptError``, as ``set(_:for:)``.
    @discardableResult
    func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool

    // MARK: For tools

    /// The names of all secrets, in byte order.
    func keys() throws -> [String]

    /// The encoded value of a secret, before encryption; nil if there is none.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores bytes from ``rawValue(named:)`` or from the value coder.
    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws

    /// Removes a secret by its name alone; succeeds if there is none.
    func deleteValue(named name: String) throws
}

extension CryptStoring {
    // A test followed by a set would not be atomic.
    @discardableResult
    public func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
        throw CryptError(.unsupported, .set, key: key.key)
    }

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
