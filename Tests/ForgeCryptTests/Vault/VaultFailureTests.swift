import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
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
                case .noSpace where errno == .noSpace, .unavailable(.inputOutput) where errno != .noSpace:
                    #expect(stored == value, "\(operation) \(number)")
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

@Suite("Locations that vaults and key files refuse")
struct VaultPlacementTests {
    private let fileSystem = InMemoryFileSystem()
    private static let attacker = UserID(1001)

    private func url(_ path: String) -> URL { URL(filePath: path, directoryHint: .notDirectory) }

    @Test(
        "a reserved name is refused before anything is created",
        arguments: [
            "#tmp-of-vaults", "#lock-vaults", "#lock", "#tmp-x", "#trash-x", "#journal-0", "#shared", "#log-new",
            "#TMP-x", "\u{200D}#tmp-of-vaults", "#", "log", "LOG",
        ])
    func reservedName(name: String) throws {
        let url = url("/app/" + name)
        #expect(throws: CryptError.self) { try VaultCrypt(at: url, key: VaultPlace.key, fileSystem: fileSystem) }
        #expect(throws: CryptError.self) { try VaultKeyFile.loadOrCreate(at: url, fileSystem: fileSystem) }
        #expect(throws: CryptError.self) { try VaultKeyFile.load(at: url, fileSystem: fileSystem) }
        #expect(throws: CryptError.self) { try VaultInformation(of: url, fileSystem: fileSystem) }
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/")).isEmpty)
    }

    @Test(
        "in a directory that other users may write to no file is created, not even a lock",
        arguments: [0o1777, 0o777, 0o1770, 0o702])
    func sharedDirectory(mode: CInterop.Mode) throws {
        try fileSystem.makeDirectories("/shared")
        try fileSystem.setPermissions(FilePermissions(rawValue: mode), of: .path("/shared"))
        let vault = try VaultCrypt(at: url("/shared/v"), key: VaultPlace.key, fileSystem: fileSystem)
        #expect(try CryptError.code { try vault.set("v", for: TestKeys.token) } == .insecureFile)
        let code = try CryptError.code { try VaultKeyFile.loadOrCreate(at: url("/shared/k"), fileSystem: fileSystem) }
        #expect(code == .insecureFile)
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/shared")).isEmpty)
    }

    @Test("a key file of another user is refused, even by root")
    func plantedKey() throws {
        let other = fileSystem.process(user: Self.attacker)
        let open = FilePermissions(rawValue: 0o755)
        try fileSystem.makeDirectories("/shared/app", permissions: open)
        try fileSystem.setOwner(Self.attacker, group: nil, of: .path("/shared/app"))
        _ = try VaultKeyFile.loadOrCreate(at: url("/shared/app/key"), fileSystem: other)
        try fileSystem.setOwner(UserID(0), group: nil, of: .path("/shared/app"))
        for isCreating in [true, false] {
            let code = try CryptError.code {
                isCreating
                    ? try VaultKeyFile.loadOrCreate(at: url("/shared/app/key"), fileSystem: fileSystem)
                    : try VaultKeyFile.load(at: url("/shared/app/key"), fileSystem: fileSystem)
            }
            #expect(code == .insecureFile)
        }
        #expect(try VaultKeyFile.load(at: url("/shared/app/key"), fileSystem: other) != nil)
    }

    @Test("nothing is written to a directory of another user, even by root")
    func directoryOfAnotherUser() throws {
        try fileSystem.makeDirectories("/app")
        try fileSystem.setOwner(Self.attacker, group: nil, of: .path("/app"))
        let vault = try VaultCrypt(at: url("/app/v"), key: VaultPlace.key, fileSystem: fileSystem)
        #expect(try CryptError.code { try vault.set("v", for: TestKeys.token) } == .insecureFile)
        let code = try CryptError.code { try VaultKeyFile.loadOrCreate(at: url("/app/k"), fileSystem: fileSystem) }
        #expect(code == .insecureFile)
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/app")).isEmpty)
    }

    @Test("a change waits for the lock of another process only as long as the vault allows")
    func heldLock() throws {
        try fileSystem.makeDirectories("/app")
        let other = fileSystem.process()
        let held = try other.open(
            "/app/#lock-vaults", .readWrite, options: [.create], permissions: [.ownerReadWrite])
        try other.lock(held, .exclusive, waiting: false)
        let vault = try VaultCrypt(
            at: url("/app/v"), key: VaultPlace.key, lockTimeout: .milliseconds(2), fileSystem: fileSystem)
        #expect(try CryptError.code { try vault.set("v", for: TestKeys.token) } == .unavailable(.inUse(processID: nil)))
        try other.close(held)
        try vault.set("v", for: TestKeys.token)
        #expect(try vault.get(TestKeys.token) == "v")
    }

    @Test("the effective user owns the files that a process creates, also through a wrapper")
    func effectiveUser() throws {
        let other = fileSystem.process(user: Self.attacker)
        #expect(other.effectiveUser == Self.attacker)
        #expect(FaultingFileSystem(other).effectiveUser == Self.attacker)
        #expect(InterceptedFileSystem(other) { (_) throws(FileSystemError) in }.effectiveUser == Self.attacker)
        let system = SystemFileSystem()
        let url = FileManager.default.temporaryDirectory.appending(path: "forge-crypt-owner-\(UUID().uuidString)")
        try system.write(Data(), to: url)
        defer { try? system.removeItem(at: url) }
        #expect(try system.status(POSIXPath(url)).owner == system.effectiveUser)
    }
}
