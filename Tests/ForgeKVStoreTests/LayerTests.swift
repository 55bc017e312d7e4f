import ChildProcesses
import Dispatch
import ForgeCoding
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("Layers over a key-value store")
struct LayerTests {
    private let base = InMemoryKVStore()
    private let key = KVKey<Int>("a")

    // MARK: Namespaces

    @Test("names in different namespaces never collide, whatever their slashes")
    func namespaces() throws {
        let texts = ["", "a", "a/b", "a%2Fb", "a%", "a%252Fb", "/", "//", "%", "b/c", "c", "2Fb", "é", "e\u{301}"]
        var names: [String: (String, String)] = [:]
        for namespace in texts {
            let store = NamespacedKVStore(base, namespace: namespace)
            for name in texts {
                try store.set(KVKey<String>(name), value: "\(namespace)|\(name)")
                names["\(namespace)|\(name)"] = (namespace, name)
            }
        }
        #expect(try base.keys().count == texts.count * texts.count)
        for namespace in texts {
            let store = NamespacedKVStore(base, namespace: namespace)
            #expect(Array(store.namespace.utf8) == Array(namespace.utf8))
            #expect(try store.keys().count == texts.count)
            for name in texts { #expect(store.get(KVKey<String>(name)) == "\(namespace)|\(name)") }
        }
        #expect(try base.rawValue(named: "a%2Fb/c") != nil)
        try NamespacedKVStore(base, namespace: "a").removeAll()
        #expect(try base.keys().count == texts.count * (texts.count - 1))
    }

    @Test("an error in a namespace contains the caller's name of the key")
    func namespaceErrors() throws {
        let store = NamespacedKVStore(base, namespace: "n")
        try store.set(KVKey<String>("a"), value: "x")
        let error = #expect(throws: KVStoreError.self) { try store.read(key) }
        #expect(error?.key == "a")
        let conflict = #expect(throws: KVStoreError.self) { try store.batch { $0.require("a", revision: nil) } }
        #expect(conflict?.key == "a")
        #expect(conflict?.code == .conflict)
    }

    @Test("the errors of emptying name that call, whatever it calls")
    func emptyingErrors() throws {
        let file = try LogFixture().open()
        let store = NamespacedKVStore(file, namespace: "n")
        try store.set(key, value: 1)
        try file.close()
        let batch = #expect(throws: KVStoreError.self) { try store.removeAll() }
        #expect(batch?.operation == .removeAll && batch?.code == .unavailable(.closed) && batch?.store == "/store")

        /// A store on a locked device.
        struct Locked: KVLayer, KVRawStoring {
            let base = InMemoryKVStore()
            func keys() throws -> [String] { throw KVStoreError(.unavailable(.locked), .keys) }
        }
        let old = InMemoryKVStore()
        try old.set(key, value: 1)
        for attempt: () throws -> Void in [
            { try NamespacedKVStore(Locked(), namespace: "n").removeAll() },
            { try MigratingKVStore(from: Locked(), to: base).removeAll() },
            { try MigratingKVStore(from: ReadOnlyKVStore(old), to: base, names: { _ in true }).removeAll() },
        ] {
            let error = #expect(throws: KVStoreError.self) { try attempt() }
            #expect(error?.operation == .removeAll)
        }
        let migration = #expect(throws: KVStoreError.self) {
            try MigratingKVStore(from: ReadOnlyKVStore(old), to: base).removeMigrated()
        }
        #expect(migration?.operation == .migrate && migration?.code == .readOnly && migration?.key == "a")
    }

    @Test("a namespace of a store without batches can be emptied")
    func namespaceWithoutBatches() throws {
        let suite = TemporarySuite()
        let defaults = UserDefaultsKVStore(suiteName: suite.name)
        try defaults.set(key, value: 1)
        let store = NamespacedKVStore(defaults, namespace: "n")
        for index in 0..<5 { try store.set(KVKey<Int>("\(index)"), value: index) }
        try store.removeAll()
        try store.removeAll()
        #expect(try defaults.keys() == ["a"])
    }

    // MARK: Read-only

    @Test("a read-only store refuses every change with `.readOnly`")
    func readOnly() throws {
        try base.set(key, value: 1)
        let store = ReadOnlyKVStore(base)
        for attempt: () throws -> Void in [
            { try store.set(key, value: 2) }, { try store.remove(key) }, { try store.removeAll() },
            { try store.setRawValue([], named: "a") }, { try store.removeValue(named: "a") },
            { try store.batch { _ in } },
            { try store.update(key, default: 0) { $0 += 1 } },
        ] {
            let error = #expect(throws: KVStoreError.self) { try attempt() }
            #expect(error?.code == .readOnly)
        }
        #expect(store.get(key) == 1)
        // What looks for a value first finds none to change.
        let absent = KVKey<Int>("absent")
        #expect(try store.updateIfPresent(absent) { $0 += 1 } == nil)
        #expect(try !store.removeIfPresent(absent))
        #expect(throws: KVStoreError.self) { try store.removeIfPresent(key) }
        try base.set(key, value: 3)
        #expect(store.get(key) == 3)
        try store.synchronize()
    }

    // MARK: Defaults

    @Test("a default is visible until a value is set, and again after its removal")
    func defaults() throws {
        let behind = InMemoryKVStore()
        try behind.set(key, value: 7)
        let store = FallbackKVStore(base, defaults: behind)
        #expect(store.get(key) == 7)
        #expect(try store.read(key) == 7)
        #expect(store.contains(key))
        #expect(try store.keys() == ["a"])
        #expect(try store.snapshot()["a"]?.revision == 0)
        try store.set(key, value: 8)
        try store.set(KVKey<Int>("b"), value: 9)
        #expect(store.get(key) == 8)
        #expect(try store.keys().sorted() == ["a", "b"])
        #expect(try store.snapshot().read(key) == 8)
        try store.remove(key)
        #expect(store.get(key) == 7)
        try store.removeAll()
        #expect(try store.keys() == ["a"])
        #expect(behind.get(key) == 7)
        #expect(try base.keys() == [])
    }

    @Test("compare-and-set treats a default as a value of revision 0")
    func defaultRevisions() throws {
        let behind = InMemoryKVStore()
        try behind.set(key, value: 7)
        let store = FallbackKVStore(base, defaults: behind)
        #expect(try store.entry(named: "a")?.revision == 0)
        #expect(try !store.createIfAbsent(key, value: 1))
        #expect(try store.update(key, default: 100) { $0 += 1 } == 8)
        #expect(try store.update(key, default: 100) { $0 += 1 } == 9)
        #expect(try !store.compareAndSet(key, revision: 0, value: 1))
        #expect(try !store.compareAndSet(KVKey<Int>("b"), revision: 0, value: 1))
        #expect(try store.createIfAbsent(KVKey<Int>("b"), value: 1))
    }

    @Test("a default of an inner layer of defaults can be changed atomically too")
    func innerDefaults() throws {
        let behind = InMemoryKVStore()
        try behind.set(key, value: 7)
        let inner = NamespacedKVStore(
            FallbackKVStore(base, defaults: NamespacedKVStore(behind, namespace: "")), namespace: "n")
        try behind.set(KVKey<Int>("/n/a"), value: 7)
        let store = FallbackKVStore(inner, defaults: InMemoryKVStore())
        #expect(try store.entry(named: "a")?.revision == 0)
        #expect(try store.compareAndSet(key, revision: 0, value: 8))
        #expect(try !store.compareAndSet(key, revision: 0, value: 9))
        try store.remove(key)
        #expect(try store.update(key, default: 100) { $0 += 1 } == 8)
        #expect(try !store.compareAndSet(KVKey<Int>("b"), revision: 0, value: 1))
    }

    @Test("an undecodable value is not replaced by the default")
    func undecodableInFront() throws {
        let behind = InMemoryKVStore()
        try behind.set(key, value: 7)
        try base.set(KVKey<String>("a"), value: "x")
        let store = FallbackKVStore(base, defaults: behind)
        #expect(store.get(key) == nil)
        #expect(throws: KVStoreError.self) { try store.read(key) }
    }

    // MARK: Recording

    @Test("a record contains operations and names in order, and no values")
    func recording() throws {
        let store = RecordingKVStore(base)
        try store.set(KVKey<String>("name\n"), value: "secret")
        _ = store.get(key)
        _ = try store.keys(prefix: "a")
        try store.batch { batch in
            try batch.set(key, value: 1)
            batch.require("b", revision: nil)
        }
        #expect(throws: KVStoreError.self) { try store.set(KVKey<Int>(String(repeating: "x", count: 2000)), value: 1) }
        let calls = store.calls
        #expect(calls.map(\.operation) == [.set, .get, .keys, .commit, .set])
        #expect(calls.map(\.names).prefix(4) == [["name\n"], ["a"], [], ["a", "b"]])
        #expect(calls[0].description == "set \"name\\x0a\"")
        var dumped = ""
        dump(calls, to: &dumped)
        #expect(!dumped.contains("secret"))
        store.clear()
        #expect(store.calls == [])
    }

    @Test("recorded calls are equal if their operations and the bytes of their names are")
    func recordedCalls() {
        let call = KVStoreCall(.set, ["\u{E9}"])
        #expect(call == KVStoreCall(.set, ["\u{E9}"]))
        for other in [KVStoreCall(.remove, ["\u{E9}"]), .init(.set, ["e\u{301}"]), .init(.set, ["\u{E9}", "a"])] {
            #expect(call != other)
        }
    }

    // MARK: What holds for all stores

    @Test("an update or a batch whose closure throws changes nothing")
    func throwing() throws {
        struct Stop: Error {}
        try base.set(key, value: 1)
        let entry = try base.entry(named: "a")
        #expect(throws: Stop.self) {
            try base.update(key, default: 0) { value in
                value = 2
                throw Stop()
            }
        }
        #expect(throws: Stop.self) {
            try base.batch { batch in
                try batch.set(key, value: 2)
                throw Stop()
            }
        }
        #expect(try base.entry(named: "a") == entry)
    }
}

@Suite("App code called by a layer may use the layer", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct LayerCallbackTests {
    /// Uses a store while it is encoded.
    private struct Curious: Codable, Sendable {
        @TaskLocal static var store: (any KVStoring)?

        init() {}
        init(from decoder: any Decoder) throws {
            _ = Self.store?.get(KVKey<Int>("other"))
            try Self.store?.set(KVKey<Int>("decoded"), value: 1)
        }

        func encode(to encoder: any Encoder) throws {
            _ = Self.store?.get(KVKey<Int>("other"))
            try Self.store?.set(KVKey<Int>("another"), value: 1)
            var container = encoder.singleValueContainer()
            try container.encode("curious")
        }
    }

    @Test("encoding a value reads and writes the migrating store that it is set in")
    func migrating() throws {
        let old = InMemoryKVStore()
        try old.set(KVKey<Int>("other"), value: 7)
        try old.set(KVKey<String>("a"), value: "precious")
        let store = MigratingKVStore(from: old, to: InMemoryKVStore())
        try Curious.$store.withValue(store) {
            try store.set(KVKey<Curious>("a"), value: Curious())
            try store.set(KVKey<Curious>("a"), value: Curious())
        }
        #expect(store.get(KVKey<Int>("other")) == 7)
        #expect(store.get(KVKey<Int>("another")) == 1)
    }

    /// Lets another thread write a store while it is encoded or decoded, and waits for that.
    private struct Cooperative: Codable, Sendable {
        struct IsBlocked: Error {}

        @TaskLocal static var store: (any KVStoring)?

        init() {}

        init(from decoder: any Decoder) throws { try Self.letAnotherThreadWrite("decoded") }

        func encode(to encoder: any Encoder) throws {
            try Self.letAnotherThreadWrite("encoded")
            var container = encoder.singleValueContainer()
            try container.encode("cooperative")
        }

        private static func letAnotherThreadWrite(_ name: String) throws {
            guard let store else { return }
            let end = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                do { try store.set(KVKey<Int>(name), value: 1) } catch { Issue.record(error) }
                end.signal()
            }
            let limit = DispatchTime.now() + TestDepth.hangLimit / .seconds(1)
            guard end.wait(timeout: limit) == .success else { throw IsBlocked() }
        }
    }

    @Test(
        "while a layer encodes and decodes a value, another thread can write through it",
        arguments: ["migrating", "expiring", "defaults", "namespaced"])
    func otherThreads(_ name: String) throws {
        let base = InMemoryKVStore()
        let store: any KVTransactionalStoring =
            switch name {
            case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: base)
            case "expiring": ExpiringKVStore(base)
            case "defaults": FallbackKVStore(base, defaults: InMemoryKVStore())
            default: NamespacedKVStore(base, namespace: "n")
            }
        let key = KVKey<Cooperative>("a")
        try store.set(key, value: Cooperative())
        // Forgets that the stored value is of this type, so that it is decoded before it is replaced.
        for name in try base.keys() {
            let bytes = try base.rawValue(named: name)
            try base.setRawValue(try #require(bytes), named: name)
        }
        try Cooperative.$store.withValue(store) {
            try store.set(key, value: Cooperative())
            #expect(try store.read(key) != nil)
            try store.batch { batch in try batch.set(key, value: Cooperative()) }
        }
        #expect(store.get(KVKey<Int>("encoded")) == 1)
        #expect(store.get(KVKey<Int>("decoded")) == 1)
        #expect(base.setAside.isEmpty)
    }

    @Test("while a value with an expiration is replaced in user defaults, another thread can write through the layer")
    func otherThreadsOverUserDefaults() throws {
        let suite = TemporarySuite()
        let defaults = UserDefaultsKVStore(suiteName: suite.name)
        let store = ExpiringKVStore(defaults)
        let key = KVKey<Cooperative>("a")
        try store.set(key, value: Cooperative())
        try Cooperative.$store.withValue(store) { try store.set(key, value: Cooperative()) }
        #expect(store.get(KVKey<Int>("encoded")) == 1)
        #expect(store.get(KVKey<Int>("decoded")) == 1)
        #expect(try defaults.setAside().isEmpty)
        // A value of another type is still set aside, once.
        try store.set(KVKey<Int>("a"), value: 1)
        try store.set(KVKey<Int>("a"), value: 2)
        #expect(try defaults.setAside().count == 1)
        #expect(try store.read(KVKey<Int>("a")) == 2)
        withExtendedLifetime(suite) {}
    }

    @Test("while a migrating store asks which names are included, another thread can write through it")
    func otherThreadsOfFilter() throws {
        let (old, new) = (InMemoryKVStore(), InMemoryKVStore())
        let layer = Mutex<(any KVStoring)?>(nil)
        let calls = Mutex(0)
        let store = MigratingKVStore(from: old, to: new) { _ in
            guard let store = layer.withLock({ $0 }) else { return true }
            calls.withLock { $0 += 1 }
            let end = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                do { try store.set(KVKey<Int>("other"), value: 1) } catch { Issue.record(error) }
                end.signal()
            }
            let limit = DispatchTime.now() + TestDepth.hangLimit / .seconds(1)
            if end.wait(timeout: limit) != .success { Issue.record("a lock is held") }
            return true
        }
        layer.withLock { $0 = store }
        let moves: [() throws -> Void] = [
            { _ = try store.migrateAll() }, { _ = try store.snapshot() }, { _ = try store.removeMigrated() },
            { try store.removeAll() },
        ]
        for move in moves {
            try old.set(KVKey<Int>("a"), value: 1)
            try new.remove(KVKey<Int>("a"))
            let before = calls.withLock { $0 }
            try move()
            let after = calls.withLock { $0 }
            #expect(after > before)
        }
        layer.withLock { $0 = nil }
        #expect(try old.keys().isEmpty)
        #expect(try new.keys().isEmpty)
    }

    // In a separate process: a lock that is taken twice ends it.
    @Test("encoding and decoding a value writes and streams the reactive store that streams it", .onOwnThreads)
    func reactive() async throws {
        await #expect(processExitsWith: .success) {
            let store = ReactiveKVStore(InMemoryKVStore())
            try await Curious.$store.withValue(store) {
                var values = store.stream(KVKey<Curious>("a")).makeAsyncIterator()
                var others = store.stream(KVKey<Int>("decoded")).makeAsyncIterator()
                #expect(await values.next() != nil)
                #expect(await others.next() == .some(nil))
                for _ in 0..<2 {
                    try store.set(KVKey<Curious>("a"), value: Curious())
                    try store.remove(KVKey<Int>("decoded"))
                    let value = await values.next()
                    #expect(value != nil)
                    try store.remove(KVKey<Curious>("a"))
                    #expect(await values.next() != nil)
                }
                #expect(store.get(KVKey<Int>("decoded")) == 1)
                #expect(await others.next() == 1)
            }
        }
    }

    @Test("a handler of the base store's issues can read and write the layer", arguments: [true, false])
    func issues(_ expires: Bool) throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        let layer = Mutex<(any KVStoring)?>(nil)
        let calls = Mutex(0)
        let options = FileKVStore.Options { _ in
            guard let store = layer.withLock({ $0 }) else { return }
            calls.withLock { $0 += 1 }
            _ = store.get(KVKey<Int>("other"))
            do { try store.set(KVKey<Int>("another"), value: 1) } catch { Issue.record(error) }
        }
        let base = try FileKVStore(at: directory, options: options)
        let store: any KVStoring = expires ? ExpiringKVStore(base) : MigratingKVStore(from: InMemoryKVStore(), to: base)
        layer.withLock { $0 = store }
        try store.set(KVKey<String>("a"), value: "precious")
        try store.set(KVKey<Int>("a"), value: 1)
        layer.withLock { $0 = nil }
        #expect(calls.withLock { $0 } == 1)
        #expect(store.get(KVKey<Int>("another")) == 1)
    }
}
