import Crypto
import ForgeStorage
import Foundation
import Synchronization

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
