import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Logging
import TestDepth
import Testing

/// Each bit of a store's files, flipped as seen by a program that opens the store.
///
/// `DiskFileStore` and `DiskStorage` store plain bytes without checksums: there a flipped bit is a wrong byte, as in
/// any file.
@Suite("Stores on rotten disks")
struct FlippedBitTests {
    private static let secrets = ["a": "first secret", "b": "second secret"]
    private static let vault = URL(filePath: "/secrets/vault")
    private static let keyFile = URL(filePath: "/secrets/key")

    private static func openValues(_ fileSystem: any POSIXFileSystem) throws -> FileKVStore {
        var options = FileKVStore.Options(logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        options.reserveLittle()
        return try FileKVStore(at: "/kv", fileSystem: fileSystem, options: options)
    }

    /// Prime to 8, so that a quick run flips bits at every position in a byte.
    private let step = TestDepth.limit(13, deep: 1)

    private static func makeSecrets() throws -> InMemoryFileSystem {
        let fileSystem = InMemoryFileSystem()
        let key = try VaultKeyFile.loadOrCreate(at: keyFile, fileSystem: fileSystem)
        let vault = try VaultCrypt(at: vault, key: key, fileSystem: fileSystem)
        for (name, value) in secrets { try vault.set(value, for: CryptKey(key: name)) }
        return fileSystem
    }

    @Test("a flipped bit in a log yields the right value or an error")
    func values() throws {
        let expected = ["a": "first", "b": "second", "c": "third"]
        let report = try forEachFlippedBit(of: "/kv/log", every: step) {
            let fileSystem = InMemoryFileSystem()
            let store = try Self.openValues(fileSystem)
            for (name, value) in expected { try store.set(KVKey(name), value: value) }
            return fileSystem
        } _: { fileSystem in
            let store = try Self.openValues(fileSystem)
            for name in expected.keys {
                let value = try store.read(KVKey<String>(name))
                guard value == nil || value == expected[name] else { throw ConformanceViolation("\(name) is wrong") }
            }
            for name in try store.keys() {
                let value = try store.read(KVKey<String>(name))
                guard value == expected[name] else { throw ConformanceViolation("\(name) is \(value ?? "nothing")") }
            }
            guard try store.keys().count == expected.count || !store.damageReports().isEmpty else {
                throw ConformanceViolation("values are missing, and nothing says so")
            }
        }
        #expect(report.bitCount == report.readCount)
    }

    @Test("a vault with a flipped bit returns no secret, and none is overwritten")
    func vault() throws {
        let made = try Self.makeSecrets()
        let image = made.image
        let key = try #require(try VaultKeyFile.load(at: Self.keyFile, fileSystem: made))
        let report = try forEachFlippedBit(of: "/secrets/vault", every: step, on: { InMemoryFileSystem(image) }) {
            fileSystem in
            let vault = try VaultCrypt(at: Self.vault, key: key, fileSystem: fileSystem)
            for name in Self.secrets.keys {
                do {
                    _ = try vault.get(CryptKey<String>(key: name))
                } catch let error as CryptError where error.code == .tampered {
                    continue
                }
                throw ConformanceViolation("\(name) was shown")
            }
            do {
                try vault.set("new", for: CryptKey(key: "a"))
            } catch let error as CryptError where error.code == .tampered {
                return
            }
            throw ConformanceViolation("the vault was overwritten")
        }
        #expect(report.bitCount == report.readCount)
    }

    @Test("a key file with a flipped bit yields no key, and is not replaced")
    func keyFile() throws {
        let image = try Self.makeSecrets().image
        let report = try forEachFlippedBit(of: "/secrets/key", every: step, on: { InMemoryFileSystem(image) }) {
            fileSystem in
            do {
                _ = try VaultKeyFile.loadOrCreate(at: Self.keyFile, fileSystem: fileSystem)
            } catch let error as CryptError where error.code == .tampered {
                return
            }
            throw ConformanceViolation("a key came out of it")
        }
        #expect(report.bitCount == (48 * 8 + step - 1) / step && report.readCount == report.bitCount)
    }
}
