public import ForgeCrypt
public import ForgeFileStore
import ForgeFileSystem
public import ForgeStorage
import ForgeStorageTesting
import Foundation

/// The stores of the app, as its running process opens them.
extension SimulatedDevice {
    /// A key-value store below the directory for application support, opened on first use.
    ///
    /// Further calls with the same name return the same object, with its original class, until the process ends.
    public func keyValueStore(
        named name: String = "settings",
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication
    ) -> DeviceKVStore {
        keyValueStore(name) { fileSystem, container in
            let path = container.path(of: .applicationSupport).appending("KeyValueStores").appending(name.asFileName)
            return DeviceKVStore(path, fileProtection, on: fileSystem)
        }
    }

    /// A file store on this device, like `DiskFileStore(directory:namespace:fileProtection:options:)` on a real one.
    public func fileStore(
        directory: StandardDirectory = .documents, namespace: String,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        options: FileStoreOptions = FileStoreOptions()
    ) -> DiskFileStore {
        DiskFileStore(
            root: URL(path(of: directory).appending(namespace.asFileName), isDirectory: true), fileSystem: fileSystem,
            fileProtection: fileProtection, options: options)
    }

    /// A secret store in the Keychain. It belongs to the device, not to the process, and survives all events.
    public func secrets(service: String = "app", accessGroup: String? = nil) -> KeychainCrypt {
        keychain.store(service: service, accessGroup: accessGroup)
    }

    /// A vault in the directory for application support, with its key in the Keychain.
    ///
    /// - Parameters:
    ///   - name: The vault's name.
    ///   - keyAccessibility: When the key can be read, and whether it moves to a new device with the vault.
    /// - Returns: The vault. If the Keychain has no key, a new one is created, with which an existing vault is
    ///   `.wrongKey`.
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

    /// A session storage in the Keychain.
    public func sessionStorage<User: Codable & Sendable>(
        of user: User.Type = User.self, accessibility: CryptAccessibility = .whenUnlocked
    ) -> CryptSessionStorage<User> {
        CryptSessionStorage(store: secrets(service: "SimulatedDevice.session"), accessibility: accessibility)
    }
}

extension String {
    /// An injective encoding as a path component: all but letters, digits, `-` and `_` is written as bytes.
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
