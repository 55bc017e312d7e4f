import ForgeStorage
import SystemPackage

/// The kind of a file in a store's directory.
enum FileKind {
    case marker, temporary, quarantine, log, vault, vaultKey, image, other

    /// Recognises reserved names first, then the first bytes.
    init(of path: POSIXPath, _ entry: DirectoryEntry, on fileSystem: SystemFileSystem) throws(FileSystemError) {
        let name = String(entry.name)
        if entry.name.isLeftover || entry.name.isMovedFile || FileKVStore.isTemporary(entry.name) {
            self = .temporary
        } else if entry.name.isStoreMarker || ["#shared", "#reserve"].contains(name) {
            self = .marker
        } else if name.hasPrefix("quarantine-") {
            self = .quarantine
        } else {
            let file = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
            let start = try fileSystem.closing(file) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: file, at: 0, count: 64)
            }
            if FileKVStore.isLog(named: name, startingWith: start) {
                self = .log
            } else if VaultCrypt.isVault(startingWith: start) {
                self = .vault
            } else if VaultKeyFile.isKeyFile(startingWith: start) {
                self = .vaultKey
            } else {
                self = name.hasSuffix(".cache") ? .image : .other
            }
        }
    }
}
