/// The four calls of the Keychain (`SecItemAdd` and its kin) as far as ``KeychainCrypt`` needs them.
///
/// Items are generic passwords that are never synchronised between devices. On macOS they are in the data protection
/// keychain, the one that iOS has, not in a keychain file.
package protocol SecItemCalls: Sendable {
    /// Adds an item; `errSecDuplicateItem` if there is one of this service, account and group.
    func add(_ item: SecItemQuery, _ value: SecItemValue) -> KeychainStatus

    /// The data of the one item that the query names.
    func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8])

    /// The accounts of all items that match; `errSecItemNotFound` if there is none. Decrypts no data.
    func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String])

    /// Replaces data and accessibility of what matches.
    func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus

    /// Deletes what matches; `errSecItemNotFound` if nothing does.
    func delete(_ query: SecItemQuery) -> KeychainStatus
}

/// Which items a call is about.
package struct SecItemQuery: Hashable, Sendable {
    /// Every item belongs to one service.
    package var service: String

    /// The name within the service; nil for all of them.
    package var account: String?

    /// The access group; nil for every group of the app, and for its first one where an item is added.
    package var accessGroup: String?

    package init(service: String, account: String? = nil, accessGroup: String? = nil) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
    }
}

/// What an item holds.
package struct SecItemValue: Sendable {
    package var data: [UInt8]
    package var accessibility: CryptAccessibility

    package init(data: [UInt8], accessibility: CryptAccessibility) {
        self.data = data
        self.accessibility = accessibility
    }
}

extension SecItemValue: CustomReflectable, CustomStringConvertible {
    package var customMirror: Mirror { Mirror(self, children: []) }

    package var description: String { "SecItemValue" }
}
