import ForgeCrypt
import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("A vault on a file system that fails")
struct VaultFailureTests {
    private let fileSystem = RecordingFileSystem()
    private var place: VaultPlace { VaultPlace(fileSystem) }

    @Test(
        "any failing call leaves the old or the new value, and the error states which",
        arguments: [.ioError, .noSpace, .tooManyOpenFiles, .permissionDenied, .readOnlyFileSystem] as [Errno])
    func everyCall(_ errno: Errno) throws {
        let vault = try place.vault()
        var value = 0
        let key = CryptKey<Int>(key: "number")
        try vault.set(value, for: key)
        for operation in [.open, .status, .read, .write, .synchronize, .rename, .lock, .setPermissions, .close, .list]
            as [FileSystemOperation]
        {
            for number in 1...6 {
                let writer = try place.vault()
                fileSystem.fail(operation, errno, number: number)
                let code = try CryptError.code { try writer.set(value + 1, for: key) }
                fileSystem.onCall(nil)
                let stored = try place.vault().get(key)
                switch code {
                case nil, .durabilityUnknown: #expect(stored == value + 1, "\(operation) \(number)")
                case .unavailable(.inputOutput): #expect(stored == value, "\(operation) \(number)")
                default: Issue.record("\(operation) \(number): \(String(describing: code))")
                }
                value = stored ?? -1
                #expect(try writer.get(key) == value)
            }
        }
    }

    @Test("after a failed flush of the directory, a change is visible but of unknown durability")
    func durability() throws {
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        fileSystem.fail(.synchronize, .ioError, number: 2)
        #expect(try CryptError.code { try vault.set("w", for: TestKeys.token) } == .durabilityUnknown)
        fileSystem.onCall(nil)
        #expect(try vault.get(TestKeys.token) == "w")
        fileSystem.fail(.synchronize, .ioError, number: 1)
        #expect(try CryptError.code { try vault.set("x", for: TestKeys.token) } == .unavailable(.inputOutput))
        fileSystem.onCall(nil)
        #expect(try vault.get(TestKeys.token) == "w")
    }

    @Test("unreadable data is unavailable, not absent", arguments: [FileSystemOperation.open, .read, .status])
    func reading(_ operation: FileSystemOperation) throws {
        try place.vault().set("v", for: TestKeys.token)
        let vault = try place.vault()
        fileSystem.onCall { (called, path) throws(FileSystemError) in
            if called == operation { throw FileSystemError(operation, .ioError, path: path) }
        }
        #expect(try CryptError.code { try vault.get(TestKeys.token) } == .unavailable(.inputOutput))
        #expect(try CryptError.code { try vault.deleteAll() } == .unavailable(.inputOutput))
        let information = { try VaultInformation(of: place.url, fileSystem: fileSystem) }
        #expect(try CryptError.code(of: information) == .unavailable(.inputOutput))
        fileSystem.onCall(nil)
        #expect(try vault.get(TestKeys.token) == "v")
    }

    @Test("a vault that cannot be set aside is kept")
    func settingAside() throws {
        try place.vault().set("v", for: TestKeys.token)
        let stranger = try place.vault(VaultPlace.otherKey)
        fileSystem.fail(.rename, .ioError)
        #expect(try CryptError.code { try stranger.deleteAll() } == .unavailable(.inputOutput))
        fileSystem.fail(.rename, .invalidArgument)
        try stranger.deleteAll()
        #expect(try place.names.count == 3)
        try stranger.set("w", for: TestKeys.token)
        // The flushes before are those of the parent directories' names.
        fileSystem.fail(.synchronize, .ioError, number: 3)
        #expect(try CryptError.code { try place.vault().deleteAll() } == .durabilityUnknown)
    }

    @Test("a directory removed between two changes is recreated")
    func vanishedDirectory() throws {
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        try fileSystem.removeItem(at: place.directory)
        try vault.set("w", for: TestKeys.refresh)
        #expect(try vault.keys() == ["auth.refresh"])
        #expect(try fileSystem.status("/app/secrets").permissions == .ownerReadWriteExecute)
    }

    @Test("a signal during the wait for the lock has no effect")
    func interrupted() throws {
        let vault = try place.vault()
        fileSystem.fail(.lock, .interrupted)
        try vault.set("v", for: TestKeys.token)
        #expect(try vault.get(TestKeys.token) == "v")
    }

    @Test("the temporary file of a vault is removed, files with similar names are not")
    func leftovers() throws {
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        let bytes = try fileSystem.readFile(place.path)
        let directory = "/app/secrets/"
        for (name, content) in [
            ("#tmp-of-vaults", bytes), ("#tmp-vault-x", []), ("#tmp-foreign", bytes), ("keep", bytes),
        ] {
            try fileSystem.write(Data(content), to: URL(filePath: directory + name))
        }
        try place.vault().set("w", for: TestKeys.token)
        let left = ["#lock-vaults", "#store-vaults", "#tmp-foreign", "#tmp-vault-x", "app.vault", "keep"]
        #expect(try place.names == left)
    }

    @Test("a temporary file that cannot be removed does not fail the change")
    func failedSweep() throws {
        try place.vault().set("v", for: TestKeys.token)
        try fileSystem.write(Data(place.bytes), to: URL(filePath: "/app/secrets/#tmp-of-vaults"))
        fileSystem.fail(.unlink, .permissionDenied)
        try place.vault().set("x", for: TestKeys.token)
        fileSystem.onCall(nil)
        try place.vault().set("y", for: TestKeys.token)
        #expect(try place.names == ["#lock-vaults", "#store-vaults", "app.vault"])
    }
}
