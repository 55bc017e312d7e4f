import Crypto
import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

/// Every store on the file systems of Apple's platforms, in memory: names of any case and normalisation, paths that are
/// opened component by component, 256 descriptors, no mappings that report errors, and, on the device, classes of
/// protection. A default run makes each check in one of the two places.
@Suite("Every store passes its checks on the file system of Apple's platforms")
struct AppleFileSystemTests {
    enum Place: CaseIterable, Sendable {
        case mac, device

        func fileSystem() throws -> (any POSIXFileSystem, root: POSIXPath) {
            guard self == .device else { return (InMemoryFileSystem(options: .darwin), "/Users/a/Library") }
            let device = try SimulatedDevice()
            return (device.fileSystem, device.path(of: .documents))
        }
    }

    private typealias KVStore = any KVTransactionalStoring

    private static let keyValueChecks = ConformanceChecks.transactionalKeyValueStore
    private static let eagerlyCompacting = FileKVStore.Options(compactionFloorInBytes: 0)

    @Test("a key-value store", arguments: TestDepth.pairs(keyValueChecks, Place.allCases))
    private func keyValueStore(_ check: ConformanceCheck<KVStore>, _ place: Place) async throws {
        let (fileSystem, root) = try place.fileSystem()
        let store = try FileKVStore(
            at: root.appending("store"), fileSystem: fileSystem, options: Self.eagerlyCompacting)
        try await check.run(on: store)
    }

    @Test(
        "a key-value store that processes share",
        arguments: TestDepth.pairs(TestDepth.leavingOut("4 MiB", of: keyValueChecks), Place.allCases.reversed()))
    private func sharedKeyValueStore(_ check: ConformanceCheck<KVStore>, _ place: Place) async throws {
        let (fileSystem, root) = try place.fileSystem()
        try await check.run(
            on: FileKVStore(at: root.appending("store"), fileSystem: fileSystem, options: .init(sharing: .shared)))
    }

    @Test(
        "a key-value store that is reopened",
        arguments: TestDepth.pairs(ConformanceChecks.transactionalKeyValueStorePersistence, Place.allCases))
    private func reopened(_ check: ConformanceCheck<KeyValueStoreLocation<KVStore>>, _ place: Place) async throws {
        let (fileSystem, root) = try place.fileSystem()
        try await check.run(
            on: KeyValueStoreLocation {
                try FileKVStore(
                    at: root.appending("store"), fileSystem: fileSystem, options: Self.eagerlyCompacting)
            })
    }

    @Test(
        "a key-value store whose process is killed before each opening",
        arguments: ConformanceChecks.transactionalKeyValueStorePersistence)
    private func killed(_ check: ConformanceCheck<KeyValueStoreLocation<KVStore>>) async throws {
        let device = try SimulatedDevice()
        try await check.run(
            on: KeyValueStoreLocation {
                device.crash()
                return device.keyValueStore()
            })
    }

    @Test("a file store", arguments: TestDepth.pairs(ConformanceChecks.fileStore, Place.allCases))
    func fileStore(_ check: ConformanceCheck<any FileStoring>, _ place: Place) async throws {
        try await check.run(on: diskFileStore(place))
    }

    @Test(
        "a file store that streams and is watched",
        arguments: TestDepth.pairs(
            ConformanceChecks.streamingFileStore + ConformanceChecks.fileWatching, Place.allCases))
    func streaming(_ check: ConformanceCheck<any StreamingFileStoring>, _ place: Place) async throws {
        try await check.run(on: diskFileStore(place))
    }

    private func diskFileStore(_ place: Place) throws -> DiskFileStore {
        let (fileSystem, root) = try place.fileSystem()
        return DiskFileStore(
            root: URL(root.appending("files")), fileSystem: fileSystem, sources: SystemFileSystem())
    }

    @Test("a vault", arguments: TestDepth.pairs(ConformanceChecks.secretStore, Place.allCases))
    func vault(_ check: ConformanceCheck<any CryptStoring>, _ place: Place) async throws {
        let (fileSystem, root) = try place.fileSystem()
        try await check.run(
            on: VaultCrypt(at: URL(root.appending("vault")), key: VaultKey.random(), fileSystem: fileSystem))
    }

    @Test("a session in a vault", arguments: TestDepth.pairs(ConformanceChecks.sessionStorage, Place.allCases))
    func session(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>, _ place: Place) async throws {
        let (fileSystem, root) = try place.fileSystem()
        let vault = try VaultCrypt(at: URL(root.appending("vault")), key: VaultKey.random(), fileSystem: fileSystem)
        try await check.run(on: CryptSessionStorage(store: vault))
    }

    @Test(
        "a storage of Codable values",
        arguments: TestDepth.pairs(
            ConformanceChecks.storage + ConformanceChecks.storageRemoval + ConformanceChecks.storageOfPaths,
            Place.allCases))
    func storage(_ check: ConformanceCheck<any Storage>, _ place: Place) async throws {
        let (fileSystem, root) = try place.fileSystem()
        try await check.run(on: DiskStorage(path: URL(root.appending("storage")), fileSystem: fileSystem))
    }

    @Test("the six file operations", arguments: TestDepth.pairs(ConformanceChecks.fileOperations, Place.allCases))
    func fileOperations(_ check: ConformanceCheck<FileOperationsUnderTest>, _ place: Place) async throws {
        // Nor are names bytes on Apple's disks.
        let missing: Set<ConformanceCapability> = [.limitedSpace, .bytewiseNames, .namesOfAnyBytes]
        guard check.needs.isDisjoint(with: missing) else { return }
        let (fileSystem, root) = try place.fileSystem()
        let directory = URL(root.appending("operations"), isDirectory: true)
        try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
        var subject = FileOperationsUnderTest(fileSystem, directory: directory)
        subject.makeSymbolicLink = { url, target in
            let path = target.baseURL == nil ? try POSIXPath(target) : POSIXPath(target.relativePath)
            try fileSystem.createSymbolicLink(POSIXPath(url), to: path)
        }
        try await check.run(on: subject)
    }

    @Test("names of any case and normalisation are one file, and keys of 1,024 bytes are stored")
    func names() async throws {
        let store = try diskFileStore(.mac)
        try await store.save(Data("1".utf8), to: "Caf\u{E9}")
        #expect(try await store.load("cafe\u{301}") == Data("1".utf8))
        let longest = (0..<4).map { _ in String(repeating: "n", count: 205) }.joined(separator: "/")
        let key = longest + "/" + String(repeating: "k", count: 1_024 - longest.utf8.count - 1)
        try await store.save(Data("2".utf8), to: key)
        #expect(try await store.load(key) == Data("2".utf8))
        #expect(try await store.list(recursive: true).map(\.key).contains(key))
    }
}
