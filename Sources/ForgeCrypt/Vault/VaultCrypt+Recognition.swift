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

/// The files in a directory of vaults.
package enum VaultsLayout: StoreLayout {
    package static var kind: StoreKind { .vaults }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        if name == VaultFile.lockName { return .bookkeeping }
        if VaultCrypt.isTemporary(name) { return .temporary }
        let bytes = try start()
        if VaultCrypt.isVault(startingWith: bytes) { return .vault }
        return VaultKeyFile.isKeyFile(startingWith: bytes) ? .vaultKey : .content
    }
}
