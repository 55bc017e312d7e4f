import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@Suite("Storage on disk", .eachPlatform)
struct DiskStorageTests {
    let fileSystem = EachPlatform.fileSystem()
    let root = URL(filePath: "/app/storage", directoryHint: .isDirectory)
    let storage: DiskStorage

    init() {
        storage = DiskStorage(path: root, fileSystem: fileSystem)
    }

    @Test("reading creates nothing")
    func readingCreatesNothing() throws {
        #expect(throws: StorageError.self) { try storage.fetchValue(for: "a") }
        try storage.removeValue(for: "a")
        #expect(!fileSystem.fileExists(atPath: "/app"))
    }

    @Test("a value is a private file named after its key, and is found by the next storage")
    func files() throws {
        try storage.save(value: Data("img".utf8), for: "users/42/avatar.jpg")
        let path = POSIXPath("/app/storage/users/42/avatar.jpg")
        #expect(try fileSystem.status(path).permissions == [.ownerReadWrite])
        #expect(try fileSystem.status("/app/storage/users").permissions == [.ownerReadWriteExecute])
        let next = DiskStorage(path: root, fileSystem: fileSystem)
        #expect(try next.fetchValue(for: "users/42/avatar.jpg") == Data("img".utf8))
        try next.save(value: Data("new".utf8), for: "users/42/avatar.jpg")
        #expect(try storage.fetchValue(for: "users/42/avatar.jpg") == Data("new".utf8))
    }

    @Test("the next save recreates a removed root")
    func removedRoot() throws {
        try storage.save(value: Data("1".utf8), for: "a")
        try fileSystem.removeItem(at: root)
        expectNotFound("a", in: storage)
        try storage.removeValue(for: "a")
        try storage.save(value: Data("2".utf8), for: "dir/a")
        #expect(try storage.fetchValue(for: "dir/a") == Data("2".utf8))
        #expect(fileSystem.fileExists(atPath: "/app/storage/dir/a"))
    }

    @Test("a read finds a replaced root")
    func replacedRoot() throws {
        try storage.save(value: Data("1".utf8), for: "a")
        try fileSystem.removeItem(at: root)
        let other = DiskStorage(path: root, fileSystem: fileSystem)
        try other.save(value: Data("2".utf8), for: "b")
        #expect(try storage.fetchValue(for: "b") == Data("2".utf8))
        expectNotFound("a", in: storage)
    }

    @Test("a sparse file of any size is an error", arguments: [1 << 41, 1 << 46, Int64.max] as [Int64])
    func sparse(_ size: Int64) throws {
        let fileSystem = EachPlatform.fileSystem { $0.maximumFileSizeInBytes = .max }
        let storage = DiskStorage(path: root, fileSystem: fileSystem)
        try storage.save(value: Data("1".utf8), for: "a")
        try fileSystem.truncate(.path("/app/storage/a"), to: size)
        let error = #expect(throws: StorageError.self) { try storage.fetchValue(for: "a") }
        guard case .cantRead(let cause as FileSystemError) = try #require(error) else {
            Issue.record("expected cantRead, got \(String(describing: error))")
            return
        }
        #expect(cause.errno == .fileTooLarge)
        try storage.save(value: Data("2".utf8), for: "a")
        #expect(try storage.fetchValue(for: "a") == Data("2".utf8))
    }

    @Test("a value that is too large to be fetched is not saved")
    func tooLarge() throws {
        let error = #expect(throws: StorageError.self) {
            try storage.save(value: Data(count: Int(Int32.max)), for: "a")
        }
        guard case .cantWrite(let cause as FileSystemError) = try #require(error) else {
            Issue.record("expected cantWrite, got \(String(describing: error))")
            return
        }
        #expect(cause.errno == .fileTooLarge)
        expectNotFound("a", in: storage)
    }

    @Test("a failed read is not an absent value")
    func readError() throws {
        try storage.save(value: Data("1".utf8), for: "a")
        fileSystem.readError = NSError(domain: "BadSector", code: 5)
        let error = #expect(throws: StorageError.self) { try storage.fetchValue(for: "a") }
        guard case .cantRead(let cause as FileSystemError) = try #require(error) else {
            Issue.record("expected cantRead, got \(String(describing: error))")
            return
        }
        #expect(cause.errno == .ioError)
        #expect((cause.underlying as NSError?)?.domain == "BadSector")
        #expect(String(describing: try #require(error)).hasPrefix("cannot read: "))
    }

    @Test("a failed write keeps the old value")
    func writeError() throws {
        try storage.save(value: Data("old".utf8), for: "a")
        fileSystem.writeError = NSError(domain: "DiskFull", code: 507)
        let error = #expect(throws: StorageError.self) { try storage.save(value: Data("new".utf8), for: "a") }
        guard case .cantWrite(let cause as FileSystemError) = try #require(error) else {
            Issue.record("expected cantWrite, got \(String(describing: error))")
            return
        }
        #expect((cause.underlying as NSError?)?.code == 507)
        #expect(String(describing: try #require(error)).hasPrefix("cannot write: "))
        fileSystem.writeError = nil
        #expect(try storage.fetchValue(for: "a") == Data("old".utf8))
    }

    @Test("handlers also receive errors")
    func handlerErrors() async throws {
        fileSystem.writeError = NSError(domain: "DiskFull", code: 507)
        let outcome = await withCheckedContinuation { continuation in
            storage.save(value: Data(), for: "a") { continuation.resume(returning: $0) }
        }
        #expect(throws: StorageError.self) { try outcome.get() }
    }

    @Test("a root that is not a directory, or not a file URL, is an error of every call, never an absent value")
    func unusableRoot() throws {
        try fileSystem.write(Data(), to: URL(filePath: "/file"))
        let web = try #require(URL(string: "https://example.com/x"))
        for path in [URL(filePath: "/file"), URL(filePath: "/file/below"), web] {
            let storage = DiskStorage(path: path, fileSystem: fileSystem)
            #expect(throws: StorageError.self) { try storage.save(value: Data(), for: "a") }
            let error = #expect(throws: StorageError.self) { try storage.fetchValue(for: "a") }
            guard case .cantRead = try #require(error) else {
                Issue.record("\(path): expected cantRead, got \(String(describing: error))")
                continue
            }
            #expect(throws: StorageError.self) { try storage.removeValue(for: "a") }
        }
    }

    @Test("no link below the root is followed")
    func links() throws {
        try storage.save(value: Data("1".utf8), for: "a")
        try fileSystem.write(Data("secret".utf8), to: URL(filePath: "/secret"))
        try fileSystem.createSymbolicLink("/app/storage/file", to: "/secret")
        try fileSystem.createSymbolicLink("/app/storage/dir", to: "/")
        for key in ["file", "dir/secret"] {
            let error = #expect(throws: StorageError.self) { try storage.fetchValue(for: key) }
            guard case .cantRead = try #require(error) else {
                Issue.record("\(key): expected cantRead, got \(String(describing: error))")
                continue
            }
        }
        #expect(throws: StorageError.self) { try storage.save(value: Data("attack".utf8), for: "dir/secret") }
        #expect(try fileSystem.read(from: URL(filePath: "/secret")) == Data("secret".utf8))
    }

    @Test("a storage without removal throws")
    func noRemoval() throws {
        let error = #expect(throws: StorageError.self) { try DictionaryStorage().removeValue(for: "a") }
        #expect(String(describing: try #require(error)) == "this storage cannot remove values")
    }
}

func expectNotFound(_ key: String, in storage: any Storage, sourceLocation: SourceLocation = #_sourceLocation) {
    do {
        _ = try storage.fetchValue(for: key)
        Issue.record("\(key) is found", sourceLocation: sourceLocation)
    } catch StorageError.notFound {
        return
    } catch {
        Issue.record("expected notFound, got \(error)", sourceLocation: sourceLocation)
    }
}

/// The blocking call; in an async context the compiler would choose the other one.
func fetchNow(_ key: String, from storage: any Storage) throws -> Data {
    try storage.fetchValue(for: key)
}

/// The blocking call.
func saveNow(_ value: Data, for key: String, in storage: any Storage) throws {
    try storage.save(value: value, for: key)
}

@Suite("Storage on disk and hostile keys", .eachPlatform)
struct DiskStorageHostileKeyTests {
    private static let canary = Data("canary".utf8)
    private static let attack = Data("attack".utf8)

    @Test("on a real disk no key reaches anything outside the root, and each refusal is typed")
    func realDisk() async throws {
        // Each save is flushed, which takes longer than everything else.
        let keys = TestDepth.sample(HostileKeys.all, every: 7)
        try await withTemporaryDirectory { try attack(with: keys, in: $0, on: SystemFileSystem()) }
    }

    @Test("in memory no key reaches anything outside the root, and each refusal is typed")
    func inMemory() throws {
        let fileSystem = EachPlatform.fileSystem()
        let directory = URL(filePath: "/top")
        try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
        #expect(HostileKeys.all.count >= 300)
        try attack(with: HostileKeys.all, in: directory, on: fileSystem)
    }

    private func attack(with keys: [HostileKey], in directory: URL, on fileSystem: some POSIXFileSystem) throws {
        for neighbour in ["outside", "storeroom"] {
            let place = directory.appending(component: neighbour)
            try fileSystem.createDirectory(at: place, withIntermediateDirectories: false)
            try fileSystem.write(Self.canary, to: place.appending(component: "canary.txt"))
        }
        let root = directory.appending(component: "store")
        for hostile in keys {
            // A separate storage, because one key may be a parent directory of another.
            try attack(with: hostile, DiskStorage(path: root, fileSystem: fileSystem))
            if fileSystem.fileExists(atPath: root.path) { try fileSystem.removeItem(at: root) }
        }
        let left = try fileSystem.contentsOfDirectory(at: directory).map(\.lastPathComponent)
        #expect(Set(left) == ["outside", "storeroom"])
        for neighbour in ["outside", "storeroom"] {
            let place = directory.appending(component: neighbour)
            #expect(try fileSystem.contentsOfDirectory(at: place).map(\.lastPathComponent) == ["canary.txt"])
            #expect(try fileSystem.read(from: place.appending(component: "canary.txt")) == Self.canary)
        }
    }

    private func attack(with hostile: HostileKey, _ storage: DiskStorage) throws {
        switch hostile.expectation {
        case .plain:
            try storage.save(value: Self.attack, for: hostile.key)
            #expect(try storage.fetchValue(for: hostile.key) == Self.attack, "\(hostile)")
            try storage.removeValue(for: hostile.key)
            expectNotFound(hostile.key, in: storage)
        case .refused:
            let errors = [
                #expect(throws: StorageError.self, "\(hostile)") {
                    try storage.save(value: Self.attack, for: hostile.key)
                },
                #expect(throws: StorageError.self, "\(hostile)") { try storage.fetchValue(for: hostile.key) },
                #expect(throws: StorageError.self, "\(hostile)") { try storage.removeValue(for: hostile.key) },
            ]
            for error in errors { #expect(error?.cause is InvalidKey, "\(hostile): \(String(describing: error))") }
        }
    }
}

extension StorageError {
    fileprivate var cause: (any Error)? {
        switch self {
        case .notFound, .removalNotSupported: nil
        case .cantRead(let error), .cantWrite(let error), .cantRemove(let error): error
        }
    }
}
