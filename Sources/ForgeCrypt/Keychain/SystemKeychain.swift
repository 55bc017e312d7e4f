#if canImport(Security)
import Foundation
import Security

// Memory safety: The framework writes its result to a variable during the call, and returns an object that it retains.

extension KeychainCrypt {
    /// Creates a store in the Keychain of this device.
    ///
    /// - Parameters:
    ///   - service: The service of all items of this store, such as the app's bundle identifier; not empty.
    ///   - accessGroup: The access group of the items, one of the app's entitlements; nil for the app's own.
    public convenience init(service: String, accessGroup: String? = nil) {
        self.init(service: service, accessGroup: accessGroup, calls: SystemKeychain())
    }
}

/// The calls of the Security framework, without logic; that is in ``KeychainCrypt``.
struct SystemKeychain: SecItemCalls {
    func add(_ item: SecItemQuery, _ value: SecItemValue) -> KeychainStatus {
        let attributes = dictionary(item)
        insert(value, into: attributes)
        return KeychainStatus(rawValue: SecItemAdd(attributes as CFDictionary, nil))
    }

    func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8]) {
        let attributes = dictionary(query)
        attributes.setObject(kSecMatchLimitOne, forKey: kSecMatchLimit as NSString)
        attributes.setObject(NSNumber(value: true), forKey: kSecReturnData as NSString)
        var result: CFTypeRef?
        let status = KeychainStatus(rawValue: unsafe SecItemCopyMatching(attributes as CFDictionary, &result))
        guard status == .success else { return (status, []) }
        guard let data = result as? NSData else { return (.decode, []) }
        return (status, [UInt8](Data(referencing: data)))
    }

    func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String]) {
        let attributes = dictionary(query)
        attributes.setObject(kSecMatchLimitAll, forKey: kSecMatchLimit as NSString)
        attributes.setObject(NSNumber(value: true), forKey: kSecReturnAttributes as NSString)
        var result: CFTypeRef?
        let status = KeychainStatus(rawValue: unsafe SecItemCopyMatching(attributes as CFDictionary, &result))
        guard status == .success else { return (status, []) }
        guard let items = result as? NSArray else { return (.decode, []) }
        let accounts = items.compactMap { item in
            (item as? NSDictionary)?.object(forKey: kSecAttrAccount as NSString) as? String
        }
        return (status, accounts)
    }

    func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus {
        let changes = NSMutableDictionary()
        insert(value, into: changes)
        return KeychainStatus(rawValue: SecItemUpdate(dictionary(query) as CFDictionary, changes as CFDictionary))
    }

    func delete(_ query: SecItemQuery) -> KeychainStatus {
        KeychainStatus(rawValue: SecItemDelete(dictionary(query) as CFDictionary))
    }

    private func dictionary(_ query: SecItemQuery) -> NSMutableDictionary {
        let attributes = NSMutableDictionary()
        attributes.setObject(kSecClassGenericPassword, forKey: kSecClass as NSString)
        attributes.setObject(NSString(string: query.service), forKey: kSecAttrService as NSString)
        attributes.setObject(NSNumber(value: false), forKey: kSecAttrSynchronizable as NSString)
        // Ignored on platforms with only one keychain.
        attributes.setObject(NSNumber(value: true), forKey: kSecUseDataProtectionKeychain as NSString)
        if let account = query.account {
            attributes.setObject(NSString(string: account), forKey: kSecAttrAccount as NSString)
        }
        if let group = query.accessGroup {
            attributes.setObject(NSString(string: group), forKey: kSecAttrAccessGroup as NSString)
        }
        return attributes
    }

    private func insert(_ value: SecItemValue, into attributes: NSMutableDictionary) {
        attributes.setObject(NSData(data: Data(value.data)), forKey: kSecValueData as NSString)
        attributes.setObject(accessible(value.accessibility), forKey: kSecAttrAccessible as NSString)
    }

    private func accessible(_ accessibility: CryptAccessibility) -> CFString {
        switch accessibility {
        case .whenUnlocked: kSecAttrAccessibleWhenUnlocked
        case .afterFirstUnlock: kSecAttrAccessibleAfterFirstUnlock
        case .whenPasscodeSetThisDeviceOnly: kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly
        case .whenUnlockedThisDeviceOnly: kSecAttrAccessibleWhenUnlockedThisDeviceOnly
        case .afterFirstUnlockThisDeviceOnly: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        }
    }
}
#endif
