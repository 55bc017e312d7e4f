import Crypto
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing
@testable import ForgeCrypt

/// Foreign and tampered bytes, which the vault reader must reject.
@Suite("The vault format")
struct VaultImageTests {
    private static let key = VaultPlace.key

    /// A vault of two secrets whose values are the reverse of their names.
    private static func sample(_ names: [String] = ["alpha", "beta"]) throws -> VaultImage {
        var image = VaultImage(key: key)
        for name in names {
            try image.set(SecretName(name, .set), to: Array(name.utf8.reversed()), .whenUnlocked)
        }
        return image
    }

    private static func damage(_ bytes: [UInt8], _ key: SymmetricKey = key) -> CryptError.Code? {
        do throws(VaultFailure) {
            _ = try VaultImage(bytes, key: key)
            return nil
        } catch {
            return error.code
        }
    }

    @Test("a vault round-trips")
    func roundTrip() throws {
        let image = try Self.sample()
        let read = try VaultImage(image.file(), key: Self.key)
        #expect(read.vaultID == image.vaultID && read.generation == 2 && read.count == 2)
        #expect(read.names.map(\.string) == ["alpha", "beta"])
        for name in read.names { #expect(try read.value(of: name) == name.bytes.reversed()) }
        #expect(read.file() == image.file())
        var changed = read
        try changed.set(SecretName("alpha", .set), to: Array("longer value".utf8), .afterFirstUnlock)
        try changed.remove(SecretName("beta", .delete))
        let again = try VaultImage(changed.file(), key: Self.key)
        let name = try SecretName("alpha", .get)
        #expect(again.generation == 4 && again.names == [name])
        #expect(try again.value(of: name) == Array("longer value".utf8))
        #expect(again.accessibility(of: name) == .afterFirstUnlock)
    }

    @Test("a vault truncated anywhere is reported as truncated")
    func truncation() throws {
        let file = try Self.sample().file()
        for length in 0..<file.count { #expect(Self.damage(Array(file.prefix(length))) == .truncated, "\(length)") }
        #expect(Self.damage(file + [0]) == .tampered)
        #expect(Self.damage(Array("hello".utf8)) == .tampered)
    }

    @Test("a vault with any single bit flipped is reported as tampered")
    func bitFlips() throws {
        let file = try Self.sample().file()
        for bit in 0..<file.count * 8 {
            var changed = file
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(Self.damage(changed) == .tampered, "bit \(bit)")
        }
    }

    @Test("a wrong key is distinguished from damage")
    func wrongKey() throws {
        let file = try Self.sample().file()
        #expect(Self.damage(file, VaultPlace.otherKey) == .wrongKey)
        #expect(Self.damage(file, SymmetricKey(size: .bits128)) == .wrongKey)
    }

    @Test("swapped, duplicated, dropped and replayed entries are detected")
    func shuffledEntries() throws {
        var image = try Self.sample(["aaaa", "bbbb"])
        let old = image.file()
        let length = (old.count - 192) / 2
        let (first, second) = (Array(old[160..<160 + length]), Array(old[160 + length..<160 + 2 * length]))
        func assembled(_ entries: [[UInt8]]) -> [UInt8] { old.prefix(160) + entries.joined() + old.suffix(32) }
        #expect(Self.damage(assembled([first, second])) == nil)
        #expect(Self.damage(assembled([second, first])) == .tampered)
        #expect(Self.damage(assembled([first, first])) == .tampered)
        #expect(Self.damage(assembled([first])) == .truncated)
        #expect(Self.damage(assembled([first, second, first])) == .tampered)
        // Also under right codes: each entry is later than the one before it, and none is later than the header.
        let keys = VaultSubkeys(Self.key, vaultID: image.vaultID)
        func entry(_ name: String, _ generation: UInt64) throws -> [UInt8] {
            try SealedEntry(
                SecretName(name, .set), .whenUnlocked, Array(name.utf8), generation: generation,
                vaultID: image.vaultID, under: keys
            ).bytes
        }
        let next = try entry("bbbb", 2)
        #expect(Self.damage(Self.resealed(assembled([first, next]), keys)) == nil)
        for (name, generation) in [("bbbb", 1), ("bbbb", 3), ("aaaa", 2)] as [(String, UInt64)] {
            let wrong = try entry(name, generation)
            #expect(Self.damage(Self.resealed(assembled([first, wrong]), keys)) == .tampered)
        }
        #expect(Self.damage(Self.resealed(assembled([second, first]), keys)) == .tampered)
        try image.set(SecretName("bbbb", .set), to: Array("BBBB".utf8), .whenUnlocked)
        let new = image.file()
        let replayed = new.prefix(160 + length) + second + new.suffix(32)
        #expect(new.count == old.count && Self.damage(Array(replayed)) == .tampered)
    }

    @Test("a sealed value is bound to its name, vault and accessibility, even if the file's codes are forged")
    func boundEntries() throws {
        let image = try Self.sample(["aaaa", "bbbb"])
        let file = image.file()
        let length = (file.count - 192) / 2
        let keys = VaultSubkeys(Self.key, vaultID: image.vaultID)
        // Prefix 16, box of the name 28 + 4, box of the value 28 + 4.
        var swappedValues = file
        swappedValues.replaceSubrange(160 + 48..<160 + length, with: file[160 + length + 48..<160 + 2 * length])
        let opened = try VaultImage(Self.resealed(swappedValues, keys), key: Self.key)
        #expect(throws: VaultFailure.self) { try opened.value(of: SecretName("aaaa", .get)) }
        #expect(try opened.value(of: SecretName("bbbb", .get)) == Array("bbbb".utf8))

        for changedByte in [0, 2, 3, 4, 8] {
            var changed = file
            changed[160 + changedByte] ^= 3
            #expect(Self.damage(Self.resealed(changed, keys)) == .tampered, "byte \(changedByte) of the prefix")
        }
        let other = try Self.sample(["aaaa", "bbbb"]).file()
        let transplanted = Array(file.prefix(160) + other[160..<160 + length] + file.suffix(32 + length))
        #expect(Self.damage(Self.resealed(transplanted, keys)) == .tampered)
        #expect(Self.damage(Array(file.prefix(160) + other.dropFirst(160))) == .tampered)
        #expect(Self.damage(Array(other.prefix(160) + file.dropFirst(160))) == .tampered)
        for counts in [(1, 2), (3, 2), (65_537, 2)] {
            var changed = file
            changed.replaceSubrange(48..<52, with: Swift.withUnsafeBytes(of: UInt32(counts.0)) { Array($0) })
            #expect(Self.damage(Self.resealed(changed, keys)) == .tampered)
        }
    }

    @Test("a value is bound to its name even if two entries are otherwise equal")
    func boundName() throws {
        let image = VaultImage(key: Self.key)
        let keys = VaultSubkeys(Self.key, vaultID: image.vaultID)
        let entries = try ["aaaa", "bbbb"].map { name in
            try SealedEntry(
                SecretName(name, .set), .whenUnlocked, Array(name.utf8), generation: 1, vaultID: image.vaultID,
                under: keys)
        }
        let spliced = Array(entries[0].bytes.prefix(48) + entries[1].bytes.dropFirst(48))
        var reader = LittleEndianReader(spliced[...])
        let entry = try SealedEntry(&reader, vaultID: image.vaultID, under: keys)
        #expect(entry.name.string == "aaaa")
        #expect(throws: VaultFailure.self) { try entry.value(vaultID: image.vaultID, under: keys) }
    }

    @Test("a later version and unknown fields are distinct errors")
    func newerFormat() throws {
        let image = try Self.sample()
        let keys = VaultSubkeys(Self.key, vaultID: image.vaultID)
        for (position, value) in [(8, 2), (12, 1), (52, 1), (95, 1)] as [(Int, UInt8)] {
            var changed = image.file()
            changed[position] = value
            #expect(Self.damage(Self.resealed(changed, keys)) == .newerFormat, "byte \(position)")
        }
        var impossible = image.file()
        impossible[46] = 1
        #expect(Self.damage(Self.resealed(impossible, keys)) == .tampered)
        impossible[10] = 200
        #expect(Self.damage(Self.resealed(impossible, keys)) == .tampered)
    }

    @Test(
        "a header of another length is that of a later version if it has its checksum",
        arguments: [(44, false), (45, true), (64, true), (200, true)])
    func headerLength(length: Int, isPossible: Bool) {
        var header = VaultHeader.magic + [2, 0, UInt8(length), 0]
        header += [UInt8](repeating: 0, count: length - 32 - header.count)
        header += SHA256.hash(data: header)
        let rest = [UInt8](repeating: 0, count: 200)
        #expect(Self.damage(header + rest) == (isPossible ? .newerFormat : .tampered))
        header[length - 1] ^= 1
        #expect(Self.damage(header + rest) == .tampered)
    }

    @Test("names and counts are limited")
    func limits() throws {
        #expect(SecretName(bytes: [0xFF]) == nil)
        #expect(SecretName(bytes: []) == nil)
        var last = VaultImage(key: Self.key, generation: .max)
        #expect(throws: VaultFailure.self) { try last.set(SecretName("a", .set), to: [], .whenUnlocked) }
        #expect(throws: VaultFailure.self) { try last.remove(SecretName("a", .set)) }
        var image = try Self.sample()
        try image.remove(SecretName("nobody", .delete))
        #expect(image.generation == 2)
    }

    @Test(
        "a secret that would make the vault unreadable is refused",
        .enabled(if: TestDepth.isDeep, "65,536 secrets: only in deep runs"))
    func growth() throws {
        var large = VaultImage(key: Self.key)
        let value = [UInt8](repeating: 7, count: SecretCodec.maximumSizeInBytes)
        for number in 0..<15 { try large.set(SecretName("\(number)", .set), to: value, .whenUnlocked) }
        let tooLong = #expect(throws: VaultFailure.self) {
            try large.set(SecretName("15", .set), to: value, .whenUnlocked)
        }
        #expect(tooLong?.code == .tooLarge && large.count == 15)
        var full = VaultImage(key: Self.key)
        for number in 0..<VaultImage.maximumCount { try full.set(SecretName("\(number)", .set), to: [], .whenUnlocked) }
        let tooMany = #expect(throws: VaultFailure.self) {
            try full.set(SecretName("new", .set), to: [], .whenUnlocked)
        }
        #expect(tooMany?.code == .tooLarge)
        try full.set(SecretName("0", .set), to: [1], .whenUnlocked)
        #expect(try VaultImage(full.file(), key: Self.key).count == VaultImage.maximumCount)
    }

    @Test("a header that counts more secrets than a vault may hold is damaged, even without the key")
    func impossibleCount() throws {
        let image = try Self.sample()
        var header = VaultHeader(vaultID: image.vaultID, generation: 1)
        for (count, isPossible) in [(65_536, true), (65_537, false)] {
            header.entryCount = count
            let bytes = header.bytes(VaultSubkeys(Self.key, vaultID: image.vaultID))
            let place = VaultPlace()
            try place.put(bytes + [UInt8](repeating: 0, count: VaultSubkeys.macLength))
            let code = try CryptError.code { try VaultInformation(of: place.url, fileSystem: place.fileSystem) }
            #expect(code == (isPossible ? nil : .tampered))
        }
    }

    @Test("a vault of an earlier release can still be read")
    func golden() throws {
        let file = try #require(Data(base64Encoded: GoldenVault.version1, options: .ignoreUnknownCharacters))
        let place = VaultPlace()
        try place.put([UInt8](file))
        let vault = try place.vault()
        #expect(try vault.get(CryptKey<String>(key: "auth.access")) == "token123")
        #expect(try vault.get(CryptKey<[Int]>(key: "numbers")) == [1, 2, 3])
        #expect(try vault.get(CryptKey<String>(key: "é🔑")) == "")
        #expect(try vault.keys() == ["auth.access", "numbers", "é🔑"])
        #expect(try vault.accessibility(named: "numbers") == .afterFirstUnlockThisDeviceOnly)
        #expect(try vault.verify() == 3)
    }

    // MARK: Fuzzing

    @Test("a vault with random damage yields the correct error, never a trap or a wrong value")
    func fuzz() throws {
        var generator = SplitMix64(seed: 42)
        let file = try Self.sample().file()
        var unexpected: [String] = []
        for round in 0..<TestDepth.limit(5_000, deep: 200_000) {
            let changed = Self.mutated(file, &generator)
            let code = Self.damage(changed)
            let isRight = changed == file ? code == nil : code == .tampered || code == .truncated
            if !isRight { unexpected.append("round \(round): \(String(describing: code))") }
        }
        #expect(unexpected == [])
    }

    @Test("a vault with random entries and forged codes yields no trap and no wrong value")
    func fuzzForged() throws {
        var generator = SplitMix64(seed: 43)
        let image = try Self.sample()
        let keys = VaultSubkeys(Self.key, vaultID: image.vaultID)
        let file = image.file()
        var wrong: [String] = []
        for round in 0..<TestDepth.limit(1_000, deep: 20_000) {
            let body = Self.mutated(Array(file[160..<file.count - 32]), &generator)
            var changed = Array(file.prefix(160) + body + file.suffix(32))
            let length = UInt64(body.count)
            changed.replaceSubrange(40..<48, with: Swift.withUnsafeBytes(of: length) { Array($0) })
            changed[48] = UInt8.random(in: 0...3, using: &generator)
            do throws(VaultFailure) {
                let read = try VaultImage(Self.resealed(changed, keys), key: Self.key)
                for name in read.names where try read.value(of: name) != name.bytes.reversed() {
                    wrong.append("round \(round)")
                }
            } catch {
                if error.code != .tampered { wrong.append("round \(round): \(error.code)") }
            }
        }
        #expect(wrong == [])
    }

    /// The file with recomputed codes of header and content, which requires the key.
    private static func resealed(_ file: [UInt8], _ keys: VaultSubkeys) -> [UInt8] {
        var header = Array(file.prefix(96))
        header += HMAC<SHA256>.authenticationCode(for: header, using: keys.header)
        header += SHA256.hash(data: header)
        let covered = header + file[160..<max(160, file.count - 32)]
        return covered + HMAC<SHA256>.authenticationCode(for: covered, using: keys.file)
    }

    private static func mutated(_ file: [UInt8], _ generator: inout SplitMix64) -> [UInt8] {
        var bytes = file
        for _ in 0...Int.random(in: 0...3, using: &generator) {
            let position = Int.random(in: 0..<max(1, bytes.count), using: &generator)
            guard position < bytes.count else { continue }
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: bytes[position] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1: bytes[position] = .random(in: 0...255, using: &generator)
            case 2: bytes.removeLast(bytes.count - position)
            case 3: bytes.insert(.random(in: 0...255, using: &generator), at: position)
            case 4: bytes.remove(at: position)
            default:
                let end = min(bytes.count, position + 8)
                bytes.replaceSubrange(position..<end, with: repeatElement(0xFF, count: end - position))
            }
        }
        return bytes
    }
}

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

/// Vault files written by released versions under the key 00 01 … 1f; must never be changed.
enum GoldenVault {
    static let version1 = """
        iUZWTFQNChoBAKAAAAAAALpqOQcB6/7gxEIcudcMLa4DAAAAAAAAAAQBAAAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
        AAAAAAAAAAAAAAAAAAAAAAAAAAAArobN/qwAd5VVaJiLCoUCh+O3vYDNxZ8+AowEb7IqcAfajpUbc2rdQp7xDlwNJFZJ1DcJWOgM
        Vr/fq3yHTKGYlgsAAQALAAAAAQAAAAAAAAAQ2P5vzY6Ue6gD3TuQ81BRnRR/X21yOXoX69tqvX6fWrrFlQH0DVHlRV4dtg22Xl+b
        lDIeNo9N7b5UX4gGEi3DCju2Fn2/6DZZuWrVya4HAAUABgAAAAIAAAAAAAAAVddwQafR7oiOx0mhqCyj+tsY79W9GZmEiY4dvEhO
        AXTuDbLAte/HWeahzK+oxX5ZZeQH3CkZLQhOjBp9AELnNcdu19DKBgADAAMAAAADAAAAAAAAAKxdsi2w19rQqzX9426xpwhsxvnV
        qzmvjhPw2sVooIlyoopRXFKEvUHdlQR4fSLkq6iTPv2LBNXr5ucdY4ruJLEnMYTtHH3YILbY5G+nsC+4UWO7kIFTldiyjF9AmYnC
        MhA=
        """
}
