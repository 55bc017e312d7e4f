import Synchronization

/// A secret store in memory: every promise of ``CryptStoring`` except persistence.
///
/// Values are stored encoded, with the codec of all stores, so the same values are refused, and reading as another type
/// fails in the same way. They are not encrypted: access to the process's memory gives access to them. A stored value's
/// memory is overwritten with zeros when it is replaced or deleted, or the store is released; copies made by Swift, the
/// encoder or the caller are not.
///
/// Not simulated: the accessibility of a secret, which is kept and never consulted, since there is no device that could be
/// locked; a wrong key; damage; a full or failing device; and other processes and access groups. For the Keychain, take a
/// `FakeKeychain` of ForgeStorageTesting; for a vault, open a ``VaultCrypt`` on an `InMemoryFileSystem` or on a
/// `FaultingFileSystem`.
public final class InMemoryCrypt: CryptStoring {
    private struct Secret: Sendable {
        var value: SecretBytes
        var accessibility: CryptAccessibility

        init(_ value: SecretBytes, _ accessibility: CryptAccessibility) {
            (self.value, self.accessibility) = (value, accessibility)
        }

        /// Encodes a value, with no lock held.
        init<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) {
            self.init(SecretBytes(try SecretCodec.encode(value, for: key)), key.accessibility)
        }
    }

    private let secrets = Mutex<[SecretName: Secret]>([:])

    /// Creates an empty store, which shares nothing with others.
    public init() {}

    public func get<Value>(_ key: CryptKey<Value>) throws(CryptError) -> Value? {
        guard let bytes = try rawValue(named: key.key) else { return nil }
        return try SecretCodec.decode(bytes, for: key)
    }

    public func set<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) {
        let name = try SecretName(key.key, .set)
        let secret = try Secret(value, for: key)
        secrets.withLock { $0[name] = secret }
    }

    @discardableResult
    public func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) -> Bool {
        let name = try SecretName(key.key, .set)
        let secret = try Secret(value, for: key)
        return secrets.withLock { secrets in
            guard secrets[name] == nil else { return false }
            secrets[name] = secret
            return true
        }
    }

    public func delete<Value>(_ key: CryptKey<Value>) throws(CryptError) {
        try deleteValue(named: key.key)
    }

    public func contains<Value>(_ key: CryptKey<Value>) throws(CryptError) -> Bool {
        let name = try SecretName(key.key, .contains)
        return secrets.withLock { $0[name] != nil }
    }

    public func deleteAll() throws(CryptError) {
        secrets.withLock { $0.removeAll() }
    }

    public func keys() throws(CryptError) -> [String] {
        secrets.withLock { $0.keys.sorted() }.map(\.string)
    }

    public func rawValue(named name: String) throws(CryptError) -> [UInt8]? {
        let name = try SecretName(name, .get)
        return secrets.withLock { $0[name]?.value }?.bytes
    }

    public func setRawValue(
        _ bytes: [UInt8], named name: String, accessibility: CryptAccessibility
    ) throws(CryptError) {
        let secretName = try SecretName(name, .set)
        try SecretCodec.check(bytes, named: name)
        let secret = Secret(SecretBytes(bytes), accessibility)
        secrets.withLock { $0[secretName] = secret }
    }

    public func deleteValue(named name: String) throws(CryptError) {
        let name = try SecretName(name, .delete)
        _ = secrets.withLock { $0.removeValue(forKey: name) }
    }

    /// The accessibility that a secret was last set with; nil if there is none.
    package func accessibility(named name: String) throws(CryptError) -> CryptAccessibility? {
        let name = try SecretName(name, .get)
        return secrets.withLock { $0[name]?.accessibility }
    }
}

extension InMemoryCrypt: CustomReflectable, CustomStringConvertible {
    /// Hides the content.
    public var customMirror: Mirror { Mirror(self, children: []) }

    public var description: String { "InMemoryCrypt" }
}
