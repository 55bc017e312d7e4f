import Dispatch
import ForgeKVStore
import Foundation
import Synchronization
import TestDepth
import Testing

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

    // In a separate process: a lock that is taken twice ends it.
    @Test("encoding and decoding a value writes and streams the reactive store that streams it")
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
