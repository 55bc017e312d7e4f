import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The vault")
struct VaultCryptTests {
    @Test("another object reads stored values, and reading creates nothing")
    func persistence() throws {
        let place = VaultPlace(onDisk: "persistence")
        let vault = try place.vault()
        #expect(try vault.get(TestKeys.token) == nil)
        #expect(try vault.keys() == [])
        try vault.delete(TestKeys.token)
        try vault.deleteAll()
        #expect(try vault.verify() == 0)
        #expect(try VaultInformation(of: place.url) == nil)
        #expect(!place.fileSystem.fileExists(atPath: place.directory.path(percentEncoded: false)))
        try vault.set("v", for: TestKeys.token)
        #expect(try place.vault().get(TestKeys.token) == "v")
        #expect(try place.vault().verify() == 1)
        #expect(try place.names == ["#lock-vaults", "#store-vaults", "app.vault"])
        try vault.deleteAll()
        #expect(try place.vault().keys() == [])
        let information = try VaultInformation(of: place.url)
        #expect(information?.count == 0 && information?.generation == 2 && information?.formatVersion == 1)
        #expect(information?.sizeInBytes == 192)
        // An empty vault is not written again.
        try vault.deleteAll()
        #expect(try VaultInformation(of: place.url)?.generation == 2)
    }

    @Test("neither a vault nor a key file is created in the directory of a file store")
    func directoryOfFiles() throws {
        let place = VaultPlace(onDisk: "directory of files")
        try place.vault().set("v", for: TestKeys.token)
        let directory = place.directory.appending(path: "files")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let system = SystemFileSystem()
        let root = try system.open(POSIXPath(directory), .readOnly, options: [.directory], permissions: [])
        defer { system.discard(root) }
        try system.setPermissions(.ownerReadWriteExecute, of: .descriptor(root))
        try system.mark(root, as: .files, temporary: "#tmp-mark")
        let vault = try VaultCrypt(at: directory.appending(path: "vault"), key: VaultKey.random())
        #expect(throws: CryptError.self) { try vault.set("v", for: TestKeys.token) }
        #expect(throws: CryptError.self) { try VaultKeyFile.loadOrCreate(at: directory.appending(path: "key")) }
        #expect(try system.entries(of: root).map(\.name) == [StoreKind.files.markerName])
    }

    @Test("file and directory are private, whatever the umask")
    func modes() throws {
        let place = VaultPlace(InMemoryFileSystem(options: .init(umask: [])))
        try place.vault().set("v", for: TestKeys.token)
        #expect(try place.fileSystem.status(place.path).permissions == .ownerReadWrite)
        #expect(try place.fileSystem.status("/app/secrets").permissions == .ownerReadWriteExecute)
        #expect(try place.fileSystem.status("/app").permissions == .ownerReadWriteExecute)
        #expect(try place.fileSystem.status("/app/secrets/#lock-vaults").permissions == .ownerReadWrite)
    }

    @Test("the vault can be used whatever the umask", arguments: [0o177, 0o777] as [FilePermissions.RawValue])
    func strictUmask(_ umask: FilePermissions.RawValue) throws {
        let base = InMemoryFileSystem(options: .init(user: UserID(7), group: GroupID(7)))
        let superuser = base.process(user: UserID(0), group: GroupID(0))
        try superuser.setPermissions(FilePermissions(rawValue: 0o777), of: .path("/"))
        let place = VaultPlace(base.process(umask: FilePermissions(rawValue: umask)))
        // The second change opens the lock file that the first one has created.
        for value in ["v", "w"] {
            try place.vault().set(value, for: TestKeys.token)
            #expect(try place.vault().get(TestKeys.token) == value)
        }
        #expect(try superuser.status(place.path).permissions == .ownerReadWrite)
        #expect(try superuser.status("/app/secrets").permissions == .ownerReadWriteExecute)
    }

    @Test("every call refuses a file that other users may access", arguments: [0o640, 0o604, 0o660, 0o602, 0o610])
    func insecureModes(_ mode: CInterop.Mode) throws {
        let place = VaultPlace()
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        try place.fileSystem.setPermissions(FilePermissions(rawValue: mode), of: .path(place.path))
        try expectAll(.insecureFile, vault)
        #expect(try CryptError.code { try vault.deleteAll() } == .insecureFile)
        try place.fileSystem.setPermissions(.ownerReadWrite, of: .path(place.path))
        #expect(try vault.get(TestKeys.token) == "v")
    }

    @Test("a link and a directory at the vault's path are refused")
    func otherTypes() throws {
        let place = VaultPlace()
        try place.vault().set("v", for: TestKeys.token)
        try place.fileSystem.rename(place.path, to: "/elsewhere")
        try place.fileSystem.createSymbolicLink(place.path, to: "/elsewhere")
        try expectAll(.insecureFile, place.vault())
        try place.fileSystem.unlink(place.path)
        try place.fileSystem.createDirectory(place.path)
        try expectAll(.insecureFile, place.vault())
    }

    @Test("nothing is written to a directory in which other users may replace files")
    func insecureDirectory() throws {
        let place = VaultPlace()
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        try place.fileSystem.setPermissions([.ownerReadWriteExecute, .otherWrite], of: .path("/app/secrets"))
        #expect(try CryptError.code { try vault.set("w", for: TestKeys.token) } == .insecureFile)
        #expect(try vault.get(TestKeys.token) == "v")
    }

    @Test("a wrong key is a distinct error that changes nothing, and deleteAll sets the vault aside")
    func wrongKey() throws {
        let place = VaultPlace()
        try place.vault().set("v", for: TestKeys.token)
        let before = try place.bytes
        let stranger = try place.vault(VaultPlace.otherKey)
        try expectAll(.wrongKey, stranger)
        #expect(try place.bytes == before)
        try stranger.deleteAll()
        let aside = try #require(try place.names.first { $0.hasPrefix("app.vault.aside-") })
        #expect(try place.fileSystem.readFile(POSIXPath("/app/secrets/" + aside)) == before)
        #expect(try stranger.keys() == [])
        try stranger.set("w", for: TestKeys.token)
        #expect(try stranger.get(TestKeys.token) == "w")
        #expect(try CryptError.code { try place.vault().get(TestKeys.token) } == .wrongKey)
    }

    @Test("a damaged vault is never overwritten, and deleteAll sets it aside", arguments: [0, 9, 100, 140, 170, 250])
    func damaged(_ position: Int) throws {
        let place = VaultPlace()
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        var bytes = try place.bytes
        bytes[position] ^= 1
        try place.put(bytes)
        try expectAll(.tampered, vault)
        #expect(try place.bytes == bytes)
        try place.put(Array(bytes.prefix(200)))
        if position > 160 { try expectAll(.truncated, vault) }
        try vault.deleteAll()
        #expect(try vault.keys() == [])
        #expect(try place.names.contains { $0.hasPrefix("app.vault.aside-") })
    }

    @Test("a file longer than any vault is reported as tampered, not read into memory")
    func huge() throws {
        let place = VaultPlace()
        try place.vault().set("v", for: TestKeys.token)
        try place.fileSystem.truncate(.path(place.path), to: 1 << 40)
        try expectAll(.tampered, place.vault())
        #expect(try CryptError.code { try VaultInformation(of: place.url, fileSystem: place.fileSystem) } == .tampered)
    }

    @Test("a key that is too short and a URL that is not a file path are refused at once")
    func arguments() throws {
        let short = SymmetricKey(data: [UInt8](repeating: 1, count: 15))
        #expect(try CryptError.code { try VaultPlace().vault(short) } == .invalidKeyMaterial)
        for url in [URL(string: "https://example.com/v"), URL(string: "file:///a%00b"), URL(string: "file:///")] {
            let url = try #require(url)
            let code = try CryptError.code { try VaultCrypt(at: url, key: VaultPlace.key) }
            #expect(code == .unavailable(.inputOutput))
        }
    }

    @Test("neither a vault nor any temporary file contains a readable value or name")
    func nothingReadable() throws {
        let fileSystem = RecordingFileSystem()
        let place = VaultPlace(fileSystem)
        let vault = try place.vault()
        for number in 0..<4 { try vault.set("s3cr3t-\(number)", for: CryptKey(key: "n4me-\(number)")) }
        try vault.delete(CryptKey<String>(key: "n4me-2"))
        try vault.deleteAll()
        #expect(fileSystem.written.count >= 6)
        for bytes in fileSystem.written {
            let text = String(decoding: bytes, as: UTF8.self)
            #expect(!text.contains("s3cr3t") && !text.contains("n4me"))
        }
    }

    @Test("no two seals of the same secret are equal")
    func freshNonces() throws {
        let place = VaultPlace()
        let vault = try place.vault()
        var seen: Set<[UInt8]> = []
        for _ in 0..<64 {
            try vault.set("v", for: TestKeys.token)
            // The nonce of the name follows the prefix of the first entry.
            seen.insert(Array(try place.bytes[176..<188]))
        }
        #expect(seen.count == 64)
    }

    @Test("reflections show neither key nor secret")
    func reflection() throws {
        let place = VaultPlace()
        let vault = try place.vault()
        try vault.set("s3cr3t", for: TestKeys.token)
        var dumped = ""
        dump(vault, to: &dumped)
        #expect(!dumped.contains("s3cr3t") && !dumped.contains("SymmetricKey") && !dumped.contains("115"))
        #expect(vault.description == "VaultCrypt(/app/secrets/app.vault)")
    }

    @Test("a value that would make the vault too long is refused, and the others are kept")
    func vaultLimit() throws {
        let place = VaultPlace()
        let vault = try place.vault()
        let large = [UInt8](repeating: 7, count: 16 << 20)
        try vault.setRawValue(large, named: "0", accessibility: .whenUnlocked)
        let over = large + [7]
        let set = { try vault.setRawValue(over, named: "1", accessibility: .whenUnlocked) }
        #expect(try CryptError.code(of: set) == .tooLarge)
        #expect(try vault.keys() == ["0"])
        #expect(try vault.rawValue(named: "0") == large)
    }

    private func expectAll(
        _ code: CryptError.Code, _ vault: VaultCrypt, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let calls: [() throws -> Void] = [
            { _ = try vault.get(TestKeys.token) }, { try vault.set("x", for: TestKeys.token) },
            { try vault.delete(TestKeys.token) }, { _ = try vault.contains(TestKeys.token) },
            { _ = try vault.keys() }, { try vault.verify() },
        ]
        for (index, call) in calls.enumerated() {
            let thrown = try CryptError.code(of: call)
            #expect(thrown == code, "call \(index)", sourceLocation: sourceLocation)
        }
    }
}

@Suite("Rewriting a vault")
struct VaultRewritingTests {
    @Test("neither a change nor the next read opens the file that the change has written")
    func keepsFileOpen() throws {
        let memory = InMemoryFileSystem()
        let opened = Mutex<[POSIXPath]>([])
        let counting = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .open, let path = call.path { opened.withLock { $0.append(path) } }
        }
        let place = VaultPlace(counting)
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        #expect(try vault.get(TestKeys.token) == "v")
        try vault.set("w", for: TestKeys.token)
        #expect(try vault.get(TestKeys.token) == "w")
        // Opened once before the first change, when there is no file.
        #expect(opened.withLock { $0.count { $0 == place.path } } == 1)
    }

    @Test("a change stands although the file that it has written cannot be examined afterwards")
    func unexaminedFile() throws {
        let memory = InMemoryFileSystem()
        let isWatched = Atomic(false)
        let isMoved = Atomic(false)
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard isWatched.load(ordering: .relaxed) else { return }
            if call.operation == .rename { isMoved.store(true, ordering: .relaxed) }
            guard call.operation == .status, isMoved.load(ordering: .relaxed), let file = call.descriptor,
                try memory.status(of: .descriptor(file)).type == .regular
            else { return }
            isWatched.store(false, ordering: .relaxed)
            throw FileSystemError(.status, .ioError)
        }
        let vault = try VaultPlace(failing).vault()
        try vault.set("v", for: TestKeys.token)
        let count = memory.openDescriptors.count
        isWatched.store(true, ordering: .relaxed)
        try vault.set("w", for: TestKeys.token)
        let wasWatched = isWatched.load(ordering: .relaxed)
        #expect(!wasWatched)
        #expect(try vault.get(TestKeys.token) == "w")
        #expect(memory.openDescriptors.count == count)
    }

    @Test("a file written by another object is read again")
    func otherWriter() throws {
        let place = VaultPlace()
        let (one, other) = (try place.vault(), try place.vault())
        for value in ["a", "b", "c"] {
            try one.set(value, for: TestKeys.token)
            #expect(try other.get(TestKeys.token) == value)
            try other.set(value + "2", for: TestKeys.token)
            #expect(try one.get(TestKeys.token) == value + "2")
        }
    }

    @Test("no file stays open after the vault is released")
    func closes() throws {
        let memory = InMemoryFileSystem()
        do {
            let vault = try VaultPlace(memory).vault()
            for value in ["a", "b"] { try vault.set(value, for: TestKeys.token) }
        }
        #expect(memory.openDescriptors.isEmpty)
    }
}
