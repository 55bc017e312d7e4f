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
        #expect(failed.contains(defect.check))
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        #expect(Set(BrokenStorage.Defect.allCases.map(\.check)) == Set(Self.all.map(\.description)))
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

/// A storage with one defect, to test that the corresponding check fails.
final class BrokenStorage: Storage {
    enum Defect: String, CaseIterable, Sendable {
        case emptyForMissing = "a key without a value is not found"
        case losesValues = "a saved value can be fetched"
        case keepsTheFirst = "saving replaces the value, even a longer one"
        case emptyIsAbsent = "an empty value is a value"
        case cutsLongValues = "values of any size and any bytes round-trip"
        case foldsCase = "keys do not share values"
        case handlerGetsNothing = "handlers receive the saved and the fetched value"
        case handlerSucceeds = "a handler receives the error for a key without a value"
        case removesNothing = "a removed value is not found"
        case removesAll = "removing removes only one value"
        case refusesToRemoveNothing = "removing a missing value succeeds"
        case takesAnyKey = "a key that could lead out of the storage is refused by every call"
        case storesBelowValues = "nothing can be stored below a key with a value"
        case savesSlicesFromTheStart = "a slice of data is saved as the slice's bytes"
        case asyncSavesNothing = "the async and the blocking calls save and fetch the same values"
        case mixesValues = "concurrent saves of one key leave one of the values, whole"
        case buriesKeys = "a value can be saved after it was removed"
        case isShallow = "keys may be many directories deep"
        case replacesDirectories = "nothing can be stored for a key with keys below it"
        case outOfOrder = "calls with a handler take effect in the order in which they were made"
        case handlersTakeAnyKey

        /// The description of the check that must fail.
        var check: String { self == .handlersTakeAnyKey ? Self.takesAnyKey.rawValue : rawValue }
    }

    private let defect: Defect
    private let inner: any Storage
    private let buried = Mutex<Set<String>>([])
    private let queue = DispatchQueue(label: "BrokenStorage")

    init(_ defect: Defect) {
        self.defect = defect
        switch defect {
        case .takesAnyKey, .storesBelowValues, .replacesDirectories: inner = DictionaryStorage()
        default: inner = InMemoryStorage()
        }
    }

    private func adjusted(_ key: String) -> String {
        defect == .foldsCase ? key.replacing("ä", with: "a") : key
    }

    func fetchValue(for key: String) throws -> Data {
        do {
            let value = try inner.fetchValue(for: adjusted(key))
            if defect == .emptyIsAbsent, value.isEmpty { throw StorageError.notFound }
            return value
        } catch StorageError.notFound where defect == .emptyForMissing {
            return Data()
        }
    }

    func fetchValue(for key: String, handler: @escaping Handler<Data>) {
        queue.async { [self] in
            let outcome = Result { try fetchValue(for: key) }
            if defect == .handlerSucceeds, case .failure = outcome { return handler(.success(Data())) }
            handler(outcome)
        }
    }

    func save(value: Data, for key: String) throws {
        switch defect {
        case .losesValues:
            return
        case .keepsTheFirst:
            do { _ = try inner.fetchValue(for: key) } catch { try inner.save(value: value, for: key) }
        case .cutsLongValues:
            try inner.save(value: value.prefix(4096), for: key)
        case .savesSlicesFromTheStart:
            try inner.save(value: value.startIndex == 0 ? value : Data(), for: key)
        case .mixesValues:
            let isShared = key == "shared"
            try inner.save(value: isShared ? value.dropLast() + [0xff] : value, for: key)
        case .buriesKeys:
            if !buried.withLock({ $0.contains(key) }) { try inner.save(value: value, for: key) }
        case .isShallow:
            guard key.split(separator: "/").count < 5 else { throw StorageError.cantWrite(CancellationError()) }
            try inner.save(value: value, for: key)
        default:
            try inner.save(value: value, for: adjusted(key))
        }
    }

    func save(value: Data, for key: String, handler: @escaping Handler<Data>) {
        if defect == .outOfOrder, value == Data("49".utf8) {
            return queue.asyncAfter(deadline: .now() + 0.05) { [self] in handler(Result { try saved(value, for: key) })
            }
        }
        queue.async { [self] in
            if defect == .handlersTakeAnyKey { return handler(.success(value)) }
            handler(
                Result {
                    defect == .handlerGetsNothing || defect == .asyncSavesNothing ? Data() : try saved(value, for: key)
                })
        }
    }

    private func saved(_ value: Data, for key: String) throws -> Data {
        try save(value: value, for: key)
        return value
    }

    func removeValue(for key: String) throws {
        switch defect {
        case .removesNothing: return
        case .removesAll:
            for key in [key, "dir/a", "dir/b"] { try inner.removeValue(for: key) }
        case .buriesKeys:
            buried.withLock { _ = $0.insert(key) }
            try inner.removeValue(for: key)
        case .refusesToRemoveNothing:
            _ = try inner.fetchValue(for: key)
            try inner.removeValue(for: key)
        default: try inner.removeValue(for: key)
        }
    }
}
