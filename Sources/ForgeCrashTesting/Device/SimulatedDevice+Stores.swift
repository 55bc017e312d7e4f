public import ForgeCrypt
public import ForgeFileStore
import ForgeFileSystem
public import ForgeStorage
import ForgeStorageTesting
import Foundation

/// The stores of the app, as its running process opens them.
extension SimulatedDevice {
    /// A key-value store below the directory for application support; nothing is touched before it is needed.
    ///
    /// Asked for the same name again, the same object is returned until the process ends, with the class that it had.
    public func keyValueStore(
        named name: String = "settings",
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication
    ) -> DeviceKVStore {
        keyValueStore(name) { fileSystem, container in
            let path = container.path(of: .applicationSupport).appending("KeyValueStores").appending(name.asFileName)
            return DeviceKVStore(path, fileProtection, on: fileSystem)
        }
    }

    /// A store of files on this device: what `DiskFileStore(directory:namespace:fileProtection:options:)` is on a real
    /// one.
    public func fileStore(
        directory: StandardDirectory = .documents, namespace: String,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        options: FileStoreOptions = FileStoreOptions()
    ) -> DiskFileStore {
        DiskFileStore(
            root: URL(path(of: directory).appending(namespace.asFileName), isDirectory: true), fileSystem: fileSystem,
            fileProtection: fileProtection, options: options)
    }

    /// A store of secrets in the Keychain. It belongs to the device, not to the process: it goes on after all events.
    public func secrets(service: String = "app", accessGroup: String? = nil) -> KeychainCrypt {
        keychain.store(service: service, accessGroup: accessGroup)
    }

    /// A vault in the directory for application support, whose key is kept in the Keychain.
    ///
    /// - Parameters:
    ///   - name: The vault's name.
    ///   - keyAccessibility: When the key can be read, and whether it moves to a new device together with the vault.
    /// - Returns: The vault. If the Keychain has no key, a new one is made, under which a vault that is there already
    ///   is `.wrongKey`.
    /// - Throws: `CryptError`, `.unavailable(.locked)` while the key cannot be read.
    public func vault(
        named name: String = "vault", keyAccessibility: CryptAccessibility = .afterFirstUnlock
    ) throws(CryptError) -> VaultCrypt {
        let keys = secrets(service: "SimulatedDevice.vaults")
        let item = CryptKey<String>(key: name, accessibility: keyAccessibility)
        let digits: String
        if let existing = try keys.get(item) {
            digits = existing
        } else {
            digits = (0..<4).map { _ in fileSystem.randomBits().hexadecimal }.joined()
            try keys.set(digits, for: item)
        }
        let directory = path(of: .applicationSupport).appending("Vaults")
        return try VaultCrypt(
            at: URL(directory.appending(name.asFileName)), key: VaultKey.decode(hexadecimal: digits),
            fileSystem: fileSystem)
    }

    /// The storage of a session: a user in the Keychain.
    public func sessionStorage<User: Codable & Sendable>(
        of user: User.Type = User.self, accessibility: CryptAccessibility = .whenUnlocked
    ) -> CryptSessionStorage<User> {
        CryptSessionStorage(store: secrets(service: "SimulatedDevice.session"), accessibility: accessibility)
    }
}

extension String {
    /// One component of a path that no two strings share: all but letters, digits, `-` and `_` is written as bytes.
    fileprivate var asFileName: POSIXPath {
        var name = ""
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                name.unicodeScalars.append(Unicode.Scalar(byte))
            default: name += "=" + String(Int(byte) + 256, radix: 16).dropFirst()
            }
        }
        return POSIXPath(name.isEmpty ? "=" : name)
    }
}

extension UInt64 {
    fileprivate var hexadecimal: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
