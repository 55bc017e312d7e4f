import Dispatch
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite("Storages pass the published checks")
struct StorageConformanceTests {
    private static let all =
        ConformanceChecks.storage + ConformanceChecks.storageRemoval + ConformanceChecks.storageOfPaths

    @Test("on a real disk", arguments: all)
    func disk(_ check: ConformanceCheck<any Storage>) async throws {
        try await withTemporaryDirectory { directory in
            try await check.run(on: DiskStorage(path: directory.appending(component: "root")))
        }
    }

    @Test("on an in-memory disk", arguments: all)
    func diskInMemory(_ check: ConformanceCheck<any Storage>) async throws {
        try await check.run(on: DiskStorage(path: URL(filePath: "/a/b"), fileSystem: InMemoryFileSystem()))
    }

    @Test("in memory", arguments: all)
    func memory(_ check: ConformanceCheck<any Storage>) async throws {
        try await check.run(on: InMemoryStorage())
    }

    @Test("a custom type with only the four required calls", arguments: ConformanceChecks.storage)
    func own(_ check: ConformanceCheck<any Storage>) async throws {
        try await check.run(on: DictionaryStorage())
    }

    @Test("each check fails on a storage that breaks its promise", arguments: BrokenStorage.Defect.allCases)
    func defects(_ defect: BrokenStorage.Defect) async {
        var failed: [String] = []
        for check in Self.all {
            do { try await check.run(on: BrokenStorage(defect)) } catch { failed.append(check.description) }
        }
        #expect(failed.contains(defect.rawValue))
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        #expect(Set(BrokenStorage.Defect.allCases.map(\.rawValue)) == Set(Self.all.map(\.description)))
    }
}

/// A minimal custom storage for tests.
final class DictionaryStorage: Storage {
    private let values = Mutex<[String: Data]>([:])
    private let queue = DispatchQueue(label: "DictionaryStorage")

    func fetchValue(for key: String) throws -> Data {
        guard let value = values.withLock({ $0[key] }) else { throw StorageError.notFound }
        return value
    }

    func fetchValue(for key: String, handler: @escaping Handler<Data>) {
        queue.async { handler(Result { try self.fetchValue(for: key) }) }
    }

    func save(value: Data, for key: String) throws {
        values.withLock { $0[key] = value }
    }

    func save(value: Data, for key: String, handler: @escaping Handler<Data>) {
        queue.async {
            handler(
                Result {
                    try self.save(value: value, for: key)
                    return value
                })
        }
    }
}
