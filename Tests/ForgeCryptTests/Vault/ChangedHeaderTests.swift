import Crypto
import ForgeCrypt
import Foundation
import Testing

/// Headers changed without the key, so that the checksum is correct but the key check is not.
@Suite("A vault with a changed header")
struct ChangedHeaderTests {
    enum Change: CaseIterable {
        case generation, count, keyCheck, withoutFirstEntry, withoutLastEntry, vaultID, withoutEntries

        /// Whether an entry remains that opens under the key and the vault id in the header.
        var leavesEvidence: Bool { self != .vaultID && self != .withoutEntries }

        func apply(to file: inout [UInt8]) {
            let entryLength = (file.count - 192) / 2
            switch self {
            case .generation: file[32] ^= 1
            case .count: file[48] = 1
            case .keyCheck: file[96] ^= 1
            case .withoutFirstEntry: remove(160..<160 + entryLength, from: &file)
            case .withoutLastEntry: remove(160 + entryLength..<160 + 2 * entryLength, from: &file)
            case .vaultID: file[16] ^= 1
            case .withoutEntries: remove(160..<file.count - 32, from: &file)
            }
            file.replaceSubrange(128..<160, with: Array(SHA256.hash(data: file[..<128])))
        }

        private func remove(_ entries: Range<Int>, from file: inout [UInt8]) {
            let count = 2 - entries.count / ((file.count - 192) / 2)
            file.removeSubrange(entries)
            file.replaceSubrange(40..<48, with: withUnsafeBytes(of: UInt64(file.count - 192).littleEndian, Array.init))
            file[48] = UInt8(count)
        }
    }

    @Test("is tampered if an entry opens, otherwise sealed under another key", arguments: Change.allCases)
    func changed(_ change: Change) throws {
        let place = VaultPlace()
        try place.vault().set("aaaa", for: CryptKey(key: "a"))
        try place.vault().set("bbbb", for: CryptKey(key: "b"))
        var file = try place.bytes
        change.apply(to: &file)
        try place.put(file)
        let code: CryptError.Code = change.leavesEvidence ? .tampered : .wrongKey
        let vault = try place.vault()
        #expect(try CryptError.code { try vault.verify() } == code)
        #expect(try CryptError.code { try vault.get(CryptKey<String>(key: "a")) } == code)
        #expect(try CryptError.code { try vault.set("c", for: CryptKey(key: "c")) } == code)
        #expect(try place.bytes == file)
        #expect(try CryptError.code { try place.vault(VaultPlace.otherKey).verify() } == .wrongKey)
    }

    @Test("the text of a wrong key does not exclude a change")
    func text() {
        let error = CryptError(.wrongKey, .verify)
        #expect(error.description == "verify: sealed under another key, or its header was changed")
    }
}
