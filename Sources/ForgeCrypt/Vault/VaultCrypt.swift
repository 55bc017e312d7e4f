public import Crypto
public import ForgeFileSystem
public import Foundation
import Synchronization
import SystemPackage

/// Secrets in one encrypted file, on every platform.
///
/// Names and values are sealed by AES-256-GCM under keys derived from the given one. The file as a whole is
/// authenticated, so that entries cannot be dropped, reordered, exchanged or replaced by their earlier versions. A
/// replacement of the whole file by an older copy is not detected, since that requires a counter outside the file.
///
/// - Every change replaces the file atomically and is durable when the call returns; it costs two flushes and the
///   encryption of one value, and writes the whole file. There is no file before the first change.
/// - Any number of `VaultCrypt` objects and processes may use one file. A lock beside it (`#lock-vaults`) serialises
///   writers, so no change is lost; readers see every acknowledged change. A change waits for the lock for a limited
///   time.
/// - Unreadable data is never overwritten: with a wrong key, or a file that is damaged, truncated or of a later
///   version, every call throws, including `set` and `delete`. ``deleteAll()`` renames such a file.
/// - The file has mode 0600. If other users may read or write it, or if it is a symbolic link, every call throws
///   `.insecureFile`. A missing directory is created with mode 0700. Nothing, not even a lock, is written to a
///   directory that other users own or may write to, sticky or not; root does not count as another user.
/// - In memory the values stay sealed; `get` opens one, decodes it and erases the opened bytes.
///
/// A vault holds up to 65,536 secrets of up to 16 MiB each and 256 MiB together. Nonces are random: after 2³¹ changes
/// of one vault the probability of a collision is 2⁻³² (NIST SP 800-38D, 8.3); ``deleteAll()`` derives new keys.
public final class VaultCrypt: CryptStoring {
    private let file: VaultFile
    private let key: SymmetricKey
    /// Held while the file is looked at, never while a change waits for another process or for the device.
    private let snapshot = Mutex<Snapshot?>(nil)
    /// Held during a change, which may wait for another process; taken before the lock file and ``snapshot``.
    private let writing = Mutex(Preparation())

    private struct Preparation: Sendable {
        var isDirectoryPrepared = false
        var hasRemovedTemporaryFile = false
    }

    /// The content of the file when it was last read or written, and the file, kept open so that its inode is not
    /// reused.
    private final class Snapshot: Sendable {
        let image: VaultImage
        let file: OpenFile
        /// Whether this object has flushed the name of the file.
        let isDurable: Atomic<Bool>

        init(_ image: VaultImage, _ file: consuming OpenFile, isDurable: Bool) {
            self.image = image
            self.file = file
            self.isDurable = Atomic(isDurable)
        }
    }

    /// Creates a vault; nothing is read or created yet.
    ///
    /// - Parameters:
    ///   - url: The vault file; its directory should be the app's own.
    ///   - key: At least 128 random bits, such as ``VaultKeyFile`` creates; not a passphrase.
    ///   - lockTimeout: How long a change waits for other writers of vaults in the directory before it throws
    ///     `.unavailable(.inUse)`.
    ///   - fileSystem: The file system of the vault.
    /// - Throws: ``CryptError``: `.invalidKeyMaterial` for a key that is too short, `.reservedName` for a name that
    ///   begins with `#` or is `log`, `.unavailable` with the reason for a URL that is not a file path.
    public convenience init(
        at url: URL, key: SymmetricKey, lockTimeout: Duration = .seconds(30),
        fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(CryptError) {
        try self.init(VaultFile(url, on: fileSystem, lockTimeout: lockTimeout), key)
    }

    /// Creates a vault below a directory that is only read: every change throws, and no link on its path is followed.
    package convenience init(
        reading path: POSIXPath, in root: ConfinedDirectory, key: SymmetricKey
    ) throws(CryptError) {
        try self.init(VaultFile(reading: path, in: root), key)
    }

    private init(_ file: VaultFile, _ key: SymmetricKey) throws(CryptError) {
        self.file = file
        guard key.bitCount >= 128 else {
            throw CryptError(.invalidKeyMaterial, .open, path: file.path, detail: "shorter than 128 bits")
        }
        self.key = key
    }

    public func get<Value>(_ key: CryptKey<Value>) throws(CryptError) -> Value? {
        guard let bytes = try rawValue(named: key.key) else { return nil }
        return try SecretCodec.decode(bytes, for: key)
    }

    public func set<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) {
        let name = try SecretName(key.key, .set)
        var bytes = try SecretCodec.encode(value, for: key)
        defer { erase(&bytes) }
        try change(.set, key.key) { (image) throws(VaultFailure) in
            try image.set(name, to: bytes, key.accessibility)
            return true
        }
    }

    /// Stores a value if the secret is absent; otherwise the present one is durable when this returns.
    @discardableResult
    public func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws(CryptError) -> Bool {
        let name = try SecretName(key.key, .set)
        var bytes = try SecretCodec.encode(value, for: key)
        defer { erase(&bytes) }
        if try isDurably(.present, name, .set) { return false }
        var isNew = false
        try change(.set, key.key) { (image) throws(VaultFailure) in
            isNew = !image.contains(name)
            if isNew { try image.set(name, to: bytes, key.accessibility) }
            return isNew
        }
        return isNew
    }

    public func delete<Value>(_ key: CryptKey<Value>) throws(CryptError) {
        try deleteValue(named: key.key)
    }

    public func contains<Value>(_ key: CryptKey<Value>) throws(CryptError) -> Bool {
        let name = try SecretName(key.key, .contains)
        return try read(.contains, key.key) { (image) throws(VaultFailure) in image.contains(name) } ?? false
    }

    public func keys() throws(CryptError) -> [String] {
        try read(.keys, nil) { (image) throws(VaultFailure) in image.names.map(\.string) } ?? []
    }

    public func rawValue(named name: String) throws(CryptError) -> [UInt8]? {
        let secretName = try SecretName(name, .get)
        return try read(.get, name) { (image) throws(VaultFailure) in try image.value(of: secretName) } ?? nil
    }

    public func setRawValue(
        _ bytes: [UInt8], named name: String, accessibility: CryptAccessibility
    ) throws(CryptError) {
        let secretName = try SecretName(name, .set)
        try SecretCodec.check(bytes, named: name)
        try change(.set, name) { (image) throws(VaultFailure) in
            try image.set(secretName, to: bytes, accessibility)
            return true
        }
    }

    public func deleteValue(named name: String) throws(CryptError) {
        let secretName = try SecretName(name, .delete)
        if try isDurably(.absent, secretName, .delete) { return }
        try change(.delete, name) { (image) throws(VaultFailure) in
            try image.remove(secretName)
            return true
        }
    }

    /// Removes every secret; the vault gets a new id, and therefore new keys.
    ///
    /// A vault that cannot be read, because the key is wrong or the file is damaged, truncated or of a later version,
    /// is not destroyed but renamed: `.aside-` and 16 characters are appended to its name. Throws if that fails.
    public func deleteAll() throws(CryptError) {
        do throws(CryptError) {
            guard try fileStatus(.deleteAll) != nil else { return try synchronizeName() }
            try withLock(.deleteAll) { (_, directory) throws(CryptError) in
                do throws(CryptError) {
                    guard let snapshot = try current(), snapshot.image.count > 0 else { return try synchronizeName() }
                    // An overflow to 0 is safe: the id, and so the keys of entries, are new.
                    try write(VaultImage(key: key, generation: snapshot.image.generation &+ 1), at: directory)
                } catch let error where error.code.isUnreadableVault {
                    do throws(FileSystemError) {
                        _ = try file.setAside(at: directory)
                    } catch {
                        throw CryptError(error, .deleteAll, path: file.path)
                    }
                }
            }
        } catch {
            throw error.about(.deleteAll, key: nil)
        }
    }

    /// Reads the whole file again and decrypts every value, without returning any.
    ///
    /// - Returns: The number of secrets; 0 if there is no file.
    /// - Throws: ``CryptError`` with the first damage found.
    /// - Complexity: O(size of the vault)
    @discardableResult
    public func verify() throws(CryptError) -> Int {
        snapshot.withLock { $0 = nil }
        let count = try read(.verify, nil) { (image) throws(VaultFailure) in
            for name in image.names {
                guard var value = try image.value(of: name) else { continue }
                erase(&value)
            }
            return image.count
        }
        return count ?? 0
    }

    /// The accessibility that a secret was last set with; nil if there is none.
    package func accessibility(named name: String) throws(CryptError) -> CryptAccessibility? {
        let secretName = try SecretName(name, .get)
        return try read(.get, name) { (image) throws(VaultFailure) in image.accessibility(of: secretName) } ?? nil
    }
}

// MARK: Reading and writing the file

extension VaultCrypt {
    /// Calls `body` with the file's current content; nil if there is no file.
    private func read<Result: Sendable>(
        _ operation: CryptError.Operation, _ name: String?, _ body: (VaultImage) throws(VaultFailure) -> Result
    ) throws(CryptError) -> Result? {
        do throws(CryptError) {
            guard let image = try current()?.image else { return nil }
            do throws(VaultFailure) { return try body(image) } catch { throw damage(error) }
        } catch {
            throw error.about(operation, key: name)
        }
    }

    private enum Presence { case present, absent }

    /// Whether a secret is present or absent as wanted; then this is durable, because no write follows.
    ///
    /// Creates, locks and writes nothing.
    private func isDurably(
        _ wanted: Presence, _ name: SecretName, _ operation: CryptError.Operation
    ) throws(CryptError) -> Bool {
        do throws(CryptError) {
            let isPresent = try current()?.image.contains(name) ?? false
            guard isPresent == (wanted == .present) else { return false }
            try synchronizeName()
            return true
        } catch {
            throw error.about(operation, key: name.string)
        }
    }

    /// Reads the file's present content, changes it and, if `body` returns true, writes it, with the lock held.
    private func change(
        _ operation: CryptError.Operation, _ name: String?, _ body: (inout VaultImage) throws(VaultFailure) -> Bool
    ) throws(CryptError) {
        do throws(CryptError) {
            try withLock(operation) { (preparation, directory) throws(CryptError) in
                var image = try current()?.image ?? VaultImage(key: key)
                if !preparation.hasRemovedTemporaryFile {
                    removeTemporaryFile(directory)
                    preparation.hasRemovedTemporaryFile = true
                }
                let isChanged: Bool
                do throws(VaultFailure) { isChanged = try body(&image) } catch { throw damage(error) }
                guard isChanged else { return try synchronizeName() }
                try write(image, at: directory)
            }
        } catch {
            throw error.about(operation, key: name)
        }
    }

    /// Calls `body` with the lock of the writers held.
    private func withLock(
        _ operation: CryptError.Operation, _ body: (inout Preparation, OpenDirectory) throws(CryptError) -> Void
    ) throws(CryptError) {
        try writing.withLock { (preparation) throws(CryptError) in
            var isPrepared = preparation.isDirectoryPrepared
            defer { preparation.isDirectoryPrepared = isPrepared }
            try file.whileLocked(operation, isPrepared: &isPrepared) { (directory) throws(CryptError) in
                try body(&preparation, directory)
            }
        }
    }

    /// The present content of the file, read again if the file has changed; nil if there is none.
    private func current() throws(CryptError) -> Snapshot? {
        try snapshot.withLock { (snapshot) throws(CryptError) -> Snapshot? in
            if let snapshot, let status = try fileStatus(.get), snapshot.file.isStill(status) { return snapshot }
            snapshot = nil
            guard let opened = try file.open(.get) else { return nil }
            let bytes: [UInt8]
            do throws(FileSystemError) {
                bytes = try opened.contents(maximumSizeInBytes: VaultImage.maximumSizeInBytes)
            } catch  where error.errno == .fileTooLarge {
                throw CryptError(.tampered, .get, path: file.path, detail: "longer than any vault", underlying: error)
            } catch {
                throw CryptError(error, .get, path: file.path)
            }
            let image: VaultImage
            do throws(VaultFailure) { image = try VaultImage(bytes, key: key) } catch { throw damage(error) }
            let new = Snapshot(image, opened, isDurable: false)
            snapshot = new
            return new
        }
    }

    /// Makes the file's name durable before a change is acknowledged that needs no write: the writer of the present
    /// file may have been killed before its flush.
    private func synchronizeName() throws(CryptError) {
        let known = snapshot.withLock { $0 }
        if let known, known.isDurable.load(ordering: .sequentiallyConsistent) { return }
        do {
            try file.synchronizeName()
        } catch {
            throw CryptError(.durabilityUnknown, .delete, path: file.path, underlying: error)
        }
        known?.isDurable.store(true, ordering: .sequentiallyConsistent)
    }

    private func write(_ image: VaultImage, at directory: OpenDirectory) throws(CryptError) {
        // A reader that meets the new file reads it; after a failure the file may be the old or the new one.
        do throws(FileSystemError) {
            var new: Snapshot?
            if let replaced = try file.replace(with: image.file(), at: directory) {
                new = Snapshot(image, replaced, isDurable: true)
            }
            snapshot.withLock { $0 = new }
        } catch {
            throw CryptError(error, .set, path: file.path)
        }
    }

    /// Best effort: the file holds only ciphertext, and the next object tries again.
    private func removeTemporaryFile(_ directory: OpenDirectory) {
        do { try file.removeTemporaryFile(directory) } catch _ {}
    }

    private func fileStatus(_ operation: CryptError.Operation) throws(CryptError) -> FileStatus? {
        do {
            return try file.status()
        } catch {
            throw CryptError(error, operation, path: file.path)
        }
    }

    /// The error of a damaged file; the callers add their operation and the name.
    private func damage(_ failure: VaultFailure) -> CryptError {
        CryptError(failure.code, .get, path: file.path, detail: failure.detail)
    }
}

extension CryptError.Code {
    /// Whether there is a vault file that cannot be read with this key by this version.
    fileprivate var isUnreadableVault: Bool {
        switch self {
        case .wrongKey, .tampered, .truncated, .newerFormat: true
        default: false
        }
    }
}

extension VaultCrypt: CustomReflectable, CustomStringConvertible {
    /// Contains neither stored data nor the key.
    public var customMirror: Mirror { Mirror(self, children: ["path": file.path.description]) }

    public var description: String { "VaultCrypt(\(file.path))" }
}

extension VaultCrypt {
    /// Whether these are the first bytes of a vault.
    package static func isVault(startingWith bytes: [UInt8]) -> Bool {
        bytes.starts(with: VaultHeader.magic)
    }

    /// Whether this is the name of the lock of all vaults of a directory.
    package static func isLock(_ name: POSIXPath) -> Bool { name == VaultFile.lockName }

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
