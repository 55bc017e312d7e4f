import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Streams of changes by other processes", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct SharedStreamTests {
    private let fixture = SharedFixture()
    private let key = KVKey<Int>("a")

    @Test("a stream reports local and remote writes with their revisions")
    func told() async throws {
        let (first, second) = try fixture.pair()
        let reactive = ReactiveKVStore(first)
        var changes = reactive.changes(key).makeAsyncIterator()
        #expect(await changes.next()?.value == nil)
        try second.set(key, value: 1)
        let one = await changes.next()
        #expect(one?.value == 1)
        #expect(one?.revision == 1)
        try reactive.set(key, value: 2)
        #expect(await changes.next()?.value == 2)
        try second.remove(key)
        let none = try #require(await changes.next())
        #expect(none.value == nil && none.revision == nil)
        try second.batch { try $0.set(key, value: 3) }
        #expect(await changes.next()?.value == 3)
        try second.removeAll()
        #expect(try #require(await changes.next()).value == nil)
        try second.set(key, value: 4)
        #expect(await changes.next()?.value == 4)
        try second.set(KVKey<Int>("other"), value: 1)
        try second.set(key, value: 4)
        try second.compact()
        try second.set(key, value: 5)
        // Neither an equal value nor the replacement of the log is a change.
        let five = try #require(await changes.next())
        #expect(five.value == 5)
        #expect(five.revision == (try second.entry(named: "a")?.revision))
    }

    @Test("a stream reports that a compacted log lacks its key")
    func removedByRewriting() async throws {
        let (first, second) = try fixture.pair()
        try second.set(key, value: 1)
        var stream = ReactiveKVStore(first).stream(key).makeAsyncIterator()
        let reactive = ReactiveKVStore(first)
        var changes = reactive.stream(key).makeAsyncIterator()
        #expect(await changes.next() == .some(1))
        try second.remove(key)
        try second.compact()
        #expect(await changes.next() == .some(nil))
        // The store of this stream is released once it is not being notified any more: its stream ends.
        #expect(await stream.next() == .some(1))
        while await stream.next() != nil {}
    }

    @Test("concurrent changes of several processes converge on the same values")
    func many() async throws {
        let (first, second) = try fixture.pair()
        let (left, right) = (ReactiveKVStore(first), ReactiveKVStore(second))
        let (ofLeft, ofRight) = (left.changes(key), right.changes(key))
        await withTaskGroup(of: Void.self) { group in
            for (store, parity) in [(left, 0), (right, 1)] {
                group.addTask { [key] in
                    for value in 0..<100 {
                        while code({ try store.set(key, value: 2 * value + parity) }) != nil {}
                    }
                    while code({ try store.update(KVKey<Int>("done"), default: 0) { $0 += 1 } }) != nil {}
                    if store.get(KVKey<Int>("done")) == 2 { while code({ try store.set(key, value: -1) }) != nil {} }
                }
            }
            for changes in [ofLeft, ofRight] {
                group.addTask {
                    var last: KeyChanges<Int>.Element?
                    for await change in changes {
                        #expect(change.revision ?? 0 >= last?.revision ?? 0)
                        #expect(last.map { $0.value != change.value } ?? true)
                        last = change
                        if change.value == -1 { break }
                    }
                    #expect(last?.value == -1)
                }
            }
        }
    }

    @Test("layers forward remote changes under their own names")
    func layers() async throws {
        let (first, second) = try fixture.pair()
        let layered = ReactiveKVStore(
            ExpiringKVStore(
                FallbackKVStore(
                    RecordingKVStore(NamespacedKVStore(first, namespace: "n")), defaults: InMemoryKVStore())))
        let other = ExpiringKVStore(NamespacedKVStore(second, namespace: "n"))
        var changes = layered.stream(key).makeAsyncIterator()
        #expect(await changes.next() == .some(nil))
        try other.set(key, value: 7)
        #expect(await changes.next() == .some(7))
        try other.removeAll()
        #expect(await changes.next() == .some(nil))
    }

    @Test("a shared store is observed only for streams")
    func off() throws {
        let (first, second) = try fixture.pair()
        let reactive = ReactiveKVStore(first)
        do {
            let stream = reactive.stream(key)
            let another = reactive.stream(KVKey<Int>("b"))
            #expect(reactive.subscriberCount == 2)
            withExtendedLifetime((stream, another)) {}
        }
        #expect(reactive.subscriberCount == 0)
        try second.set(key, value: 1)
        #expect(reactive.get(key) == 1)
    }

    @Test("names changed by catching up are reported, or nil if any may have changed")
    func names() async throws {
        let (first, second) = try fixture.pair()
        let (told, continuation) = AsyncStream<[String]?>.makeStream()
        let observation = Observation(first) { continuation.yield($0) }
        var iterator = told.makeAsyncIterator()
        try second.set(key, value: 1)
        #expect(await iterator.next() == .some(["a"]))
        try second.batch { batch in
            try batch.set(KVKey<Int>("x"), value: 1)
            batch.remove(key)
        }
        #expect(await iterator.next()??.sorted() == ["a", "x"])
        try second.removeAll()
        #expect(await iterator.next() == .some(nil))
        withExtendedLifetime(observation) {}
    }
}
