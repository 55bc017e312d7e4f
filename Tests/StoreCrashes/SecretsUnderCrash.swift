import ForgeCrypt
package import ForgeFileSystem
import Foundation

/// A ``VaultCrypt`` with its key file in another directory; both, and their parent directories, are created on first
/// use.
package struct SecretsUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(names: ["a", "b", "c"], others: [.removeAll, .reopen])
    package static let removesAllAtOnce = true

    private let vault: VaultCrypt

    package init(on fileSystem: InMemoryFileSystem) throws {
        let key = try VaultKeyFile.loadOrCreate(at: URL(filePath: "/keys/key"), fileSystem: fileSystem)
        vault = try VaultCrypt(at: URL(filePath: "/app/secrets/vault"), key: key, fileSystem: fileSystem)
    }

    package static func isDurable(_ call: StoreCall) -> Bool { true }

    package func perform(_ call: StoreCall) throws {
        switch call {
        case .set(let name, let value): try vault.set(value.text, for: CryptKey(key: name))
        case .create(let name, let value):
            let key = CryptKey<String>(key: name)
            if try !vault.contains(key) { try vault.set(value.text, for: key) }
        case .remove(let name): try vault.delete(CryptKey<String>(key: name))
        case .removeTree(let name):
            for key in try vault.keys() where key.hasPrefix(name + "/") { try vault.delete(CryptKey<String>(key: key)) }
        case .removeAll: try vault.deleteAll()
        case .batch(let changes): for change in changes { try perform(change.call) }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }

    package func contents() throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        for name in try vault.keys() {
            found[name] = try vault.get(CryptKey<String>(key: name)).map { try StoreValue($0.utf8, named: name) }
        }
        return found
    }
}
