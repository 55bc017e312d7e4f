import Crypto
import Foundation

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
        bytes.appendLittleEndian(UInt16(name.bytes.count))
        bytes.append(accessibility.vaultCode)
        bytes.append(0)
        bytes.appendLittleEndian(UInt32(value.count))
        bytes.appendLittleEndian(generation)
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
        let valueLength = Int(try reader.integer() as UInt32)
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
            throw VaultFailure(.tampered, "an entry does not open")
        }
    }
}

extension CryptAccessibility {
    /// The number of the class in a vault, which must never change.
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
