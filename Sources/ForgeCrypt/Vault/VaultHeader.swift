import Crypto
import Foundation

/// The first 160 bytes of a vault file; the documentation of the target describes the layout.
struct VaultHeader: Sendable {
    static let magic: [UInt8] = [0x89, 0x46, 0x56, 0x4C, 0x54, 0x0D, 0x0A, 0x1A]
    static let version: UInt16 = 1
    static let length = 160
    static let vaultIDLength = 16

    /// The end of the fields that the key check authenticates.
    private static let keyCheckOffset = 96

    /// The end of the part that the checksum covers.
    private static let checksumOffset = 128

    /// Random, new whenever a vault is created or emptied.
    var vaultID: [UInt8]

    /// The number of changes of the vault.
    var generation: UInt64

    /// The size in bytes of the entries after the header.
    var bodyLength: Int

    var entryCount: Int

    /// Creates the header of an empty vault.
    init(vaultID: [UInt8], generation: UInt64) {
        self.vaultID = vaultID
        self.generation = generation
        bodyLength = 0
        entryCount = 0
    }

    /// Parses a header and checks everything that can be checked without the key.
    ///
    /// - Parameters:
    ///   - file: The available beginning of the file.
    ///   - fileLength: The length of the whole file.
    /// - Throws: `.truncated`, `.tampered` or `.newerFormat`.
    init(_ file: ArraySlice<UInt8>, fileLength: Int) throws(VaultFailure) {
        guard file.count >= Self.length else {
            let isStartOfVault = Self.magic.starts(with: file.prefix(Self.magic.count))
            throw VaultFailure(isStartOfVault ? .truncated : .tampered, "no vault header")
        }
        var reader = LittleEndianReader(file)
        guard try reader.bytes(Self.magic.count).elementsEqual(Self.magic) else {
            throw VaultFailure(.tampered, "not a vault file")
        }
        let version: UInt16 = try reader.integer()
        let length = Int(try reader.integer() as UInt16)
        guard version == Self.version, length == Self.length else {
            // Every version has magic, version, header length, and a checksum in the header's last 32 bytes.
            let isIntact =
                version > Self.version && length > 44 && Self.hasChecksum(file.prefix(length), length: length)
            throw isIntact ? VaultFailure(.newerFormat) : VaultFailure(.tampered, "header damaged")
        }
        guard Self.hasChecksum(file.prefix(length), length: length) else {
            throw VaultFailure(.tampered, "header damaged")
        }
        let flags: UInt32 = try reader.integer()
        vaultID = Array(try reader.bytes(Self.vaultIDLength))
        generation = try reader.integer()
        let bodyLength: UInt64 = try reader.integer()
        entryCount = Int(try reader.integer() as UInt32)
        let reserved = try reader.bytes(Self.keyCheckOffset - 52)
        guard flags == 0, reserved.allSatisfy({ $0 == 0 }) else {
            throw VaultFailure(.newerFormat)
        }
        let rest = fileLength - Self.length - VaultSubkeys.macLength
        guard bodyLength <= VaultImage.maximumSizeInBytes else { throw VaultFailure(.tampered, "impossible length") }
        guard entryCount <= VaultImage.maximumCount else { throw VaultFailure(.tampered, "impossible count") }
        self.bodyLength = Int(bodyLength)
        guard rest >= self.bodyLength else { throw VaultFailure(.truncated) }
        guard rest == self.bodyLength else { throw VaultFailure(.tampered, "longer than its header says") }
    }

    private static func hasChecksum(_ header: ArraySlice<UInt8>, length: Int) -> Bool {
        guard header.count == length else { return false }
        return SHA256.hash(data: header.dropLast(32)).elementsEqual(header.suffix(32))
    }

    /// The fields that the key check authenticates.
    private var fields: [UInt8] {
        var bytes = Self.magic
        bytes.appendLittleEndian(Self.version)
        bytes.appendLittleEndian(UInt16(Self.length))
        bytes.appendLittleEndian(UInt32(0))
        bytes += vaultID
        bytes.appendLittleEndian(generation)
        bytes.appendLittleEndian(UInt64(bodyLength))
        bytes.appendLittleEndian(UInt32(entryCount))
        bytes += [UInt8](repeating: 0, count: Self.keyCheckOffset - bytes.count)
        return bytes
    }

    /// The header as stored in the file.
    func bytes(_ subkeys: VaultSubkeys) -> [UInt8] {
        var bytes = fields
        bytes += HMAC<SHA256>.authenticationCode(for: bytes, using: subkeys.header)
        bytes += SHA256.hash(data: bytes)
        return bytes
    }

    /// Whether the header of `file`, from which this value was parsed, was written under these keys.
    func isSealed(_ file: ArraySlice<UInt8>, under subkeys: VaultSubkeys) -> Bool {
        let header = file.prefix(Self.checksumOffset)
        return HMAC<SHA256>.isValidAuthenticationCode(
            header.suffix(Self.checksumOffset - Self.keyCheckOffset),
            authenticating: header.prefix(Self.keyCheckOffset), using: subkeys.header)
    }
}
