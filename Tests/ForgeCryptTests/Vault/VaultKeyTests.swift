import Crypto
import Dispatch
import ForgeCrypt
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("Keys of vaults")
struct VaultKeyTests {
    private let place = VaultPlace()
    private var url: URL { place.directory.appending(path: "vault.key") }

    private func loadOrCreate() throws -> SymmetricKey {
        try VaultKeyFile.loadOrCreate(at: url, fileSystem: place.fileSystem)
    }

    @Test("a key file is created once, private, and loaded from then on")
    func keyFile() throws {
        #expect(try VaultKeyFile.load(at: url, fileSystem: place.fileSystem) == nil)
        let key = try loadOrCreate()
        #expect(key.bitCount == 256)
        #expect(try loadOrCreate() == key)
        #expect(try VaultKeyFile.load(at: url, fileSystem: place.fileSystem) == key)
        let status = try place.fileSystem.status("/app/secrets/vault.key")
        #expect(status.permissions == .ownerReadWrite && status.sizeInBytes == 48)
        #expect(try place.fileSystem.status("/app/secrets").permissions == .ownerReadWriteExecute)
    }

    @Test("concurrent calls get the same key")
    func race() throws {
        let disk = VaultPlace(onDisk: "key")
        let url = disk.directory.appending(path: "vault.key")
        let keys = Mutex<[SymmetricKey]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            do {
                let key = try VaultKeyFile.loadOrCreate(at: url)
                keys.withLock { $0.append(key) }
            } catch {
                Issue.record(error)
            }
        }
        let all = keys.withLock { $0 }
        #expect(all.count == 8)
        #expect(all.allSatisfy { $0 == all[0] })
    }

    @Test("a key file that another process creates during the wait for the lock is loaded")
    func createdMeanwhile() throws {
        let memory = InMemoryFileSystem()
        let fileSystem = RecordingFileSystem(memory)
        let url = url
        let other = Mutex<SymmetricKey?>(nil)
        fileSystem.onCall { (operation, _) throws(FileSystemError) in
            guard operation == .lock, other.withLock({ $0 == nil }) else { return }
            do {
                let key = try VaultKeyFile.loadOrCreate(at: url, fileSystem: memory)
                other.withLock { $0 = key }
            } catch {
                Issue.record(error)
            }
        }
        let key = try VaultKeyFile.loadOrCreate(at: url, fileSystem: fileSystem)
        #expect(key == other.withLock { $0 })
    }

    @Test("a damaged key file is a distinct error and is never replaced")
    func damaged() throws {
        _ = try loadOrCreate()
        let bytes = try place.fileSystem.readFile("/app/secrets/vault.key")
        func code(_ changed: [UInt8]) throws -> CryptError.Code? {
            try place.put(changed)
            try place.fileSystem.rename(place.path, to: "/app/secrets/vault.key")
            let code = try CryptError.code { try loadOrCreate() }
            #expect(try place.fileSystem.readFile("/app/secrets/vault.key") == changed)
            return code
        }
        for length in 0..<bytes.count { #expect(try code(Array(bytes.prefix(length))) == .truncated) }
        for bit in 0..<bytes.count * 8 {
            var changed = bytes
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(try code(changed) == .tampered)
        }
        #expect(try code(bytes + [0]) == .tampered)
        #expect(try code([UInt8](repeating: 65, count: 5000)) == .tampered)
        #expect(try code(Array("password\n".utf8)) == .tampered)
    }

    @Test("a key file that other users may read is refused")
    func insecure() throws {
        _ = try loadOrCreate()
        try place.fileSystem.setPermissions(
            [.ownerReadWrite, .groupRead], of: .path("/app/secrets/vault.key"))
        #expect(try CryptError.code { try loadOrCreate() } == .insecureFile)
    }

    @Test("a key file that cannot be read or written is unavailable, and no key is generated")
    func unavailable() throws {
        let failing = RecordingFileSystem()
        let load = { try VaultKeyFile.loadOrCreate(at: url, fileSystem: failing) }
        failing.fail(.rename, .noSpace)
        #expect(try CryptError.code(of: load) == .noSpace)
        failing.onCall(nil)
        let key = try load()
        failing.fail(.read, .ioError)
        #expect(try CryptError.code(of: load) == .unavailable(.inputOutput))
        failing.onCall(nil)
        #expect(try load() == key)
    }

    @Test("hexadecimal and base 64 keys are decoded")
    func texts() throws {
        let bytes = VaultPlace.key.withUnsafeBytes { Data($0) }
        let digits = bytes.map { String(format: "%02x", $0) }.joined()
        #expect(try VaultKey.decode(hexadecimal: digits) == VaultPlace.key)
        #expect(try VaultKey.decode(hexadecimal: " \(digits.uppercased())\n") == VaultPlace.key)
        #expect(try VaultKey.decode(base64: bytes.base64EncodedString() + "\n") == VaultPlace.key)
        #expect(VaultKey.random() != VaultKey.random())
    }

    @Test(
        "text that is not a key is refused, and not quoted",
        arguments: ["", "s3cr3t", "0", String(repeating: "0", count: 62), String(repeating: "g", count: 64), "%%%%"])
    func refusedTexts(_ text: String) throws {
        let decoders: [() throws -> SymmetricKey] = [
            { try VaultKey.decode(hexadecimal: text) }, { try VaultKey.decode(base64: text) },
        ]
        for decode in decoders {
            let error = try #require(#expect(throws: CryptError.self) { try decode() })
            #expect(error.code == .invalidKeyMaterial)
            #expect(!error.description.contains("s3cr3t"))
        }
    }
}
