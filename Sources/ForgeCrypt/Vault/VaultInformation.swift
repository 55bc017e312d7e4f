public import ForgeFileSystem
public import Foundation

/// What can be read of a vault file without its key.
public struct VaultInformation: Hashable, Sendable {
    /// The version of the format.
    public var formatVersion: Int

    /// How many changes the vault has seen.
    public var generation: UInt64

    /// How many secrets it holds.
    public var count: Int

    /// The length of the file.
    public var sizeInBytes: Int

    /// Reads the header of a vault file and checks it by its checksum, and the file's length; nothing else can be
    /// checked without the key (``VaultCrypt/verify()``), and none of it is authenticated.
    ///
    /// - Returns: Nil if there is no file.
    /// - Throws: ``CryptError``: `.truncated`, `.tampered`, `.newerFormat`, `.insecureFile`, or `.unavailable`.
    public init?(of url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()) throws(CryptError) {
        let file = try VaultFile(url, on: fileSystem)
        guard let held = try file.open(.verify) else { return nil }
        let start: [UInt8]
        do {
            start = try held.start(VaultHeader.length)
        } catch {
            throw CryptError(error, .verify, path: file.path)
        }
        do {
            let size = Int(clamping: held.status.sizeInBytes)
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
