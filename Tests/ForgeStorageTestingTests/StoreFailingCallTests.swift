import Crypto
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Logging
import SystemPackage
import TestDepth
import Testing

@Suite("Every store on disk, with each call failing in turn")
struct StoreFailingCallTests {
    /// A change of a store that contains `a` and `b`, both `old`, and its permitted results.
    struct Change<Store>: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let new: [String: String]
        let run: @Sendable (Store) async throws -> Void
    }

    private static let old = ["a": "old", "b": "old"]
    private static let long = String(repeating: "new", count: 4000)
    private static let root = URL(filePath: "/data/store")

    private static let silent = Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() }

    // MARK: Key-value store

    private static func kvKey(_ name: String) -> KVKey<String> { KVKey(name) }

    static let keyValueChanges: [Change<FileKVStore>] = [
        .init(testDescription: "set", new: ["a": "new", "b": "old"]) { try $0.set(kvKey("a"), value: "new") },
        .init(testDescription: "set much", new: ["a": long, "b": "old"]) { try $0.set(kvKey("a"), value: long) },
        .init(testDescription: "add", new: ["a": "old", "b": "old", "c": "new"]) {
            try $0.set(kvKey("c"), value: "new")
        },
        .init(testDescription: "remove", new: ["b": "old"]) { try $0.remove(kvKey("a")) },
        .init(testDescription: "remove all", new: [:]) { try $0.removeAll() },
        .init(testDescription: "set and flush", new: ["a": "new", "b": "old"]) {
            try $0.set(kvKey("a"), value: "new")
            try $0.synchronize()
        },
        .init(testDescription: "compact", new: old) { try $0.compact() },
    ]

    @Test("a key-value store holds the old state or the new", arguments: keyValueChanges, [false, true])
    func keyValueStore(_ change: Change<FileKVStore>, inForeground: Bool) async throws {
        var options = FileKVStore.Options(logger: Self.silent)
        if inForeground {
            options.compactsInBackground = false
            options.reserveLittle()
        }
        let errnos = TestDepth.isDeep ? FailingCall.errnos : [inForeground ? .noSpace : .ioError]
        let start = FailingCall.testedStart(
            Self.keyValueChanges.firstIndex { $0.testDescription == change.testDescription })
        let report = try await forEachFailingCall(
            errnos: errnos, every: FailingCall.testedStep, from: start, on: { InMemoryFileSystem() }
        ) {
            [options] fileSystem in
            try FileKVStore(at: Self.root, fileSystem: fileSystem, options: options)
        } prepare: { store in
            for (name, value) in Self.old { try store.set(Self.kvKey(name), value: value) }
        } change: { store in
            try await change.run(store)
        } verify: { store, error in
            var state: [String: String] = [:]
            for name in try store.keys() { state[name] = try store.read(Self.kvKey(name)) }
            try expectOldOrNew(state, old: Self.old, new: change.new, after: error)
            try store.set(Self.kvKey("after"), value: "still works")
        }
        #expect(report.runCount == report.testedRunCount(errnos, from: start))
    }

    // MARK: Files

    static let fileChanges: [Change<DiskFileStore>] = [
        .init(testDescription: "save", new: ["a": "new", "b": "old"]) { try await $0.save(Data("new".utf8), to: "a") },
        .init(testDescription: "save deep down", new: ["a": "old", "b": "old", "d/e/f": long]) {
            try await $0.save(Data(long.utf8), to: "d/e/f")
        },
        .init(testDescription: "save with attributes", new: ["a": "new x=1", "b": "old"]) {
            try await $0.save(Data("new".utf8), to: "a", attributes: ["x": "1"])
        },
        .init(testDescription: "delete", new: ["b": "old"]) { try await $0.delete("a") },
        .init(testDescription: "move", new: ["b": "old", "c": "old"]) {
            try await $0.move(from: root.appendingPathComponent("a"), to: "c")
        },
        .init(testDescription: "copy", new: ["a": "old", "b": "old", "c": "old"]) {
            try await $0.copy(from: root.appendingPathComponent("a"), to: "c")
        },
    ]

    @Test("a file store holds the old state or the new", arguments: fileChanges)
    func fileStore(_ change: Change<DiskFileStore>) async throws {
        let start = FailingCall.testedStart(
            Self.fileChanges.firstIndex { $0.testDescription == change.testDescription })
        let report = try await forEachFailingCall(
            errnos: FailingCall.testedErrnos, every: FailingCall.testedStep, from: start, on: { InMemoryFileSystem() }
        ) {
            fileSystem in
            (store: DiskFileStore(root: Self.root, fileSystem: fileSystem), fileSystem: fileSystem)
        } prepare: { (store, _) in
            for (name, value) in Self.old { try await store.save(Data(value.utf8), to: name) }
        } change: { (store, _) in
            try await change.run(store)
        } verify: { (open, error) in
            let store = open.store
            var state: [String: String] = [:]
            if let path = Self.pathOfUnrestoredSource(error) {
                state["a"] = String(decoding: try open.fileSystem.readFile(path), as: UTF8.self)
            }
            for file in try await store.list(recursive: true) where file.kind == .file {
                state[file.key] = String(decoding: try await store.load(file.key), as: UTF8.self)
                for (name, value) in try await store.attributes(of: file.key) {
                    state[file.key, default: ""] += " \(name)=\(value)"
                }
            }
            try expectOldOrNew(state, old: Self.old, new: change.new, after: error)
            try await store.save(Data(), to: "after")
        }
        #expect(report.runCount == report.testedRunCount(from: start))
    }

    /// The path of a move's source that could be neither stored nor renamed back.
    private static func pathOfUnrestoredSource(_ error: (any Error)?) -> POSIXPath? {
        guard let error = error as? FileStoreError, error.code == .invalidSource(.notRestored) else { return nil }
        return (error.underlying as? FileSystemError)?.path
    }

    // MARK: Secrets

    private static func cryptKey(_ name: String) -> CryptKey<String> { CryptKey(key: name) }

    static let secretChanges: [Change<VaultCrypt>] = [
        .init(testDescription: "set", new: ["a": "new", "b": "old"]) { try $0.set("new", for: cryptKey("a")) },
        .init(testDescription: "delete", new: ["b": "old"]) { try $0.delete(cryptKey("a")) },
        .init(testDescription: "delete all", new: [:]) { try $0.deleteAll() },
    ]

    @Test("a vault holds the old secrets or the new", arguments: secretChanges)
    func vault(_ change: Change<VaultCrypt>) async throws {
        let key = SymmetricKey(data: Array(repeating: 7 as UInt8, count: 32))
        let start = FailingCall.testedStart(
            Self.secretChanges.firstIndex { $0.testDescription == change.testDescription })
        let report = try await forEachFailingCall(
            errnos: FailingCall.testedErrnos, every: FailingCall.testedStep, from: start, on: { InMemoryFileSystem() }
        ) {
            fileSystem in
            try VaultCrypt(at: Self.root.appendingPathComponent("vault"), key: key, fileSystem: fileSystem)
        } prepare: { store in
            for (name, value) in Self.old { try store.set(value, for: Self.cryptKey(name)) }
        } change: { store in
            try await change.run(store)
        } verify: { store, error in
            var state: [String: String] = [:]
            for name in try store.keys() { state[name] = try store.get(Self.cryptKey(name)) }
            try expectOldOrNew(state, old: Self.old, new: change.new, after: error)
            try store.set("still works", for: Self.cryptKey("after"))
        }
        #expect(report.runCount == report.testedRunCount(from: start))
    }

    // MARK: Codable storage

    @Test("a storage of values holds the old value or the new")
    func diskStorage() throws {
        let report = try forEachFailingCall(
            errnos: FailingCall.testedErrnos, every: FailingCall.testedStep, on: { InMemoryFileSystem() }
        ) {
            fileSystem in
            DiskStorage(path: Self.root, fileSystem: fileSystem)
        } prepare: { storage in
            try storage.save(value: Data("old".utf8), for: "users/42")
        } change: { storage in
            try storage.save(value: Data(Self.long.utf8), for: "users/42")
        } verify: { storage, error in
            let value = String(decoding: try storage.fetchValue(for: "users/42"), as: UTF8.self)
            try expectOldOrNew(value, old: "old", new: Self.long, after: error)
            try storage.save(value: Data(), for: "after")
        }
        #expect(report.runCount == report.testedRunCount())
    }
}
