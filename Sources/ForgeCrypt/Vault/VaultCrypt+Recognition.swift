package import ForgeFileSystem

extension VaultCrypt {
    /// Whether these are the first bytes of a vault.
    package static func isVault(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: VaultHeader.magic)
    }

    /// Whether this is the name of the temporary file of vaults and key files.
    package static func isTemporary(_ name: POSIXPath) -> Bool { name == VaultFile.temporaryName }
}

extension VaultKeyFile {
    /// Whether these are the first bytes of a vault's key file.
    package static func isKeyFile(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: magic)
    }
}
