extension VaultCrypt {
    /// Whether a file that begins like this is a vault.
    package static func isVault(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: VaultHeader.magic)
    }
}

extension VaultKeyFile {
    /// Whether a file that begins like this holds the key of a vault.
    package static func isKeyFile(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: magic)
    }
}
