import Crypto
import ForgeCrashTesting
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

/// A writer is killed between its rename and its flush, a second program relies on the existing name, and the power is
/// cut.
@Suite("Names that a killed writer did not flush")
struct VaultDurabilityTests {
    private static let keyURL = URL(filePath: "/app/secrets/vault.key")
    private static let vaultURL = URL(filePath: "/app/secrets/app.vault")

    /// Calls `body` on a file system that fails each flush from this number on, and expects it to throw.
    private static func killed(
        at flush: Int, _ fileSystem: any POSIXFileSystem, _ body: (any POSIXFileSystem) throws -> Void
    ) {
        let failing = RecordingFileSystem(fileSystem)
        let count = Counter()
        failing.onCall { (operation, path) throws(FileSystemError) in
            if operation == .synchronize, count.next() >= flush {
                throw FileSystemError(operation, .ioError, path: path)
            }
        }
        do { try body(failing) } catch {}
    }

    @Test("an existing key file is durable before a vault is sealed with it", arguments: 1...8)
    func keyFile(flush: Int) async throws {
        try await forEachCrash(depth: 1) { fileSystem, run in
            Self.killed(at: flush, fileSystem) {
                _ = try VaultKeyFile.loadOrCreate(at: Self.keyURL, fileSystem: $0)
            }
            let key = try VaultKeyFile.loadOrCreate(at: Self.keyURL, fileSystem: fileSystem)
            run.acknowledge(key.withUnsafeBytes { Data($0) }.base64EncodedString())
        } recover: { fileSystem, crash in
            guard let sealed = crash.acknowledged.last else { return }
            let key = try VaultKeyFile.load(at: Self.keyURL, fileSystem: fileSystem)
            #expect(key?.withUnsafeBytes { Data($0) }.base64EncodedString() == sealed)
        }
    }

    @Test("an existing key file is flushed with its parent directories")
    func flushesChain() throws {
        let fileSystem = RecordingFileSystem()
        let load = { try VaultKeyFile.loadOrCreate(at: Self.keyURL, fileSystem: fileSystem) }
        _ = try load()
        let flushes = Counter()
        fileSystem.onCall { (operation, _) throws(FileSystemError) in
            if operation == .synchronize { _ = flushes.next() }
        }
        _ = try load()
        // The file, /app/secrets, /app and /.
        #expect(flushes.next() == 5)
        fileSystem.fail(.synchronize, .ioError, number: 2)
        #expect(try CryptError.code(of: load) == .durabilityUnknown)
        fileSystem.fail(.synchronize, .readOnlyFileSystem)
        _ = try load()
    }

    @Test("a deletion that finds nothing to delete is durable", arguments: ["delete", "deleteAll"], 1...5)
    func deletion(call: String, flush: Int) async throws {
        let key = VaultPlace.key
        @Sendable func delete(_ fileSystem: any POSIXFileSystem) throws {
            let vault = try VaultCrypt(at: Self.vaultURL, key: key, fileSystem: fileSystem)
            if call == "delete" { try vault.delete(TestKeys.token) } else { try vault.deleteAll() }
        }
        try await forEachCrash(depth: 1) { fileSystem in
            let vault = try VaultCrypt(at: Self.vaultURL, key: key, fileSystem: fileSystem)
            try vault.set("old", for: TestKeys.token)
        } run: { fileSystem, run in
            Self.killed(at: flush, fileSystem) { try delete($0) }
            try delete(fileSystem)
            run.acknowledge("deleted")
        } recover: { fileSystem, crash in
            let vault = try VaultCrypt(at: Self.vaultURL, key: key, fileSystem: fileSystem)
            if crash.acknowledged.contains("deleted") { #expect(try vault.get(TestKeys.token) == nil) }
        }
    }

    @Test("setting a damaged vault aside twice is durable", arguments: 1...3)
    func setAside(flush: Int) async throws {
        try await forEachCrash(depth: 1) { fileSystem in
            let vault = try VaultCrypt(at: Self.vaultURL, key: VaultPlace.otherKey, fileSystem: fileSystem)
            try vault.set("old", for: TestKeys.token)
        } run: { fileSystem, run in
            Self.killed(at: flush, fileSystem) {
                try VaultCrypt(at: Self.vaultURL, key: VaultPlace.key, fileSystem: $0).deleteAll()
            }
            try VaultCrypt(at: Self.vaultURL, key: VaultPlace.key, fileSystem: fileSystem).deleteAll()
            run.acknowledge("deleted")
        } recover: { fileSystem, crash in
            let vault = try VaultCrypt(at: Self.vaultURL, key: VaultPlace.key, fileSystem: fileSystem)
            if crash.acknowledged.contains("deleted") { #expect(try vault.keys().isEmpty) }
        }
    }
}
