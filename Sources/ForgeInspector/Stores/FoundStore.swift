import Crypto
import ForgeStorage
import Foundation
import Synchronization

/// A store found below the inspected directory.
struct FoundStore: Hashable, Sendable {
    enum Kind: String, Encodable, Sendable {
        case keyValue, vault, cache, images
    }

    let kind: Kind
    /// The path below the inspected directory of the store's directory, or of the file of a vault; `.` for that
    /// directory itself.
    let path: POSIXPath
    /// The path as a readable text, which differs from that of every other path; escapes as in `POSIXPath.description`.
    let name: String

    /// The path in requests and answers, percent-encoded.
    var id: String { path.percentEncoded }

    init(kind: Kind, path: POSIXPath) {
        (self.kind, self.path, name) = (kind, path, path.description)
    }
}

/// The kind of a file, which decides whether its content may be shown.
enum FileContent: String, Encodable, Sendable {
    case plain, log, vault, vaultKey, cacheEntry, image, quarantine
    /// A file of a store's own: locks, journals and temporary files, which may contain a key.
    case own
    case special

    /// Whether the bytes may be sent: those of vaults, keys and temporary files never are.
    var isShown: Bool { self == .plain }

    /// The role of the file in the directory's store. Beyond that, a name that no key can have is a store's own, as a
    /// temporary file may have been left by a store that is gone, and the first bytes recognise a copy of a vault or key,
    /// which is not shown wherever it is.
    private init(_ name: POSIXPath, in scope: StoreScope, startingWith start: [UInt8]) throws(FileSystemError) {
        // The log, vaults and keys of a store that is not known are recognised as in a directory of no store.
        let known = scope.isUnknown ? StoreScope.outside : scope
        let role = try known.role(of: name, among: StoreLayouts.all) { () throws(FileSystemError) in start }
        guard !name.isReservedWhenFolded else {
            self = .own
            return
        }
        switch role {
        case .marker, .bookkeeping, .temporary, .moved: self = .own
        case .quarantine: self = .quarantine
        case .log: self = .log
        case .vault: self = .vault
        case .vaultKey: self = .vaultKey
        case .entry: self = scope.owner.contains(.images) ? .image : .cacheEntry
        case .content where VaultCrypt.isVault(startingWith: start): self = .vault
        case .content where VaultKeyFile.isKeyFile(startingWith: start): self = .vaultKey
        case .content, .special: self = .plain
        }
    }

    /// The kind of an open regular file in a directory with a scope.
    init(
        _ name: POSIXPath, of file: Descriptor, in scope: StoreScope, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        try self.init(name, in: scope, startingWith: try fileSystem.readBytes(of: file, at: 0, count: 64))
    }
}

/// A vault: the number of its secrets, and their names once it is unlocked; never a value.
final class VaultView: Sendable {
    struct Content: Encodable, Sendable {
        var count: Int
        var size: Int
        var generation: UInt64
        var isUnlocked: Bool
        /// Nil while the vault is sealed.
        var names: [String]?
    }

    let store: FoundStore
    private let root: ConfinedDirectory
    private let vault = Mutex<VaultCrypt?>(nil)

    init(_ store: FoundStore, in root: ConfinedDirectory) {
        (self.store, self.root) = (store, root)
    }

    /// Tries keys, in order.
    ///
    /// - Returns: Whether one of them opens the vault.
    /// - Throws: `CryptError` if the vault cannot be read, or is damaged.
    func unlock(with keys: [SymmetricKey]) throws(CryptError) -> Bool {
        for key in keys {
            let candidate = try VaultCrypt(reading: store.path, in: root, key: key)
            do throws(CryptError) {
                _ = try candidate.verify()
                vault.withLock { $0 = candidate }
                return true
            } catch {
                guard error.code == .wrongKey else { throw error }
            }
        }
        return false
    }

    /// Forgets the key.
    func lock() { vault.withLock { $0 = nil } }

    /// The present content: sealed, or the names if the vault is unlocked; nil if the vault was removed.
    func content() throws(CryptError) -> Content? {
        guard let information = try VaultInformation(of: store.path, in: root) else { return nil }
        let unlocked = vault.withLock { $0 }
        return Content(
            count: information.count, size: information.sizeInBytes, generation: information.generation,
            isUnlocked: unlocked != nil, names: try unlocked?.keys())
    }
}
