import Crypto
public import ForgeFileSystem
public import Foundation

/// The sealed content of a vault, as a value without file access.
struct VaultImage: Sendable {
    /// The maximum size of a vault file, 256 MiB.
    static let maximumSizeInBytes = 256 << 20

    /// The maximum number of secrets in a vault.
    static let maximumCount = 65_536

    private(set) var vaultID: [UInt8]
    private(set) var generation: UInt64
    private var entries: [SecretName: SealedEntry] = [:]
    private var subkeys: VaultSubkeys

    /// The size in bytes of all entries in the file.
    private var bodyLength = 0

    /// Creates an empty vault with a new id; nothing is written.
    init(key: SymmetricKey, generation: UInt64 = 0) {
        var generator = SystemRandomNumberGenerator()
        vaultID = (0..<VaultHeader.vaultIDLength).map { _ in .random(in: 0 ... .max, using: &generator) }
        self.generation = generation
        subkeys = VaultSubkeys(key, vaultID: vaultID)
    }

    /// Parses a vault file, verifies its authentication code, and opens the names.
    ///
    /// - Throws: `.truncated`, `.tampered`, `.newerFormat` or `.wrongKey`. No content is trusted before it is
    ///   authenticated, except the header's lengths, which are checked against the file's.
    init(_ file: [UInt8], key: SymmetricKey) throws(VaultFailure) {
        let header = try VaultHeader(file[...], fileLength: file.count)
        subkeys = VaultSubkeys(key, vaultID: header.vaultID)
        let covered = file.dropLast(VaultSubkeys.macLength)
        guard header.isAuthentic(file[...], under: subkeys) else {
            let entries = covered.dropFirst(VaultHeader.length)
            guard Self.firstEntryOpens(entries, vaultID: header.vaultID, under: subkeys) else {
                throw VaultFailure(.wrongKey)
            }
            throw VaultFailure(.tampered, "the header does not match its key check")
        }
        guard
            HMAC<SHA256>.isValidAuthenticationCode(
                file.suffix(VaultSubkeys.macLength), authenticating: covered, using: subkeys.file)
        else { throw VaultFailure(.tampered, "the content does not match its code") }

        vaultID = header.vaultID
        generation = header.generation
        var reader = LittleEndianReader(covered.dropFirst(VaultHeader.length))
        var lastGeneration: UInt64 = 0
        for _ in 0..<header.entryCount {
            let entry = try SealedEntry(&reader, vaultID: vaultID, under: subkeys)
            guard entry.generation > lastGeneration, entry.generation <= generation,
                entries.updateValue(entry, forKey: entry.name) == nil
            else { throw VaultFailure(.tampered, "impossible order of entries") }
            lastGeneration = entry.generation
        }
        guard reader.rest.isEmpty else { throw VaultFailure(.tampered, "more entries than counted") }
        bodyLength = header.bodyLength
    }

    /// Whether the first entry opens, which shows that the keys are those of the vault.
    private static func firstEntryOpens(
        _ entries: ArraySlice<UInt8>, vaultID: [UInt8], under subkeys: VaultSubkeys
    ) -> Bool {
        var reader = LittleEndianReader(entries)
        do throws(VaultFailure) {
            _ = try SealedEntry(&reader, vaultID: vaultID, under: subkeys)
            return true
        } catch {
            return false
        }
    }

    var count: Int { entries.count }

    var names: [SecretName] { entries.keys.sorted() }

    func contains(_ name: SecretName) -> Bool { entries[name] != nil }

    func accessibility(of name: SecretName) -> CryptAccessibility? { entries[name]?.accessibility }

    /// Opens a value, nil if there is none; the caller must erase it.
    func value(of name: SecretName) throws(VaultFailure) -> [UInt8]? {
        try entries[name]?.value(vaultID: vaultID, under: subkeys)
    }

    /// Seals a value under a name.
    mutating func set(
        _ name: SecretName, to value: [UInt8], _ accessibility: CryptAccessibility
    ) throws(VaultFailure) {
        let next = try nextGeneration()
        let entry = try SealedEntry(name, accessibility, value, generation: next, vaultID: vaultID, under: subkeys)
        let old = entries[name]?.bytes.count ?? 0
        let grown = bodyLength - old + entry.bytes.count
        guard grown + VaultHeader.length + VaultSubkeys.macLength <= Self.maximumSizeInBytes else {
            throw VaultFailure(.tooLarge, "the vault would exceed 256 MiB")
        }
        guard old > 0 || entries.count < Self.maximumCount else {
            throw VaultFailure(.tooLarge, "the vault would contain more than 65,536 secrets")
        }
        entries[name] = entry
        bodyLength = grown
        generation = next
    }

    /// Removes a secret.
    mutating func remove(_ name: SecretName) throws(VaultFailure) {
        let next = try nextGeneration()
        guard let entry = entries.removeValue(forKey: name) else { return }
        bodyLength -= entry.bytes.count
        generation = next
    }

    private func nextGeneration() throws(VaultFailure) -> UInt64 {
        guard generation < .max else { throw VaultFailure(.tooLarge, "the vault was changed too often") }
        return generation + 1
    }

    /// The bytes of the vault file.
    func file() -> [UInt8] {
        var header = VaultHeader(vaultID: vaultID, generation: generation)
        header.bodyLength = bodyLength
        header.entryCount = entries.count
        var file = header.bytes(subkeys)
        file.reserveCapacity(file.count + bodyLength + VaultSubkeys.macLength)
        for entry in entries.values.sorted(by: { $0.generation < $1.generation }) { file += entry.bytes }
        file += HMAC<SHA256>.authenticationCode(for: file, using: subkeys.file)
        return file
    }
}

/// The properties of a vault file that can be read without its key.
public struct VaultInformation: Hashable, Sendable {
    /// The version of the format.
    public var formatVersion: Int

    /// The number of changes of the vault.
    public var generation: UInt64

    /// The number of secrets.
    public var count: Int

    /// The length of the file.
    public var sizeInBytes: Int

    /// Reads the header of a vault file, and verifies its checksum and the file's length. Nothing else can be verified
    /// without the key (``VaultCrypt/verify()``), and none of it is authenticated.
    ///
    /// - Returns: Nil if there is no file.
    /// - Throws: ``CryptError``: `.truncated`, `.tampered`, `.newerFormat`, `.insecureFile`, or `.unavailable`.
    public init?(of url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()) throws(CryptError) {
        try self.init(of: VaultFile(url, on: fileSystem))
    }

    /// Reads the header of a vault file below a directory, without following a link on its path.
    package init?(of path: POSIXPath, in root: ConfinedDirectory) throws(CryptError) {
        try self.init(of: VaultFile(reading: path, in: root))
    }

    private init?(of file: VaultFile) throws(CryptError) {
        guard let opened = try file.open(.verify) else { return nil }
        let start: [UInt8]
        do {
            start = try opened.bytes(at: 0, count: VaultHeader.length)
        } catch {
            throw CryptError(error, .verify, path: file.path)
        }
        do {
            let size = Int(clamping: opened.status.sizeInBytes)
            let header = try VaultHeader(start[...], fileLength: size)
            formatVersion = Int(VaultHeader.version)
            generation = header.generation
            count = header.entryCount
            sizeInBytes = size
        } catch {
            throw CryptError(error.code, .verify, path: file.path, detail: error.detail)
        }
    }
}
