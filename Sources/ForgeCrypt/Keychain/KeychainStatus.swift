import ForgeFileSystem

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
