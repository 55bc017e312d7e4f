import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("The batches that a mirror receives")
struct MirrorBatchTests {
    private func entry(_ value: Int, _ revision: UInt64) -> KVEntry {
        KVEntry(bytes: encoded(value), revision: revision)
    }

    @Test("the parts of a batch become visible with the last one", arguments: [true, false])
    func parts(_ isSplit: Bool) async throws {
        let store = ScriptedStore(isSplit: isSplit)
        store.base.change([("a", 1), ("b", 1), ("c", 1)])
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        for value in 2...20 {
            let revision = store.base.change([("a", value), ("b", nil), ("c", value)])
            store.deliver([.changed(name: "a", entry: entry(value, revision), revision: revision - 1)])
            store.deliver(
                [.changed(name: "b", entry: nil, revision: revision - 1)], upTo: isSplit ? revision - 1 : nil)
            try await until { store.isEmpty }
            try await Task.sleep(for: .milliseconds(2))  // Nothing is visible, however long it takes.
            #expect(mirror.get(KVKey<Int>("a")) == value - 1 && mirror.get(KVKey<Int>("c")) == value - 1)
            #expect(mirror.contains(KVKey<Int>("b")) == (value == 2))
            #expect(mirror.revision == revision - 1)
            store.deliver([.changed(name: "c", entry: entry(value, revision), revision: revision)], upTo: revision)
            try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
            #expect(try mirror.numbers == ["a": value, "c": value])
        }
    }

    @Test("a list has names and values of any size, and the last of equal names")
    func loading() async throws {
        let store = InMemoryKVStore()
        let sizes = [0, 1, 8, 15, 16, 24, 25, 1_023, 1_024, 1_025, 100_000]
        let list: MirroredList = sizes.enumerated().map { index, size in
            let name = String(repeating: "n", count: min(size, KeyName.maximumLength - 1)) + "\(index % 10)"
            return (name, KVEntry(bytes: [UInt8](repeating: UInt8(index), count: size), revision: UInt64(index + 1)))
        }
        let last = KVEntry(bytes: [7], revision: 99)
        let reported = Mutex<[String]>([])
        let observation = Observation(store) { names in reported.withLock { $0 += names ?? [] } }
        try store.load(list + [(list[3].name, last)])
        for (index, (name, entry)) in list.enumerated() {
            #expect(try store.entry(named: name) == (index == 3 ? last : entry))
        }
        #expect(store.count == sizes.count)
        let names = Set(list.map(\.name))
        try await until("every name is reported") { Set(reported.withLock { $0 }) == names }
        withExtendedLifetime(observation) {}
    }

    @Test("a batch whose connection ends is made whole by its repetition, or by a list", arguments: [true, false])
    func cut(_ isListed: Bool) async throws {
        let store = ScriptedStore()
        store.base.change([("a", 1), ("b", 1)])
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        store.base.change([("a", 2), ("b", 2)])
        store.deliver([.changed(name: "a", entry: entry(2, 2), revision: 1)])
        try await until { store.isEmpty }
        if isListed {
            store.deliver([.resync])
        } else {
            // As a source that connects again by itself.
            store.deliver([], upTo: 1)
            try await until { store.isEmpty }
            #expect(try mirror.numbers == ["a": 1, "b": 1])
            store.deliver(
                [
                    .changed(name: "a", entry: entry(2, 2), revision: 1),
                    .changed(name: "b", entry: entry(2, 2), revision: 2),
                ], upTo: 2)
        }
        try await mirror.wait(for: 2, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 2, "b": 2])
    }
}
