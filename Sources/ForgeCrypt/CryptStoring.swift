/// A store of secrets: small Codable values under names, readable only by the app.
///
/// Depend on this protocol and inject ``VaultCrypt``, ``KeychainCrypt`` or, in tests, ``InMemoryCrypt``. A custom type
/// must implement the first five calls; the others have defaults that throw ``CryptError/Code/unsupported``. The
/// published checks of `ForgeStorageTesting` verify a custom type; where it has the defaults, leave out the capability
/// `.creationIfAbsent` (`createIfAbsent`), `.keyListing` (`keys`) or `.rawValues` (`rawValue`, `setRawValue`,
/// `deleteValue`).
///
/// Promises of every store:
/// - Every later `get`, in this process or another, returns the value that was set, until it is set again or deleted.
///   When `set` returns, a store on disk has made it durable.
/// - Present, absent, undecodable and unavailable are distinct results: nil means only that there is no such secret;
///   the others throw. A stored nil of an optional type is a value, and undecodable as a type that is not optional.
/// - Every `Codable` value can be stored that `ValueCoder` of `ForgeCoding` encodes; another one, such as one nested in
///   more than 64 levels, is ``CryptError/Code/unencodable``, or ``CryptError/Code/tooLarge``. Values are kept encoded: a
///   value that is a class is not shared, and what its type does not encode is lost.
/// - Every call refuses a name that is not valid with ``CryptError/Code/invalidKey``, the reads too.
/// - An operation that throws has changed nothing, unless the code is ``CryptError/Code/durabilityUnknown``; `deleteAll`
///   may have deleted some secrets.
/// - On a device that fails or is read-only, what a call cannot do is ``CryptError/Code/unavailable(_:)`` with the reason
///   `.inputOutput`; on a full one, ``CryptError/Code/noSpace``, also of a `delete` that needs space. A call that has
///   nothing to change may succeed. On a read-only device secrets are read. When the device works again, so does the
///   store. In a place that another user than root owns, or in which others may write, nothing is written: `.insecureFile`, or
///   `.unavailable` where the system denies access; reads may work.
/// - Every error is a ``CryptError`` with the operation and, unless the call has none, the name of the secret.
/// - No error, description, reflection or log contains a value or an encryption key. Attach an error of a coder as
///   `CodingFailure(_:redacting:)` of `ForgeCoding`, which drops what it quotes, and coding keys too, which may be parts
///   of a value. A type with stored values needs an empty `customMirror` (`CustomReflectable`).
/// - No code of a value (`encode(to:)`, `init(from:)`) runs under a lock of the store: it may call the same store, also
///   from another thread.
/// - All calls are thread-safe. They block the calling thread while the storage is busy.
public protocol CryptStoring: Sendable {
    /// The value of a secret, nil if there is none.
    ///
    /// - Throws: ``CryptError``; `.undecodable` if the value is not of the key's type, in which case it is kept.
    func get<Value>(_ key: CryptKey<Value>) throws -> Value?

    /// Stores a value with the key's accessibility, replacing the previous one.
    ///
    /// - Throws: ``CryptError``; `.unencodable` for a value that cannot be encoded, `.tooLarge` if the encoded value,
    ///   as ``rawValue(named:)`` returns it, has more than 16 MiB; the name does not count.
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws

    /// Removes a secret, whatever the type of its value; succeeds if there is none.
    func delete<Value>(_ key: CryptKey<Value>) throws

    /// Whether there is a value of any type.
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool

    /// Removes every secret of this store, of every accessibility; concurrent changes are made before or after it.
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
    /// - Throws: ``CryptError``, as ``set(_:for:)``, with the operation `.set`. Whether a value that cannot be stored is refused also if the
    ///   secret is present is up to the store; the stores of this module refuse it.
    @discardableResult
    func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool

    // MARK: For tools

    /// The names of all secrets, in the order of their UTF-8 bytes, which is not that of Swift's strings.
    func keys() throws -> [String]

    /// The encoded value of a secret, by `ValueCoder` of `ForgeCoding`, before encryption; nil if there is none.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores bytes from ``rawValue(named:)`` or from the value coder, replacing the previous value.
    ///
    /// The bytes are stored as they are; only reading them typed finds out that they are no encoded value.
    ///
    /// - Throws: ``CryptError``; `.invalidKey` for a name that the other calls refuse, `.tooLarge` for more than 16
    ///   MiB.
    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws

    /// Removes a secret by its name alone; succeeds if there is none.
    func deleteValue(named name: String) throws
}

extension CryptStoring {
    // A test followed by a set would not be atomic.
    @discardableResult
    public func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
        throw CryptError(.unsupported, .set, key: key.key, detail: "createIfAbsent has its default implementation")
    }

    public func keys() throws -> [String] {
        throw CryptError(.unsupported, .keys, detail: "keys has its default implementation")
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        throw CryptError(.unsupported, .get, key: name, detail: "rawValue has its default implementation")
    }

    public func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        throw CryptError(.unsupported, .set, key: name, detail: "setRawValue has its default implementation")
    }

    public func deleteValue(named name: String) throws {
        throw CryptError(.unsupported, .delete, key: name, detail: "deleteValue has its default implementation")
    }
}

/// A call of key-value stores, declared unavailable so that the compiler suggests the right one.
extension CryptStoring {
    @available(*, unavailable, message: "a secret store takes the value first: set(value, for: key)")
    public func set<T: Codable & Sendable>(_ key: CryptKey<T>, value: T) throws { fatalError("unavailable") }
}

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

/// The conditions for reading a secret: the classes of the Keychain (`kSecAttrAccessible…`).
///
/// ``KeychainCrypt`` relies on the operating system to enforce it. ``VaultCrypt`` stores it, authenticated, with the
/// value, but cannot enforce it: the vault's key opens every value at any time.
public enum CryptAccessibility: String, Hashable, Sendable, CaseIterable, Codable {
    /// While the device is unlocked; moves to a new device with an encrypted backup.
    case whenUnlocked

    /// From the first unlock after a start until the next start, also in the background; moves to a new device.
    case afterFirstUnlock

    /// While the device is unlocked, and only if it has a passcode; deleted when the passcode is removed. Stays on this
    /// device.
    case whenPasscodeSetThisDeviceOnly

    /// While the device is unlocked; stays on this device.
    case whenUnlockedThisDeviceOnly

    /// From the first unlock after a start until the next start; stays on this device.
    case afterFirstUnlockThisDeviceOnly
}
