public import Crypto
public import ForgeFileSystem
public import Foundation
import SystemPackage

/// A vault's key in a file, for command-line tools and servers.
///
/// It protects a vault file that is copied without it, by a backup for example. It does not protect against a program
/// that can read this user's files.
public enum VaultKeyFile {
    static let magic: [UInt8] = [0x89, 0x46, 0x56, 0x4B, 0x0D, 0x0A, 0x1A, 0x01]
    private static let checksumLength = 8
    private static let length = magic.count + VaultKey.sizeInBytes + checksumLength

    /// The key in the file; nil if there is no file. Changes and flushes nothing: call ``loadOrCreate(at:fileSystem:)``
    /// before sealing with a key.
    ///
    /// - Throws: ``CryptError``: `.truncated` or `.tampered` for a file that is damaged or not a key file,
    ///   `.insecureFile` if other users may read or write it, or if it belongs neither to the effective user nor to
    ///   root, `.reservedName` for a name that begins with `#` or is `log`, `.unavailable` if it cannot be read.
    public static func load(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(CryptError) -> SymmetricKey? {
        let file = try VaultFile(url, on: fileSystem)
        guard let opened = try file.open(.loadKey) else { return nil }
        return try key(in: opened, file)
    }

    /// The key in the file; creates a missing file with a random key: mode 0600, durable when the call returns, in a
    /// directory that is created with mode 0700.
    ///
    /// Never replaces a file. An existing file is flushed with its parent directories, because the process that created
    /// it may have ended before doing so. Two concurrent processes both get the key of the first: a key is created
    /// under the lock of the vaults in its directory (`#lock-vaults`).
    ///
    /// - Throws: ``CryptError``, as ``load(at:fileSystem:)``, and `.insecureFile` if other users own the directory of a
    ///   new key, or may create or replace files in it; `.unavailable(.inUse)` if another process has held the lock for
    ///   30 seconds; `.durabilityUnknown` if the file exists but may not survive a power cut: seal nothing with the key
    ///   before another call has succeeded.
    public static func loadOrCreate(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(CryptError) -> SymmetricKey {
        let file = try VaultFile(url, on: fileSystem)
        if let key = try loadDurably(file) { return key }
        let key = VaultKey.random()
        var isPrepared = false
        let failure = try file.whileLocked(.createKey, isPrepared: &isPrepared) { directory in
            // The temporary file of an earlier attempt contains a key. Best effort: the next writer tries again.
            do { try file.removeTemporaryFile(directory) } catch _ {}
            return Self.store(key, in: file, at: directory)
        }
        guard let failure else { return key }
        guard failure.errno == .fileExists, let key = try loadDurably(file) else {
            throw CryptError(failure, .createKey, path: file.path)
        }
        return key
    }

    /// The key in the file, flushed together with every name on its path; nil if there is no file.
    private static func loadDurably(_ file: VaultFile) throws(CryptError) -> SymmetricKey? {
        guard let opened = try file.open(.loadKey) else { return nil }
        let key = try key(in: opened, file)
        do {
            try opened.synchronize(.full)
            try file.synchronizeNames()
        } catch let error where error.errno == .readOnlyFileSystem {
            // Nothing can be unflushed on a read-only file system.
        } catch {
            throw CryptError(.durabilityUnknown, .loadKey, path: file.path, underlying: error)
        }
        return key
    }

    private static func key(in opened: borrowing OpenFile, _ file: VaultFile) throws(CryptError) -> SymmetricKey {
        try file.checkOwner(opened, .loadKey)
        var bytes: [UInt8]
        do {
            bytes = try opened.contents(maximumSizeInBytes: 4096)
        } catch let error where error.errno == .fileTooLarge {
            throw CryptError(.tampered, .loadKey, path: file.path, detail: "not a key file", underlying: error)
        } catch {
            throw CryptError(error, .loadKey, path: file.path)
        }
        defer { erase(&bytes) }
        return try key(bytes, path: file.path)
    }

    /// Stores the key unless the file exists; returns the error of a failure.
    private static func store(_ key: SymmetricKey, in file: VaultFile, at directory: OpenDirectory) -> FileSystemError?
    {
        var bytes = magic
        bytes.append(key)
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
            throw CryptError(.tampered, .loadKey, path: path, detail: "not a key file")
        }
        guard bytes.count >= length else { throw CryptError(.truncated, .loadKey, path: path) }
        let checksum = SHA256.hash(data: bytes.prefix(length - checksumLength)).prefix(checksumLength)
        guard bytes.count == length, checksum.elementsEqual(bytes.suffix(checksumLength)) else {
            throw CryptError(.tampered, .loadKey, path: path)
        }
        return SymmetricKey(data: bytes.dropFirst(magic.count).prefix(VaultKey.sizeInBytes))
    }
}

/// Keys of vaults as text, for environment variables and password managers.
public enum VaultKey {
    /// The length of a vault's key: 256 bits.
    public static let sizeInBytes = 32

    /// A new random key.
    public static func random() -> SymmetricKey {
        SymmetricKey(size: .bits256)
    }

    /// Decodes a key from 64 hexadecimal digits; surrounding white space is ignored.
    ///
    /// - Throws: ``CryptError`` with `.invalidKeyMaterial`, which does not quote the text.
    public static func decode(hexadecimal text: String) throws(CryptError) -> SymmetricKey {
        var bytes: [UInt8] = []
        defer { erase(&bytes) }
        var high: UInt8?
        for character in text.trimmingCharacters(in: .whitespacesAndNewlines).utf8 {
            guard let digit = digit(character) else { throw refusal("a character is not a hexadecimal digit") }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        guard high == nil else { throw refusal("an odd number of digits") }
        return try key(bytes)
    }

    /// Decodes a key from base 64 (RFC 4648, padded); surrounding white space is ignored.
    ///
    /// - Throws: ``CryptError`` with `.invalidKeyMaterial`, which does not quote the text.
    public static func decode(base64 text: String) throws(CryptError) -> SymmetricKey {
        guard let data = Data(base64Encoded: text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw refusal("no base 64")
        }
        return try key([UInt8](data))
    }

    private static func key(_ bytes: [UInt8]) throws(CryptError) -> SymmetricKey {
        guard bytes.count == sizeInBytes else { throw refusal("not 256 bits") }
        return SymmetricKey(data: bytes)
    }

    private static func refusal(_ detail: String) -> CryptError {
        CryptError(.invalidKeyMaterial, .importKey, detail: detail)
    }

    private static func digit(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
