import ForgeCrashTesting
import ForgeStorage
import ForgeStorageTesting
import Foundation

/// Every store of the package, on disk and in memory, with its suites of checks.
struct ConformanceRuns {
    typealias Run = () async -> ConformanceReport

    let place: LabDirectory

    var all: [Run] { fileSystems + keyValueStores + fileStores + secretStores + sessionStorages + storages }

    // MARK: Key-value stores

    private var keyValueStores: [Run] {
        let place = place
        let suite = ConformanceSuite.transactionalKeyValueStore
        let persistence = ConformanceSuite.transactionalKeyValueStorePersistence
        return [
            { await suite.run(on: "InMemoryKVStore") { InMemoryKVStore() } },
            { await suite.run(on: "FileKVStore, disk") { try FileKVStore(at: place.next(), options: .silent) } },
            {
                await suite.run(on: "FileKVStore, memory") {
                    try FileKVStore(at: "/a/store", fileSystem: InMemoryFileSystem(), options: .silent)
                }
            },
            {
                let suites = DefaultsSuites()
                defer { suites.remove() }
                return await ConformanceSuite.rawKeyValueStore.run(on: "UserDefaultsKVStore") {
                    UserDefaultsKVStore(suiteName: suites.next())
                }
            },
            {
                await suite.run(on: "ReactiveKVStore over FileKVStore, disk") {
                    ReactiveKVStore(try FileKVStore(at: place.next(), options: .silent))
                }
            },
            { await suite.run(on: "SimulatedDevice") { try SimulatedDevice().keyValueStore() } },
            {
                await persistence.run(on: "FileKVStore, disk") {
                    let url = place.next()
                    return KeyValueStoreLocation { try FileKVStore(at: url, options: .silent) }
                }
            },
            {
                await persistence.run(on: "FileKVStore, memory") {
                    let fileSystem = InMemoryFileSystem()
                    return KeyValueStoreLocation {
                        try FileKVStore(at: "/store", fileSystem: fileSystem, options: .silent)
                    }
                }
            },
            {
                let suites = DefaultsSuites()
                defer { suites.remove() }
                return await ConformanceSuite.rawKeyValueStorePersistence.run(on: "UserDefaultsKVStore") {
                    let name = suites.next()
                    return KeyValueStoreLocation { UserDefaultsKVStore(suiteName: name) }
                }
            },
            {
                await persistence.run(on: "SimulatedDevice, process killed") {
                    let device = try SimulatedDevice()
                    return KeyValueStoreLocation {
                        device.crash()
                        return device.keyValueStore()
                    }
                }
            },
        ]
    }

    // MARK: File stores

    private var fileStores: [Run] {
        let place = place
        let suite = ConformanceSuite<any FileStoring>.fileStore
        return [
            { await suite.run(on: "InMemoryFileStore", having: [.emptyDirectories]) { InMemoryFileStore() } },
            { await suite.run(on: "DiskFileStore, disk") { DiskFileStore(root: place.next()) } },
            {
                await suite.run(on: "DiskFileStore, memory") {
                    DiskFileStore(
                        root: URL(filePath: "/data/store"), fileSystem: InMemoryFileSystem(),
                        sources: SystemFileSystem())
                }
            },
        ]
    }

    // MARK: Secrets

    private var secretStores: [Run] {
        let place = place
        let suite = ConformanceSuite<any CryptStoring>.secretStore
        return [
            { await suite.run(on: "InMemoryCrypt") { InMemoryCrypt() } },
            { await suite.run(on: "VaultCrypt, disk") { try vault(below: place.next()) } },
            {
                await suite.run(on: "VaultCrypt, memory") {
                    try VaultCrypt(
                        at: URL(filePath: "/vault"), key: VaultKey.random(), fileSystem: InMemoryFileSystem())
                }
            },
            { await suite.run(on: "KeychainCrypt, fake Keychain") { FakeKeychain().store() } },
            { await suite.run(on: "VaultCrypt, SimulatedDevice") { try SimulatedDevice().vault() } },
        ]
    }

    // MARK: Sessions

    private var sessionStorages: [Run] {
        let place = place
        let suite = ConformanceSuite<any SessionStorage<ConformanceUser>>.sessionStorage
        return [
            { await suite.run(on: "InMemorySessionStorage") { InMemorySessionStorage<ConformanceUser>() } },
            {
                await suite.run(on: "KVSessionStorage, disk") {
                    KVSessionStorage<ConformanceUser>(store: try FileKVStore(at: place.next(), options: .silent))
                }
            },
            {
                await suite.run(on: "CryptSessionStorage, disk") {
                    CryptSessionStorage<ConformanceUser>(store: try vault(below: place.next()))
                }
            },
            {
                await suite.run(on: "SimulatedDevice") {
                    try SimulatedDevice().sessionStorage(of: ConformanceUser.self)
                }
            },
        ]
    }

    // MARK: Storages of bytes

    private var storages: [Run] {
        let place = place
        let suite = ConformanceSuite<any Storage>.storage
        return [
            { await suite.run(on: "InMemoryStorage") { InMemoryStorage() } },
            { await suite.run(on: "DiskStorage, disk") { DiskStorage(path: place.next()) } },
            {
                await suite.run(on: "DiskStorage, memory") {
                    DiskStorage(path: URL(filePath: "/a/b"), fileSystem: InMemoryFileSystem())
                }
            },
        ]
    }
}

private func vault(below directory: URL) throws -> VaultCrypt {
    try VaultCrypt(at: directory.appending(component: "vault"), key: VaultKey.random())
}
