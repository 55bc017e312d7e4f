import Crypto
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("Stores beside other programs' files")
struct ForeignFileTests {
    /// The kinds of stores that are created in a directory.
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case files, storage, images, cache, secrets, values

        var testDescription: String { rawValue }

        func place(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> ForeignFileFixture {
            switch self {
            case .files: .files(fileSystem, root)
            case .storage: .storage(fileSystem, root)
            case .images: .images(fileSystem, root)
            case .cache: .cache(fileSystem, root)
            case .secrets: .secrets(fileSystem, root)
            case .values: .values(fileSystem, root)
            }
        }
    }

    @Test("in memory", arguments: Kind.allCases, ConformanceChecks.foreignFiles)
    func inMemory(_ kind: Kind, _ check: ConformanceCheck<ForeignFileFixture>) async throws {
        try await check.run(on: kind.place(InMemoryFileSystem(), "/root"))
    }

    @Test("on the disk", arguments: Kind.allCases, ConformanceChecks.foreignFiles)
    func onDisk(_ kind: Kind, _ check: ConformanceCheck<ForeignFileFixture>) async throws {
        let fileSystem = SystemFileSystem()
        let root = POSIXPath(FileManager.default.temporaryDirectory.path + "/Foreign-\(UUID().uuidString)")
        defer { do { try fileSystem.removeTree(root) } catch { Issue.record("\(error)") } }
        try await check.run(on: kind.place(fileSystem, root))
    }

    @Test("stores of files refuse the directory of a key-value store or of a vault, and change nothing there")
    func directoryOfAnotherStore() async throws {
        let fileSystem = InMemoryFileSystem()
        let values = URL(filePath: "/values", directoryHint: .isDirectory)
        let vaults = URL(filePath: "/vaults", directoryHint: .isDirectory)
        let store = try FileKVStore(at: values, fileSystem: fileSystem)
        try store.set(KVKey<Int>("a"), value: 1)
        let vault = try VaultCrypt(
            at: vaults.appending(component: "vault"), key: SymmetricKey(size: .bits256), fileSystem: fileSystem)
        try vault.set("secret", for: CryptKey<String>(key: "name"))
        for (root, name) in [(values, "log"), (vaults, "vault")] {
            let before = try fileSystem.contentsOfDirectory(at: root)
            let files = DiskFileStore(root: root, fileSystem: fileSystem)
            for call in [
                { try await files.save(Data(), to: name) }, { try await files.deleteAll() },
                { try await files.delete(name) },
            ] as [() async throws -> Void] {
                let error = await #expect(throws: FileStoreError.self) { try await call() }
                #expect(error?.code == .unsafe(.anotherStore))
            }
            let storage = DiskStorage(path: root, fileSystem: fileSystem)
            #expect(throws: StorageError.self) { try storage.save(value: Data(), for: name) }
            let images = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: root)
            #expect(throws: (any Error).self) { try images.cacheImage(id: name, data: Data()) }
            #expect(try fileSystem.contentsOfDirectory(at: root) == before)
        }
        try store.synchronize()
        #expect(try vault.get(CryptKey<String>(key: "name")) == "secret")
    }

    @Test("a file store in the directory of a vault leaves the vault's temporary file")
    func temporaryFileOfVault() async throws {
        let fileSystem = InMemoryFileSystem()
        let root = URL(filePath: "/root", directoryHint: .isDirectory)
        // The change leaves its file, like a process that is killed before the rename.
        let plan = FaultPlan([.fail(.rename, with: .ioError), .fail(.unlink, with: .ioError)])
        let vault = try VaultCrypt(
            at: root.appending(component: "app.vault"), key: SymmetricKey(size: .bits256),
            fileSystem: FaultingFileSystem(fileSystem, plan: plan))
        #expect(throws: CryptError.self) { try vault.set("secret", for: CryptKey<String>(key: "name")) }
        try plan.requireAllFired()
        let files = Set(try fileSystem.contentsOfDirectory(at: root))
        #expect(files.count == 2)
        for _ in 0..<2 {
            let store = DiskFileStore(root: root, fileSystem: fileSystem)
            await #expect(throws: FileStoreError.self) { try await store.save(Data(), to: "a") }
            await #expect(throws: FileStoreError.self) { try await store.deleteAll() }
        }
        #expect(files.isSubset(of: try fileSystem.contentsOfDirectory(at: root)))
    }
}

extension ForeignFileFixture {
    fileprivate static func files(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> Self {
        let (url, hello) = (URL(root, isDirectory: true), Data("hello".utf8))
        @Sendable func open() -> DiskFileStore { DiskFileStore(root: url, fileSystem: fileSystem) }
        let store = open()
        @Sendable func source() throws -> URL {
            let source = URL(POSIXPath(root.bytes + Array("-source".utf8)))
            try fileSystem.write(hello, to: source)
            return source
        }
        return Self(
            fileSystem, root: root, directories: [".", "d", "d/e"],
            calls: [
                Call("save") { for key in ["a", "d/b", "d/e/c", "f/g"] { try await store.save(hello, to: key) } },
                Call("load") { _ = try await store.load("d/b") },
                Call("list") { _ = try await open().list(in: "d") },
                Call("recursive list") { _ = try await open().list(recursive: true) },
                Call("total size") { _ = try await store.totalSize() },
                Call("copy") { try await store.copy(from: try source(), to: "d/e/c") },
                Call("move") { try await store.move(from: try source(), to: "d/moved") },
                Call("create directory") { try await store.createDirectory("d/new") },
                Call("delete") { try await store.delete("d/b") },
                Call("delete directory") { try await store.deleteDirectory("f") },
                Call("delete directory with others' files") { try await store.deleteDirectory("d") },
                Call("delete all") { try await store.deleteAll() },
                Call("save over") { for name in foreignKeys { try await store.save(hello, to: "d/" + name) } },
                Call("create over") {
                    for name in foreignKeys { try await store.save(hello, to: "d/" + name, overwrite: false) }
                },
                Call("reopen") { try await open().open() },
                Call("save in a reopened store") { try await open().save(hello, to: "d/b") },
                Call("delete all in a reopened store") { try await open().deleteAll() },
            ]
                + foreignKeys.flatMap { name in
                    [
                        Call("save over \(name)") { try await store.save(hello, to: "d/\(name)") },
                        Call("delete \(name)") { try await store.delete("d/\(name)") },
                        Call("delete directory \(name)") { try await store.deleteDirectory("d/\(name)") },
                        Call("move over \(name)") { try await store.move(from: try source(), to: "d/\(name)") },
                    ]
                })
    }

    /// The keys of foreign entries, which calls can use.
    private static let foreignKeys = ["link", "loop", "fifo", "socket", "nested"]

    fileprivate static func storage(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> Self {
        let (url, hello) = (URL(root, isDirectory: true), Data("hello".utf8))
        let storage = DiskStorage(path: url, fileSystem: fileSystem)
        return Self(
            fileSystem, root: root, directories: [".", "d"],
            calls: [
                Call("save") { try storage.saveNow(hello, "d/a") },
                Call("fetch") { _ = try storage.fetchNow("d/a") },
                Call("remove") { try storage.removeValue(for: "d/a") },
                Call("reopen") { _ = try DiskStorage(path: url, fileSystem: fileSystem).fetchNow("d/a") },
                Call("save in a reopened storage") {
                    try DiskStorage(path: url, fileSystem: fileSystem).saveNow(hello, "d/b")
                },
            ]
                + foreignKeys.flatMap { name in
                    [
                        Call("save over \(name)") { try storage.saveNow(hello, "d/\(name)") },
                        Call("remove \(name)") { try storage.removeValue(for: "d/\(name)") },
                    ]
                })
    }

    fileprivate static func images(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> Self {
        let (url, hello) = (URL(root, isDirectory: true), Data("hello".utf8))
        @Sendable func open() -> ImageCacheManager { ImageCacheManager(fileSystem: fileSystem, cacheDirectory: url) }
        let cache = open()
        return Self(
            fileSystem, root: root,
            calls: [
                Call("cache") { try cache.cacheImage(id: "a", data: hello) },
                Call("get") { _ = cache.getCachedImage(id: "a") },
                Call("size") { _ = try cache.cacheSize() },
                Call("delete") { try cache.deleteCachedImage(id: "a") },
                Call("clear") { try cache.clearCache() },
                Call("reopen") { try open().cacheImage(id: "a", data: hello) },
            ])
    }

    fileprivate static func cache(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> Self {
        let (url, hello) = (URL(root, isDirectory: true), Data("hello".utf8))
        @Sendable func open() throws -> BoundedCache<Data> {
            try BoundedCache(directory: url, fileSystem: fileSystem)
        }
        return Self(
            fileSystem, root: root,
            calls: [
                Call("insert") { for key in ["a", "b"] { try await open().insert(hello, for: key) } },
                Call("value") {
                    let value = try await open().value(for: "a") { Data() }
                    try expectEqual(value, hello, "the cached value")
                },
                Call("replace") { try await open().insert(hello, for: "a") },
                Call("size") { _ = try await open().sizeOnDisk() },
                Call("remove") { try await open().remove("a") },
                Call("purge") { try await open().purge() },
                Call("insert after a purge") { try await open().insert(hello, for: "a") },
            ])
    }

    fileprivate static func secrets(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> Self {
        let vault = URL(root.appending("app.vault"))
        let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))
        @Sendable func open() throws -> VaultCrypt { try VaultCrypt(at: vault, key: key, fileSystem: fileSystem) }
        let name = CryptKey<String>(key: "name")
        return Self(
            fileSystem, root: root,
            calls: [
                Call("set") { try open().set("secret", for: name) },
                Call("get") { _ = try open().get(name) },
                Call("keys") { _ = try open().keys() },
                Call("verify") { try open().verify() },
                Call("load or create a key") {
                    _ = try VaultKeyFile.loadOrCreate(at: URL(root.appending("key")), fileSystem: fileSystem)
                },
                Call("delete") { try open().delete(name) },
                Call("delete all") { try open().deleteAll() },
                Call("set in a reopened vault") { try open().set("secret", for: name) },
            ])
    }

    fileprivate static func values(_ fileSystem: any POSIXFileSystem, _ root: POSIXPath) -> Self {
        @Sendable func open() throws -> FileKVStore { try FileKVStore(at: root, fileSystem: fileSystem) }
        let key = KVKey<String>("name")
        return Self(
            fileSystem, root: root, writtenInPlace: ["log"],
            calls: [
                Call("set") { try open().set(key, value: "value") },
                Call("get") { _ = try open().get(key) },
                Call("keys") { _ = try open().keys() },
                Call("synchronize") { try open().synchronize() },
                Call("compact") { try open().compact() },
                Call("remove") { try open().remove(key) },
                Call("remove all") { try open().removeAll() },
                Call("set in a reopened store") { try open().set(key, value: "value") },
                Call("compact a reopened store") { try open().compact() },
            ])
    }
}

extension DiskStorage {
    fileprivate func saveNow(_ value: Data, _ key: String) throws { try save(value: value, for: key) }
    fileprivate func fetchNow(_ key: String) throws -> Data { try fetchValue(for: key) }
}

/// The defects of a store that removes files of others when it cleans up, or writes in place, by the check that must
/// find them.
enum ForeignFileDefect: String, CaseIterable {
    case takesPrefixes = "no call changes or removes files whose names only share a prefix with temporary files"
    case takesLeftovers = "no call changes or removes another store's temporary files"
    case takesAutosaves = "no call changes or removes editors' files"
    case takesInvalidNames = "no call changes or removes names that are not valid keys"
    case takesLinks = "no call changes or removes symbolic links"
    case takesNodes = "no call changes or removes FIFOs and sockets"
    case takesNested = "no call changes or removes another store below the root, with its temporary file"
    case takesRecorded =
        "no call changes or removes another store's temporary files that a journal of this store names"
    case takesRecordedLinks = "no call changes or removes files with a second hard link that a journal names"
    case writesInPlace =
        "calls serve, replace and remove files with a second hard link; the other name keeps its content"

    /// A store with a defect or, as the control, without any.
    static func place(_ defect: ForeignFileDefect?) -> ForeignFileFixture {
        let (fileSystem, root) = (InMemoryFileSystem(), POSIXPath("/root"))
        let store = DiskFileStore(root: URL(root, isDirectory: true), fileSystem: fileSystem)
        return ForeignFileFixture(
            fileSystem, root: root, directories: [".", "d"],
            calls: [
                .init("save") { for key in ["a", "d/b"] { try await store.save(Data("hello".utf8), to: key) } },
                .init("clean up") { try defect?.cleanUp(root, fileSystem) },
            ])
    }

    private func cleanUp(_ root: POSIXPath, _ fileSystem: InMemoryFileSystem) throws {
        guard self != .writesInPlace else {
            let file = try fileSystem.open(root.appending("a"), .writeOnly)
            return try fileSystem.closing(file) { () throws(FileSystemError) in
                try fileSystem.writeBytes(Array("HELLO".utf8), to: file)
            }
        }
        var pending: [POSIXPath] = ["."]
        while let directory = pending.popLast() {
            let entries = try fileSystem.withDirectory(root.appending(directory)) {
                (descriptor) throws(FileSystemError) in try fileSystem.entries(of: descriptor)
            }
            let isNested = directory != "." && entries.contains { $0.name.isStoreMarker }
            for entry in entries {
                let path = directory.appending(entry.name)
                switch (try takes(entry, path, isNested: isNested, root, fileSystem), entry.type) {
                case (true, .directory): try fileSystem.removeTree(root.appending(path))
                case (true, _): try fileSystem.unlink(root.appending(path))
                case (false, .directory): pending.append(path)
                case (false, _): continue
                }
            }
        }
    }

    private func takes(
        _ entry: DirectoryEntry, _ path: POSIXPath, isNested: Bool, _ root: POSIXPath, _ fileSystem: InMemoryFileSystem
    ) throws -> Bool {
        let name = entry.name
        switch self {
        case .takesPrefixes: return name.isLeftover && !name.isInternalToStore
        case .takesLeftovers: return name.isLeftover && name.isInternalToStore
        case .takesAutosaves: return name == "##" || name == "#notes#"
        case .takesInvalidNames: return !name.isKey && !name.isReservedName
        case .takesLinks: return entry.type == .symbolicLink
        case .takesNodes: return entry.type == .fifo || entry.type == .socket
        case .takesNested: return isNested && name.isLeftover
        case .takesRecorded, .takesRecordedLinks:
            guard let id = name.ownerID, try Self.recordedIDs(root, fileSystem).contains(id) else { return false }
            let status = try fileSystem.status(root.appending(path), followsSymbolicLinks: false)
            return (status.type == .regular && status.linkCount > 1) == (self == .takesRecordedLinks)
        case .writesInPlace: return false
        }
    }

    /// The random parts of the temporary names that the journals in the root record.
    private static func recordedIDs(_ root: POSIXPath, _ fileSystem: InMemoryFileSystem) throws -> [POSIXPath] {
        let entries = try fileSystem.withDirectory(root) {
            (descriptor) throws(FileSystemError) in try fileSystem.entries(of: descriptor)
        }
        return try entries.map(\.name).filter { $0.isStoreMarker && !$0.isMarkerOfKind }.map { name in
            POSIXPath(try fileSystem.readFile(root.appending(name)).dropFirst(12).prefix(16))
        }
    }
}

@Suite("Every check of other programs' files detects its defect")
struct ForeignFileDefectTests {
    private static let checks = ConformanceChecks.foreignFiles

    @Test("a store without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<ForeignFileFixture>) async throws {
        try await check.run(on: ForeignFileDefect.place(nil))
    }

    @Test(arguments: ForeignFileDefect.allCases)
    func defects(_ defect: ForeignFileDefect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: ForeignFileDefect.place(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let planted = ForeignFileDefect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }
}
