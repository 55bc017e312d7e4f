public import Crypto
public import ForgeFileSystem
public import Foundation
import SystemPackage

/// A vault's key in a file of its own, for command-line tools and servers: it protects the vault from whoever gets the
/// vault file alone, such as a backup of it, not from whoever can read this user's files.
public enum VaultKeyFile {
    static let magic: [UInt8] = [0x89, 0x46, 0x56, 0x4B, 0x0D, 0x0A, 0x1A, 0x01]
    private static let checksumLength = 8
    private static let length = magic.count + VaultKey.sizeInBytes + checksumLength

    /// The key in the file; nil if there is no file.
    ///
    /// - Throws: ``CryptError``: `.truncated` or `.tampered` for a damaged file or one that is no key file, `.insecureFile`
    ///   if others may read or write it, `.unavailable` if it cannot be read.
    public static func load(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(CryptError) -> SymmetricKey? {
        let file = try VaultFile(url, on: fileSystem)
        guard let held = try file.open(.loadKey) else { return nil }
        var bytes: [UInt8]
        do {
            bytes = try file.read(held, maximumSizeInBytes: 4096)
        } catch let error where error.errno == .fileTooLarge {
            throw CryptError(.tampered, .loadKey, path: file.path, detail: "no key file", underlying: error)
        } catch {
            throw CryptError(error, .loadKey, path: file.path)
        }
        defer { erase(&bytes) }
        return try key(bytes, path: file.path)
    }

    /// The key in the file, which is created with a random key if it is missing: mode 0600, durable when the call
    /// returns, in a directory that is created with 0700.
    ///
    /// Never replaces a file. If two processes come at once, both get the key of the one that was first: who creates a key
    /// takes the lock of the vaults in that directory (`#lock-vaults`) and removes what a crash left over.
    ///
    /// - Throws: ``CryptError``, as ``load(at:fileSystem:)``, and `.insecureFile` where others may replace files in the
    ///   directory of a new key; `.durabilityUnknown` if the file stands but may not survive
    ///   a power cut: nothing should be sealed with the key then before another call has succeeded.
    public static func loadOrCreate(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(CryptError) -> SymmetricKey {
        if let key = try load(at: url, fileSystem: fileSystem) { return key }
        let file = try VaultFile(url, on: fileSystem)
        let key = VaultKey.random()
        var isPrepared = false
        let failure = try file.whileLocked(.createKey, isPrepared: &isPrepared) { directory in
            // What an earlier attempt left over holds a key; to remove it is best effort, as the next vault's sweep is.
            do { try file.sweep(directory) } catch _ {}
            return Self.store(key, in: file, at: directory)
        }
        guard let failure else { return key }
        guard failure.errno == .fileExists, let key = try load(at: url, fileSystem: fileSystem) else {
            throw CryptError(failure, .createKey, path: file.path)
        }
        return key
    }

    /// Stores the key where there must be no file; returns why it could not.
    private static func store(_ key: SymmetricKey, in file: VaultFile, at directory: Descriptor) -> FileSystemError? {
        var bytes = magic
        key.withUnsafeBytes { bytes += $0 }
        bytes += SHA256.hash(data: bytes).prefix(checksumLength)
        defer { erase(&bytes) }
        do {
            try file.replace(with: bytes, at: directory, .exclusive)
            return nil
        } catch {
            return error
        }
    }

    private static func key(_ bytes: [UInt8], path: POSIXPath) throws(CryptError) -> SymmetricKey {
        guard bytes.starts(with: magic.prefix(bytes.count)) else {
            throw CryptError(.tampered, .loadKey, path: path, detail: "no key file")
        }
        guard bytes.count >= length else { throw CryptError(.truncated, .loadKey, path: path) }
        let checksum = SHA256.hash(data: bytes.prefix(length - checksumLength)).prefix(checksumLength)
        guard bytes.count == length, checksum.elementsEqual(bytes.suffix(checksumLength)) else {
            throw CryptError(.tampered, .loadKey, path: path)
        }
        return SymmetricKey(data: bytes.dropFirst(magic.count).prefix(VaultKey.sizeInBytes))
    }
}
