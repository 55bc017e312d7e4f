import Crypto
import ForgeFileSystem
import Foundation
import SystemPackage

@testable import ForgeCommands
@testable import ForgeCrypt
@testable import ForgeStorage

/// Files that consist of a header, a content and a checksum or code, which is made right before they are parsed.
enum FuzzedFiles {
    private static let secret = SymmetricKey(data: [UInt8](repeating: 7, count: 32))

    private static func checksum(_ pieces: ArraySlice<UInt8>...) -> UInt32 {
        var checksum = CRC32C()
        for piece in pieces { piece.withUnsafeBytes { checksum.update($0) } }
        return checksum.value
    }

    static func parseCache(_ bytes: [UInt8]) throws {
        var bytes = bytes
        var key = "key"
        if bytes.count >= 40 {
            bytes.store(checksum(bytes[..<12], bytes[16...]), at: 12)
            let length = Int(bytes.integer(at: 28, UInt32.self))
            key = String(decoding: bytes[40...].prefix(length), as: UTF8.self)
        }
        let file = try CacheFile(bytes, key: key)
        precondition(file.key.utf8.elementsEqual(key.utf8), "another key")
    }

    static func parseImage(_ bytes: [UInt8]) throws {
        var bytes = bytes
        if bytes.count >= 16 { bytes.store(checksum(bytes[..<12], bytes[16...]), at: 12) }
        _ = try ImageFile.image(in: Data(bytes))
    }

    static func parseVault(_ bytes: [UInt8]) throws {
        var bytes = bytes
        if bytes.count >= VaultHeader.length + VaultSubkeys.macLength {
            let keys = VaultSubkeys(secret, vaultID: Array(bytes[16..<32]))
            bytes.store(UInt64(bytes.count - VaultHeader.length - VaultSubkeys.macLength), at: 40)
            let headerCode = HMAC<SHA256>.authenticationCode(for: bytes[..<96], using: keys.header)
            bytes.replaceSubrange(96..<128, with: Array(headerCode))
            bytes.replaceSubrange(128..<160, with: Array(SHA256.hash(data: bytes[..<128])))
            let covered = bytes.dropLast(VaultSubkeys.macLength)
            let fileCode = HMAC<SHA256>.authenticationCode(for: covered, using: keys.file)
            bytes.replaceSubrange(covered.endIndex..., with: Array(fileCode))
        }
        let image = try VaultImage(bytes, key: secret)
        for name in image.names { _ = try? image.value(of: name) }
    }

    static func parseKey(_ bytes: [UInt8]) throws {
        var bytes = bytes
        if bytes.count > 8 {
            let digest = SHA256.hash(data: bytes.dropLast(8))
            bytes.replaceSubrange((bytes.count - 8)..., with: Array(digest).prefix(8))
        }
        let fileSystem = InMemoryFileSystem(options: .init(seed: 1))
        try fileSystem.makeDirectories("/v")
        try fileSystem.write(bytes, to: "/v/key")
        _ = try? VaultKeyFile.load(at: URL(filePath: "/v/key"), fileSystem: fileSystem)
        if let text = String(validating: bytes, as: UTF8.self) {
            _ = try? VaultKey.decode(hexadecimal: text)
            _ = try? VaultKey.decode(base64: text)
        }
    }

    /// A marker, a journal, and the files of a shared store, which openings read.
    static func parseMarkers(_ bytes: [UInt8]) throws {
        let fileSystem = InMemoryFileSystem(options: .init(seed: 1))
        try fileSystem.makeDirectories("/d")
        var marker = bytes
        if marker.count >= 16 { marker.store(checksum(marker[..<12]), at: 12) }
        try fileSystem.write(marker, to: "/d/#store-files")
        try fileSystem.write(bytes, to: "/d/#journal-0")
        let directory = try fileSystem.open("/d", .readOnly, options: [.directory])
        _ = try fileSystem.owner(of: directory)
        try fileSystem.close(directory)
        let storage = DiskStorage(path: URL(filePath: "/d"), fileSystem: fileSystem)
        try? storage.save(value: Data([1]), for: "a")
    }

    private static let manifestDirectory = FileManager.default.temporaryDirectory.appendingPathComponent(
        "forge-fuzz-\(ProcessInfo.processInfo.processIdentifier)")

    static func parseManifest(_ bytes: [UInt8]) throws {
        // The last line is made right: the checksum of the lines before it.
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { Array($0) }
        if lines.last?.isEmpty == true { lines.removeLast() }
        if lines.count > 1 {
            let others = Array(lines.dropLast().joined(separator: [0x0A])) + [0x0A]
            let end = BackupManifest.End(
                files: lines.count - 2, sha256: BackupManifest.hexadecimal(SHA256.hash(data: others)))
            lines[lines.count - 1] = Array(try JSONText.line(end).utf8.dropLast())
        }
        try FileManager.default.createDirectory(at: manifestDirectory, withIntermediateDirectories: true)
        try Data(lines.joined(separator: [0x0A]) + [0x0A]).write(
            to: manifestDirectory.appendingPathComponent("manifest"))
        try BackupManifestReader(of: POSIXPath(manifestDirectory)).forEach { file in
            let components = try file.relativePath().bytes.split(separator: 0x2F, omittingEmptySubsequences: false)
            precondition(components.allSatisfy { !$0.isEmpty && !$0.elementsEqual("..".utf8) }, "a path leads out")
        }
    }

    static func seeds(of parser: FuzzedParser) throws -> [[UInt8]] {
        switch parser {
        case .cache:
            let file = CacheFile(key: "key", tag: "tag", expiry: 1000, payload: Data([1, 2, 3]))
            return [file.header() + [1, 2, 3], CacheFile(key: "é", tag: nil, expiry: nil, payload: nil).header()]
        case .image:
            let image = CachedImage(id: "a", data: Data([1, 2, 3]), cachedAt: Date(timeIntervalSince1970: 1))
            return [[UInt8](try ImageFile.content(of: image)), [UInt8](try JSONEncoder().encode(image))]
        case .vault:
            var image = VaultImage(key: secret)
            let empty = image.file()
            for text in ["token", "é"] {
                try image.set(SecretName(text, .set), to: Array(text.utf8), .whenUnlocked)
            }
            return [empty, image.file()]
        case .key:
            let fileSystem = InMemoryFileSystem(options: .init(seed: 1))
            try fileSystem.makeDirectories("/v")
            _ = try VaultKeyFile.loadOrCreate(at: URL(filePath: "/v/key"), fileSystem: fileSystem)
            let hexadecimal = String(repeating: "0a", count: 32)
            return [
                try fileSystem.readFile("/v/key"), Array(hexadecimal.utf8),
                Array((Data(repeating: 7, count: 32).base64EncodedString()).utf8),
            ]
        case .markers:
            let fileSystem = InMemoryFileSystem(options: .init(seed: 1))
            try fileSystem.makeDirectories("/d")
            try DiskStorage(path: URL(filePath: "/d"), fileSystem: fileSystem).save(value: Data([1]), for: "a")
            return [StoreMarker.content(of: .files), try fileSystem.readFile("/d/#journal-0")]
        default:
            var lines = [try JSONText.line(BackupManifest.Header(created: Date(timeIntervalSince1970: 0)))]
            lines.append(
                try JSONText.line(
                    BackupManifest.File(
                        path: "d/a", bytes: 3, sha256: String(repeating: "0", count: 64), permissions: 0o644, keys: 4,
                        attributes: ["type": Data("note".utf8)])))
            lines.append(try JSONText.line(BackupManifest.End(files: 1, sha256: "")))
            return [Array(lines.joined().utf8)]
        }
    }
}

extension InMemoryFileSystem {
    func write(_ bytes: [UInt8], to path: POSIXPath) throws {
        let file = try open(path, .writeOnly, options: [.create], permissions: [.ownerReadWrite])
        try writeBytes(bytes, to: file)
        try close(file)
    }
}

extension [UInt8] {
    /// The little-endian integer at an offset.
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, _: Number.Type) -> Number {
        withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    /// Stores a little-endian integer at an offset.
    mutating func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        withUnsafeMutableBytes { $0.storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number)) }
    }
}
