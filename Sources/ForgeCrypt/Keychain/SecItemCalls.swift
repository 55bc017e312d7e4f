/// The four calls of the Keychain (`SecItemAdd` and so on), as far as ``KeychainCrypt`` needs them.
///
/// Items are generic passwords that are never synchronised between devices. On macOS they are in the data protection
/// keychain, as on iOS, not in a file-based keychain.
package protocol SecItemCalls: Sendable {
    /// Adds an item; `errSecDuplicateItem` if this service, account and group already have one.
    func add(_ item: SecItemQuery, _ value: SecItemValue) -> KeychainStatus

    /// The data of the single item that the query identifies.
    func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8])

    /// The accounts of all matching items; `errSecItemNotFound` if there is none.
    ///
    /// Accounts are encrypted with the class of their item: a single inaccessible item fails the call.
    func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String])

    /// Replaces data and accessibility of matching items.
    func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus

    /// Deletes matching items; `errSecItemNotFound` if there is none.
    func delete(_ query: SecItemQuery) -> KeychainStatus
}

/// The items of a call.
package struct SecItemQuery: Hashable, Sendable {
    /// The service of the items.
    package var service: String

    /// The name within the service; nil for all names.
    package var account: String?

    /// The access group; nil for every group of the app, and for its first group when adding an item.
    package var accessGroup: String?

    package init(service: String, account: String? = nil, accessGroup: String? = nil) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
    }
}

/// The content of an item.
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
