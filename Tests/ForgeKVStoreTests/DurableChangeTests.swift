import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("Atomic changes with a durability") struct DurableChangeTests {
    private let memory = InMemoryFileSystem()
    private let key = KVKey<Int>("a")

    private func open(_ path: POSIXPath, counting counter: CallCounter) throws -> FileKVStore {
        let counting = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { try counter.countOrFail(.synchronize, nil, .ioError) }
        }
        return try FileKVStore(at: path, fileSystem: counting, options: IssueRecorder().options())
    }

    /// How many synchronisations of files a change makes.
    private func flushes(of change: (FileKVStore) throws -> Void) throws -> Int {
        let counter = CallCounter()
        let store = try open("/store", counting: counter)
        try store.set(key, value: 0, durability: .full)
        let before = counter.count
        try change(store)
        return counter.count - before
    }

    @Test("an update whose closure writes the key itself fails, and says why")
    func writingClosure() async throws {
        let store = InMemoryKVStore()
        let key = KVKey<Int>("a")
        try store.set(key, value: 0)
        func expectFailure(_ name: String, _ update: () throws -> Void) throws {
            let error = try #require(throws: KVStoreError.self, "\(name)") { try update() }
            #expect(error.code == .conflict)
            #expect(error.key == "a")
            #expect("\(error)".contains("during 10000 runs of the closure, which must not write the key itself"))
        }
        func write(_ value: inout Int) throws {
            try store.set(key, value: value + 1)
            value += 1
        }
        try expectFailure("update") { try store.update(key, default: 0, write) }
        try expectFailure("updateIfPresent") { try store.updateIfPresent(key, write) }
        try expectFailure("withLock") { try Setting(KVSetting(key, default: 0), in: store).withLock(write) }
        let remote = LocalAsyncKVStore(store)
        let error = await #expect(throws: KVStoreError.self) {
            try await remote.update(key, default: 0, write)
        }
        #expect(error?.code == .conflict)
    }

    @Test("updates and batches wait for the device if asked to, and only then")
    func waiting() throws {
        #expect(try flushes { try $0.update(key, default: 0) { $0 += 1 } } == 0)
        #expect(try flushes { try $0.update(key, default: 0, durability: .full) { $0 += 1 } } == 1)
        #expect(try flushes { try $0.update(KVSetting(key, default: 0), durability: .full) { $0 += 1 } } == 1)
        #expect(try flushes { try $0.batch { try $0.set(key, value: 5) } } == 0)
        #expect(try flushes { try $0.batch(durability: .full) { try $0.set(key, value: 6) } } == 1)
        #expect(try flushes { try $0.updateIfPresent(key) { $0 += 1 } } == 0)
        #expect(try flushes { try $0.updateIfPresent(key, durability: .full) { $0 += 1 } } == 1)
        #expect(try flushes { try $0.removeIfPresent(key) } == 0)
        #expect(try flushes { try $0.removeIfPresent(key, durability: .full) } == 1)
    }

    @Test("a flush that fails is reported with the key; the value stays visible")
    func failing() throws {
        let opening = CallCounter()
        _ = try open("/counted", counting: opening).get(key)
        let store = try open("/failing", counting: CallCounter(failing: opening.count..<1_000))
        try store.set(key, value: 1)
        let error = #expect(throws: KVStoreError.self) {
            try store.update(key, default: 0, durability: .full) { $0 = 2 }
        }
        #expect(error?.code == .durabilityUnknown && error?.operation == .set && error?.key == "a")
        #expect(error?.store == "/failing" && error?.underlying is KVStoreError)
        #expect(store.get(key) == 2)
    }
}

@Suite("Changes of present values only") struct PresentValueTests {
    private let store = InMemoryKVStore()
    private let key = KVKey<Int>("a")

    @Test("an update stores the changed value, and nothing for an absent key or after an error")
    func updating() throws {
        #expect(try store.updateIfPresent(key) { $0 += 1 } == nil)
        #expect(!store.contains(key))
        try store.set(key, value: 1)
        #expect(try store.updateIfPresent(key) { $0 += 1 } == 2)
        #expect(throws: CancellationError.self) {
            try store.updateIfPresent(key) { value in
                value = 9
                throw CancellationError()
            }
        }
        #expect(store.get(key) == 2)
    }

    @Test("an update beside other writes starts again with their value")
    func racing() throws {
        try store.set(key, value: 1)
        var runs = 0
        try store.updateIfPresent(key) { value in
            runs += 1
            if runs == 1 { try store.set(key, value: 10) }
            value += 1
        }
        #expect(store.get(key) == 11)
        #expect(runs == 2)
        #expect(
            try store.updateIfPresent(key) { value in
                try store.remove(key)
                value += 1
            } == nil)
        #expect(!store.contains(key))
    }

    @Test("of several removals one finds the value, of whatever type it is")
    func removing() throws {
        #expect(try !store.removeIfPresent(key))
        try store.set(KVKey<String>("a"), value: "text")
        #expect(try store.removeIfPresent(key))
        #expect(try !store.removeIfPresent(key))
        #expect(!store.contains(key))
    }

    /// Makes a write before it commits its first batch, and then may fail.
    private final class Interrupted: KVLayer, KVTransactionalStoring {
        let base = InMemoryKVStore()
        let count = Atomic(0)
        private let failure: KVStoreError.Code?

        init(failure: KVStoreError.Code? = nil) { self.failure = failure }

        func commit(_ batch: KVBatch) throws {
            if count.add(1, ordering: .relaxed).newValue == 1 { try base.set(KVKey<Int>("a"), value: 2) }
            if let failure { throw KVStoreError(failure, .batch) }
            try base.commit(batch)
        }
    }

    @Test("a removal beside another write removes its value, and an error of a removal names the key")
    func interruptedRemoval() throws {
        let store = Interrupted()
        try store.base.set(key, value: 1)
        #expect(try store.removeIfPresent(key))
        #expect(!store.base.contains(key))
        let count = store.count.load(ordering: .relaxed)
        #expect(count == 2)
        let failing = Interrupted(failure: .readOnly)
        try failing.base.set(key, value: 1)
        let error = #expect(throws: KVStoreError.self) { try failing.removeIfPresent(key) }
        #expect(error?.code == .readOnly && error?.operation == .remove && error?.key == "a")
        #expect(failing.base.contains(key))
    }

    @Test("an error of an update names the key")
    func naming() throws {
        let memory = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: memory, options: IssueRecorder().options())
        try store.close()
        let error = #expect(throws: KVStoreError.self) { try store.update(key, default: 0) { $0 += 1 } }
        #expect(error?.key == "a")
        #expect(error?.operation == .set)
    }
}

@Suite("Values of a snapshot under a prefix") struct SnapshotValuesTests {
    @Test("are those of the prefix alone, with their keys, in the order of their names")
    func prefix() throws {
        let store = InMemoryKVStore()
        for (name, text) in [("note.b", "2"), ("note.a", "1"), ("note", "x"), ("notes.a", "y"), ("other", "z")] {
            try store.set(KVKey<String>(name), value: text)
        }
        let notes = try store.snapshot().values(of: String.self, prefix: "note.")
        #expect(notes.map(\.key.name) == ["note.a", "note.b"])
        #expect(notes.map(\.value) == ["1", "2"])
        #expect(code { _ = try store.snapshot().values(of: Int.self, prefix: "note.") } == .undecodable)
    }
}

@Suite("A store in a standard directory") struct StandardDirectoryStoreTests {
    @Test("has a directory of its own there")
    func namespace() throws {
        let name = "org.example.forge-test-\(UUID().uuidString)"
        let path = try StandardDirectory.caches.path().appending(POSIXPath(name))
        defer { do { try SystemFileSystem().removeTree(path) } catch { Issue.record(error) } }
        try FileKVStore(directory: .caches, namespace: name).set(KVKey<Int>("a"), value: 1)
        #expect(try FileKVStore(at: path).get(KVKey<Int>("a")) == 1)
    }

    @Test("refuses a namespace that is not one component", arguments: ["", "a/b", "..", "#lock"])
    func invalid(_ name: String) {
        #expect(throws: InvalidKey.self) { try FileKVStore(directory: .caches, namespace: name) }
    }
}
