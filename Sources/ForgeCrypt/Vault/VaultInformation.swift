public import ForgeFileSystem
public import Foundation

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
