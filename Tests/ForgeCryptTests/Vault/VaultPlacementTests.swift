import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("Locations that vaults and key files refuse")
struct VaultPlacementTests {
    private let fileSystem = InMemoryFileSystem()
    private static let attacker = UserID(1001)

    private func url(_ path: String) -> URL { URL(filePath: path, directoryHint: .notDirectory) }

    @Test(
        "a reserved name is refused before anything is created",
        arguments: [
            "#tmp-of-vaults", "#lock-vaults", "#lock", "#tmp-x", "#trash-x", "#journal-0", "#shared", "#log-new",
            "#TMP-x", "\u{200D}#tmp-of-vaults", "#",
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
