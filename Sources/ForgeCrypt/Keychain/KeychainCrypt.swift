import ForgeFileSystem

/// Secrets in the Keychain of Apple's platforms, each as a generic password.
///
/// The secret's name is the item's account. Items stay in this device's keychain (`kSecAttrSynchronizable` is false);
/// on macOS the data protection keychain is used, which requires an app signed with an application identifier. A secret
/// outlives the app: iOS keeps keychain items when the app is deleted.
///
/// While the device's state forbids access (``CryptKey/accessibility``), calls throw `.unavailable(.locked)`; they
/// never report such a secret as absent. This holds for ``contains(_:)``, ``createIfAbsent(_:for:)`` and ``keys()`` too:
/// names are encrypted with the class of their item, so ``keys()`` fails while a single item of the service is
/// inaccessible. Deletions need no access; they succeed in every state of the device. Other failures of the Keychain
/// are `.system(status:)`.
///
/// Without an access group, calls concern the items of every group of the app: setting a value replaces the item in
/// each group that has one, and adds one to the app's first group if none has.
public final class KeychainCrypt: CryptStoring {
    /// The service of all items of this store, such as the app's bundle identifier.
    public let service: String

    /// The access group of the items; nil for the app's own.
    public let accessGroup: String?

    private let calls: any SecItemCalls

    /// A race with another process that deletes and adds the same item ends within a few rounds.
    private static let maximumAttempts = 16

    /// More items than any app has, as a limit for a keychain that never stops reporting deletions.
    private static let maximumDeletions = 100_000

    /// Creates a store on the system's keychain or a fake one.
    package init(service: String, accessGroup: String?, calls: any SecItemCalls) {
        // An empty service would match the items of every service.
        precondition(!service.isEmpty, "a Keychain service has a name")
        self.service = service
        self.accessGroup = accessGroup
        self.calls = calls
    }

    public func get<Value>(_ key: CryptKey<Value>) throws(CryptError) -> Value? {
        guard let bytes = try rawValue(named: key.key) else { return nil }
        return try SecretCodec.decode(bytes, for: key)
    }

    /// Stores a value atomically: readers see the old value or the new one.
    public func set<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) {
        _ = try SecretName(key.key, .set)
        var bytes = try SecretCodec.encode(value, for: key)
        defer { erase(&bytes) }
        try setRawValue(bytes, named: key.key, accessibility: key.accessibility)
    }

    /// Stores a value if no item has this name, in the access group or, without one, in any group of the app.
    ///
    /// - Throws: ``CryptError``, as ``set(_:for:)``; `.unavailable(.locked)` also for a present item that is inaccessible
    ///   at present.
    @discardableResult
    public func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) -> Bool {
        let query = try query(key.key, .set)
        var bytes = try SecretCodec.encode(value, for: key)
        defer { erase(&bytes) }
        // Adding fails only for an item in the same group.
        let present = calls.copyAccounts(query).status
        guard present == .itemNotFound else {
            try check(present, .set, key.key)
            return false
        }
        let added = calls.add(query, SecItemValue(data: bytes, accessibility: key.accessibility))
        if added == .duplicateItem { return false }
        try check(added, .set, key.key)
        return true
    }

    public func delete<Value>(_ key: CryptKey<Value>) throws(CryptError) {
        try deleteValue(named: key.key)
    }

    /// Whether there is a value of any type.
    ///
    /// - Throws: ``CryptError``; `.unavailable(.locked)` while the item is inaccessible, never for an absent one.
    public func contains<Value>(_ key: CryptKey<Value>) throws(CryptError) -> Bool {
        let query = try query(key.key, .contains)
        let status = calls.copyAccounts(query).status
        if status == .itemNotFound { return false }
        try check(status, .contains, key.key)
        return true
    }

    /// Removes every item of this service, and of the access group if there is one; no others.
    ///
    /// Not atomic: if it throws, some may be removed.
    public func deleteAll() throws(CryptError) {
        let query = SecItemQuery(service: service, accessGroup: accessGroup)
        // The data protection keychain deletes all at once, a file-based keychain one at a time.
        for _ in 0..<Self.maximumDeletions {
            let status = calls.delete(query)
            if status == .itemNotFound { return }
            try check(status, .deleteAll, nil)
        }
        throw CryptError(.unavailable(.inputOutput), .deleteAll, detail: "items do not go away")
    }

    /// The names of all secrets, in byte order.
    ///
    /// - Throws: ``CryptError``; `.unavailable(.locked)` while any item of the service is inaccessible.
    public func keys() throws(CryptError) -> [String] {
        let (status, accounts) = calls.copyAccounts(SecItemQuery(service: service, accessGroup: accessGroup))
        if status == .itemNotFound { return [] }
        try check(status, .keys, nil)
        // Without an access group the same account can be stored in several of the app's groups.
        let names = Set(accounts.compactMap { SecretName(bytes: Array($0.utf8)) })
        return names.sorted().map(\.string)
    }

    public func rawValue(named name: String) throws(CryptError) -> [UInt8]? {
        let (status, data) = calls.copyData(try query(name, .get))
        if status == .itemNotFound { return nil }
        try check(status, .get, name)
        return data
    }

    public func setRawValue(
        _ bytes: [UInt8], named name: String, accessibility: CryptAccessibility
    ) throws(CryptError) {
        let query = try query(name, .set)
        try SecretCodec.check(bytes, named: name)
        let value = SecItemValue(data: bytes, accessibility: accessibility)
        // Adding first would make a second item beside one in another access group; reads would then return either.
        for _ in 0..<Self.maximumAttempts {
            let updated = calls.update(query, to: value)
            guard updated == .itemNotFound else { return try check(updated, .set, name) }
            let added = calls.add(query, value)
            // Added between the two calls: update it.
            if added == .duplicateItem { continue }
            return try check(added, .set, name)
        }
        throw CryptError(.unavailable(.inUse(processID: nil)), .set, key: name)
    }

    public func deleteValue(named name: String) throws(CryptError) {
        let status = calls.delete(try query(name, .delete))
        if status != .itemNotFound { try check(status, .delete, name) }
    }

    private func query(_ name: String, _ operation: CryptError.Operation) throws(CryptError) -> SecItemQuery {
        _ = try SecretName(name, operation)
        return SecItemQuery(service: service, account: name, accessGroup: accessGroup)
    }

    private func check(
        _ status: KeychainStatus, _ operation: CryptError.Operation, _ key: String?
    ) throws(CryptError) {
        guard status != .success else { return }
        throw CryptError(status.code(of: operation), operation, key: key)
    }
}

extension KeychainCrypt: CustomReflectable, CustomStringConvertible {
    /// Hides the content.
    public var customMirror: Mirror { Mirror(self, children: ["service": service]) }

    public var description: String { "KeychainCrypt(\(service))" }
}
