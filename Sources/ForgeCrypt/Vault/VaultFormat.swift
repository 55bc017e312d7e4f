import Crypto
import ForgeFileSystem
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
                version > Self.version && length > 44 && Self.hasChecksum(file.prefix(length))
            throw isIntact ? VaultFailure(.newerFormat) : VaultFailure(.tampered, "header damaged")
        }
        guard Self.hasChecksum(file.prefix(length)) else {
            throw VaultFailure(.tampered, "header damaged")
        }
        let flags: UInt32 = try reader.integer()
        vaultID = Array(try reader.bytes(Self.vaultIDLength))
        generation = try reader.integer()
        let bodyLength: UInt64 = try reader.integer()
        entryCount = Int(clamping: try reader.integer() as UInt32)
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

    private static func hasChecksum(_ header: ArraySlice<UInt8>) -> Bool {
        SHA256.hash(data: header.dropLast(32)).elementsEqual(header.suffix(32))
    }

    /// The fields that the key check authenticates.
    private var fields: [UInt8] {
        var bytes = Self.magic
        bytes.append(littleEndian: Self.version)
        bytes.append(littleEndian: UInt16(Self.length))
        bytes.append(littleEndian: UInt32(0))
        bytes += vaultID
        bytes.append(littleEndian: generation)
        bytes.append(littleEndian: UInt64(bodyLength))
        bytes.append(littleEndian: UInt32(entryCount))
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
    func isAuthentic(_ file: ArraySlice<UInt8>, under subkeys: VaultSubkeys) -> Bool {
        let header = file.prefix(Self.checksumOffset)
        return HMAC<SHA256>.isValidAuthenticationCode(
            header.suffix(Self.checksumOffset - Self.keyCheckOffset),
            authenticating: header.prefix(Self.keyCheckOffset), using: subkeys.header)
    }
}

/// A secret as stored in a vault file: its name decrypted, its value still sealed.
struct SealedEntry: Sendable {
    /// Name length, accessibility, value length and generation before the two boxes.
    private static let prefixLength = 16

    /// The lengths of nonce and tag, which surround the ciphertext of AES-GCM.
    private static let nonceLength = 12
    private static let boxOverhead = nonceLength + 16

    let name: SecretName
    let accessibility: CryptAccessibility

    /// The generation of the vault that set this value; no two entries share one.
    let generation: UInt64

    /// The whole entry: prefix, box of the name, box of the value.
    let bytes: [UInt8]

    /// Seals a value.
    init(
        _ name: SecretName, _ accessibility: CryptAccessibility, _ value: [UInt8], generation: UInt64, vaultID: [UInt8],
        under subkeys: VaultSubkeys
    ) throws(VaultFailure) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.prefixLength + name.bytes.count + value.count + 2 * Self.boxOverhead)
        bytes.append(littleEndian: UInt16(name.bytes.count))
        bytes.append(accessibility.vaultCode)
        bytes.append(0)
        bytes.append(littleEndian: UInt32(value.count))
        bytes.append(littleEndian: generation)
        let nameData = Self.associatedData(.name, bytes, vaultID)
        let valueData = Self.associatedData(.value, bytes, vaultID) + name.bytes
        for (plaintext, associatedData) in [(name.bytes, nameData), (value, valueData)] {
            do {
                let box = try AES.GCM.seal(plaintext, using: subkeys.entry, authenticating: associatedData)
                bytes += box.nonce
                bytes += box.ciphertext
                bytes += box.tag
            } catch {
                throw VaultFailure(.unencodable, "the cipher refused the value")
            }
        }
        self.name = name
        self.accessibility = accessibility
        self.generation = generation
        self.bytes = bytes
    }

    /// Reads an entry and opens its name.
    init(
        _ reader: inout LittleEndianReader, vaultID: [UInt8], under subkeys: VaultSubkeys
    ) throws(VaultFailure) {
        let start = reader.rest
        let nameLength = Int(try reader.integer() as UInt16)
        let code: UInt8 = try reader.integer()
        let reserved: UInt8 = try reader.integer()
        let valueLength = Int(clamping: try reader.integer() as UInt32)
        generation = try reader.integer()
        guard let accessibility = CryptAccessibility(vaultCode: code), reserved == 0,
            valueLength <= SecretCodec.maximumSizeInBytes
        else { throw VaultFailure(.tampered, "impossible entry") }
        let nameBox = try reader.bytes(nameLength + Self.boxOverhead)
        let associatedData = Self.associatedData(.name, start.prefix(Self.prefixLength), vaultID)
        guard let name = SecretName(bytes: try Self.open(nameBox, associatedData, subkeys)) else {
            throw VaultFailure(.tampered, "impossible name")
        }
        let valueBox = try reader.bytes(valueLength + Self.boxOverhead)
        self.name = name
        self.accessibility = accessibility
        bytes = Array(start[start.startIndex..<valueBox.endIndex])
    }

    /// Opens the value; the caller must erase it.
    func value(vaultID: [UInt8], under subkeys: VaultSubkeys) throws(VaultFailure) -> [UInt8] {
        let box = bytes.dropFirst(Self.prefixLength + name.bytes.count + Self.boxOverhead)
        let associatedData = Self.associatedData(.value, bytes.prefix(Self.prefixLength), vaultID) + name.bytes
        return try Self.open(box, associatedData, subkeys)
    }

    private enum Part: String {
        case name = "ForgeStorage vault v1 name"
        case value = "ForgeStorage vault v1 value"
    }

    /// The associated data of a box: its part, the format, the vault, and the entry's prefix.
    private static func associatedData(
        _ part: Part, _ prefix: some Collection<UInt8>, _ vaultID: [UInt8]
    ) -> [UInt8] {
        Array(part.rawValue.utf8) + vaultID + prefix
    }

    private static func open(
        _ box: ArraySlice<UInt8>, _ associatedData: [UInt8], _ subkeys: VaultSubkeys
    ) throws(VaultFailure) -> [UInt8] {
        do {
            let sealed = try AES.GCM.SealedBox(
                nonce: AES.GCM.Nonce(data: box.prefix(nonceLength)),
                ciphertext: box.dropFirst(nonceLength).dropLast(16),
                tag: box.suffix(16))
            var opened = try AES.GCM.open(sealed, using: subkeys.entry, authenticating: associatedData)
            defer { opened.resetBytes(in: opened.startIndex..<opened.endIndex) }
            return [UInt8](opened)
        } catch {
            throw VaultFailure(.tampered, "an entry cannot be decrypted")
        }
    }
}

extension CryptAccessibility {
    /// The number of the accessibility in a vault file, which must never change.
    fileprivate var vaultCode: UInt8 {
        switch self {
        case .whenUnlocked: 1
        case .afterFirstUnlock: 2
        case .whenPasscodeSetThisDeviceOnly: 3
        case .whenUnlockedThisDeviceOnly: 4
        case .afterFirstUnlockThisDeviceOnly: 5
        }
    }

    fileprivate init?(vaultCode: UInt8) {
        guard let match = Self.allCases.first(where: { $0.vaultCode == vaultCode }) else { return nil }
        self = match
    }
}

/// The keys that seal a vault: one for each purpose, derived from the caller's key and the vault's id.
///
/// HKDF (RFC 5869) with SHA-256, the vault's id as salt. The caller's key itself seals nothing, and two vaults under
/// one key have different derived keys.
struct VaultSubkeys: Sendable {
    /// The length of the authentication code at the end of a vault file.
    static let macLength = 32

    /// Seals names and values, by AES-256-GCM.
    let entry: SymmetricKey

    /// Authenticates the header, by HMAC-SHA-256, which detects a wrong key at once.
    let header: SymmetricKey

    /// Authenticates the whole file, by HMAC-SHA-256.
    let file: SymmetricKey

    init(_ key: SymmetricKey, vaultID: [UInt8]) {
        func derive(_ purpose: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: key, salt: vaultID, info: Array("ForgeStorage vault v1 \(purpose)".utf8),
                outputByteCount: 32)
        }
        entry = derive("entry")
        header = derive("header")
        file = derive("file")
    }
}

/// Reads integers and runs of bytes; each length is checked against the remaining bytes.
struct LittleEndianReader {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    mutating func bytes(_ count: Int) throws(VaultFailure) -> ArraySlice<UInt8> {
        guard count >= 0, count <= rest.count else { throw VaultFailure(.tampered, "a length leads beyond the end") }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func integer<Number: FixedWidthInteger>() throws(VaultFailure) -> Number {
        try bytes(Number.bitWidth / 8).reversed().reduce(0) { $0 << 8 | Number($1) }
    }
}

/// A failure to seal, parse or open the bytes of a vault; the store adds operation, secret and path.
struct VaultFailure: Error {
    let code: CryptError.Code
    let detail: String?

    init(_ code: CryptError.Code, _ detail: String? = nil) {
        self.code = code
        self.detail = detail
    }
}
