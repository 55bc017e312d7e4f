package import ForgeFileSystem

extension VaultCrypt {
    /// Whether a file that begins like this is a vault.
    package static func isVault(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: VaultHeader.magic)
    }

    /// Whether a file of this name is the temporary file of vaults and key files in a directory.
    package static func isTemporary(_ name: POSIXPath) -> Bool { name == VaultFile.temporaryName }
}

extension VaultKeyFile {
    /// Whether a file that begins like this holds the key of a vault.
    package static func isKeyFile(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: magic)
    }
}
