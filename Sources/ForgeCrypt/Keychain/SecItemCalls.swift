import ForgeFileSystem

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

/// A result of the Security framework (`OSStatus`, SecBase.h), by number so that it exists on Linux too.
package struct KeychainStatus: RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    package static let success = KeychainStatus(rawValue: 0)
    package static let unimplemented = KeychainStatus(rawValue: -4)
    package static let inputOutput = KeychainStatus(rawValue: -36)
    package static let parameter = KeychainStatus(rawValue: -50)
    package static let allocate = KeychainStatus(rawValue: -108)
    package static let userCanceled = KeychainStatus(rawValue: -128)
    package static let notAvailable = KeychainStatus(rawValue: -25291)
    package static let authFailed = KeychainStatus(rawValue: -25293)
    package static let duplicateItem = KeychainStatus(rawValue: -25299)
    package static let itemNotFound = KeychainStatus(rawValue: -25300)
    package static let interactionNotAllowed = KeychainStatus(rawValue: -25308)
    package static let decode = KeychainStatus(rawValue: -26275)
    package static let internalComponent = KeychainStatus(rawValue: -2070)
    package static let missingEntitlement = KeychainStatus(rawValue: -34018)

    private static let names: [KeychainStatus: String] = [
        .unimplemented: "errSecUnimplemented", .inputOutput: "errSecIO", .parameter: "errSecParam",
        .allocate: "errSecAllocate", .userCanceled: "errSecUserCanceled", .notAvailable: "errSecNotAvailable",
        .authFailed: "errSecAuthFailed", .duplicateItem: "errSecDuplicateItem",
        .itemNotFound: "errSecItemNotFound", .interactionNotAllowed: "errSecInteractionNotAllowed",
        .decode: "errSecDecode", .internalComponent: "errSecInternalComponent",
        .missingEntitlement: "errSecMissingEntitlement",
    ]

    /// The error code of a call that failed with this status.
    func code(of operation: CryptError.Operation) -> CryptError.Code {
        switch self {
        case .interactionNotAllowed: .unavailable(.locked)
        // An update fails so if the new value needs a passcode and the device has none.
        case .decode where operation != .set: .undecodable
        default: .system(status: rawValue)
        }
    }
}

extension KeychainStatus: CustomStringConvertible {
    package var description: String {
        guard let name = Self.names[self] else { return String(rawValue) }
        return "\(rawValue) (\(name))"
    }
}
