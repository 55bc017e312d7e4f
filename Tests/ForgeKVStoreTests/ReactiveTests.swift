import ForgeKVStore
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite struct ReactiveTests {
    private let reactive = ReactiveKVStore(InMemoryKVStore())
    private let key = KVKey<Int>("a")

    private func first<Value>(_ count: Int, of stream: KVStream<Value>) async -> [Value?] {
        var values: [Value?] = []
        guard count > 0 else { return values }
        for await value in stream {
            values.append(value)
            if values.count == count { break }
        }
        return values
    }

    @Test("a stream delivers the current value first, then every change in order")
    func order() async throws {
        try reactive.set(key, value: 1)
        let stream = reactive.stream(key)
        try reactive.set(key, value: 2)
        try reactive.remove(key)
        try reactive.set(key, value: 3)
        try reactive.removeAll()
        try reactive.set(key, value: 4)
        #expect(await first(6, of: stream) == [1, 2, nil, 3, nil, 4])
    }

    @Test("no change between the subscription and the first element is missed")
    func noGap() async throws {
        let stream = reactive.stream(key)
        for value in 1...50 { try reactive.set(key, value: value) }
        #expect(await first(51, of: stream) == [nil] + (1...50).map { $0 })
    }

    @Test("changes of other keys and removals of absent keys are not reported")
    func silence() async throws {
        let stream = reactive.stream(key)
        try reactive.set(KVKey<Int>("b"), value: 1)
        try reactive.remove(key)
        try reactive.removeAll()
        try reactive.removeValue(named: "a")
        try reactive.set(key, value: 1)
        #expect(await first(2, of: stream) == [nil, 1])
    }

    @Test("a failed write is not reported")
    func failingWrite() async throws {
        let reactive = ReactiveKVStore(InMemoryKVStore(maximumValueSizeInBytes: 50))
        let key = KVKey<String>("a")
        let stream = reactive.stream(key)
        #expect(throws: KVStoreError.self) { try reactive.set(key, value: String(repeating: "x", count: 60)) }
        try reactive.set(key, value: "y")
        #expect(await first(2, of: stream) == [nil, "y"])
    }

    @Test("a write of unknown durability is reported, because it is visible")
    func uncertainWrite() async throws {
        struct Uncertain: KVStoring {
            let base = InMemoryKVStore()
            func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }
            func set<T>(_ key: KVKey<T>, value: T) throws {
                try base.set(key, value: value)
                throw KVStoreError(.durabilityUnknown, .set, key: key.name)
            }
            func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }
            func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
            func removeAll() throws { try base.removeAll() }
        }
        let reactive = ReactiveKVStore(Uncertain())
        let stream = reactive.stream(key)
        #expect(throws: KVStoreError.self) { try reactive.set(key, value: 1) }
        #expect(await first(2, of: stream) == [nil, 1])
    }

    @Test(
        "a consumer that waits is woken by a change, over a store that reports none",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func waking() async throws {
        let reactive = ReactiveKVStore(BareKVStore())
        let (ping, pong) = (KVKey<Int>("ping"), KVKey<Int>("pong"))
        let (pings, pongs) = (reactive.stream(ping), reactive.stream(pong))
        // Each side waits for the other one's change.
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await value in pings {
                    try reactive.set(pong, value: value ?? 0)
                    if value == 100 { return }
                }
            }
            for await value in pongs {
                guard let value else { continue }
                if value == 100 { break }
                try reactive.set(ping, value: value + 1)
            }
            try await group.waitForAll()
        }
    }

    @Test("streams of one key are independent, and each uses its own type")
    func independence() async throws {
        let integers = reactive.stream(key)
        let texts = reactive.stream(KVKey<String>("a"))
        let again = reactive.stream(key)
        try reactive.set(key, value: 1)
        try reactive.set(KVKey<String>("a"), value: "one")
        #expect(await first(3, of: integers) == [nil, 1, nil])
        #expect(await first(3, of: texts) == [nil, nil, "one"])
        #expect(await first(3, of: again) == [nil, 1, nil])
    }

    @Test(
        "writes that bypass the object are reported, if the base store reports them",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func bypassing() async throws {
        let suite = TemporarySuite()
        let (memory, remote) = (InMemoryKVStore(), InMemoryKVStore())
        let mirror = try MirroredKVStore(LocalAsyncKVStore(remote))
        let bases: [(String, any KVStoring, any KVStoring)] = [
            ("memory", memory, memory),
            ("below defaults", FallbackKVStore(memory, defaults: InMemoryKVStore()), memory),
            ("through a layer", NamespacedKVStore(memory, namespace: "n"), memory),
            (
                "user defaults", UserDefaultsKVStore(suiteName: suite.name),
                UserDefaultsKVStore(suiteName: suite.name)
            ), ("mirror", mirror, remote),
        ]
        for (name, base, other) in bases {
            let key = KVKey<Int>(name == "through a layer" ? "b" : "a")
            let written = name == "through a layer" ? KVKey<Int>("n/b") : key
            func stream(over base: some KVStoring) -> (store: any KVStoring, values: KVStream<Int>) {
                let store = ReactiveKVStore(base)
                return (store, store.stream(key))
            }
            let (reactive, stream) = stream(over: base)
            var values = stream.makeAsyncIterator()
            #expect(await values.next() == .some(nil), "\(name)")
            for value in 1...3 {
                try other.set(written, value: value)
                #expect(await values.next() == value, "\(name)")
            }
            try other.remove(written)
            #expect(await values.next() == .some(nil), "\(name)")
            withExtendedLifetime(reactive) {}
        }
    }

    @Test("a stored nil is reported as a value")
    func storedNil() async throws {
        let key = KVKey<Int?>("a")
        let stream = reactive.stream(key)
        try reactive.set(key, value: nil)
        try reactive.remove(key)
        let values = await first(3, of: stream)
        #expect(values[0] == nil)
        #expect(values[1] == .some(.none))
        #expect(values[2] == nil)
    }

    @Test("raw writes are reported")
    func rawWrites() async throws {
        try reactive.set(key, value: 7)
        let bytes = try #require(try reactive.rawValue(named: "a"))
        let stream = reactive.stream(KVKey<Int>("b"))
        try reactive.setRawValue(bytes, named: "b")
        try reactive.removeValue(named: "b")
        #expect(await first(3, of: stream) == [nil, 7, nil])
    }

    @Test("a slow consumer gets the first elements and always the last", arguments: [1, 2, 3, 128])
    func conflation(_ limit: Int) async throws {
        let reactive = ReactiveKVStore(InMemoryKVStore(), bufferLimit: limit)
        let stream = reactive.stream(key)
        for value in 1...1000 { try reactive.set(key, value: value) }
        var iterator = stream.makeAsyncIterator()
        var values: [Int?] = []
        while values.last != .some(1000), let value = await iterator.next() { values.append(value) }
        #expect(values.count == limit)
        #expect(values == ([nil] + (1...999).map { $0 }).prefix(limit - 1) + [1000])
        try reactive.set(key, value: 1001)
        #expect(await iterator.next() == 1001)
    }

    @Test("a consumer that takes one element per write loses none, regardless of their number")
    func alternation() async throws {
        let reactive = ReactiveKVStore(InMemoryKVStore(), bufferLimit: 3)
        var iterator = reactive.stream(key).makeAsyncIterator()
        #expect(await iterator.next() == .some(nil))
        for value in stride(from: 0, to: 400, by: 2) {
            try reactive.set(key, value: value)
            try reactive.set(key, value: value + 1)
            #expect(await iterator.next() == value)
            #expect(await iterator.next() == value + 1)
        }
    }

    @Test("a stream ends when its task is cancelled, and its subscription is freed")
    func cancellation() async throws {
        let stream = reactive.stream(key)
        let task = Task {
            var count = 0
            for await _ in stream { count += 1 }
            return count
        }
        task.cancel()
        #expect(await task.value <= 1)
        #expect(reactive.subscriberCount == 0)
    }

    @Test("a waiting stream ends when its task is cancelled")
    func cancellationWhileWaiting() async throws {
        let stream = reactive.stream(key)
        let started = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            for await _ in stream { started.continuation.yield() }
            return true
        }
        for await _ in started.stream { break }
        task.cancel()
        #expect(await task.value)
        #expect(reactive.subscriberCount == 0)
    }

    @Test("a subscription is freed when its stream is released, read or unread")
    func dropping() async throws {
        do {
            let stream = reactive.stream(key)
            _ = reactive.stream(key)
            #expect(reactive.subscriberCount == 1)
            var iterator = stream.makeAsyncIterator()
            _ = await iterator.next()
        }
        #expect(reactive.subscriberCount == 0)
        for await _ in reactive.stream(key) { break }
        #expect(reactive.subscriberCount == 0)
    }

    @Test("a stream ends after its last element when the store is released")
    func storeGone() async throws {
        var reactive: ReactiveKVStore<InMemoryKVStore>? = ReactiveKVStore(InMemoryKVStore())
        let stream = try #require(reactive?.stream(key))
        try reactive?.set(key, value: 1)
        reactive = nil
        var values: [Int?] = []
        for await value in stream { values.append(value) }
        #expect(values == [nil, 1])
    }

    @Test("with many writers every stream sees one order, and its last value is that of the store")
    func concurrentWriters() async throws {
        let reactive = ReactiveKVStore(InMemoryKVStore(), bufferLimit: 10_000)
        let streams = [reactive.stream(key), reactive.stream(key)]
        let key = key
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<4 {
                group.addTask { for index in 0..<250 { try reactive.set(key, value: writer * 1000 + index) } }
            }
            try await group.waitForAll()
        }
        let one = await first(1001, of: streams[0])
        let other = await first(1001, of: streams[1])
        #expect(one == other)
        #expect(one.last == reactive.get(key))
        for writer in 0..<4 {
            let own = one.compactMap(\.self).filter { $0 / 1000 == writer }
            #expect(own == (0..<250).map { writer * 1000 + $0 })
        }
    }

    @Test("over a store that reports no changes, a stream reports every write through the object")
    func silentBase() async throws {
        struct Silent: KVLayer, KVTransactionalStoring {
            let base = InMemoryKVStore()
            func subscribe(to scope: KVScope) -> KVChanges? { nil }
        }
        let reactive = ReactiveKVStore(Silent())
        try reactive.set(key, value: 1)
        let stream = reactive.stream(key)
        try reactive.set(key, value: 2)
        try reactive.remove(key)
        try reactive.batch { batch in
            try batch.set(key, value: 3)
            try batch.set(key, value: 4)
        }
        try reactive.removeAll()
        try reactive.set(KVKey<Int>("b"), value: 5)
        let bytes = try reactive.rawValue(named: "b")
        try reactive.setRawValue(try #require(bytes), named: "a")
        try reactive.removeValue(named: "a")
        #expect(await first(7, of: stream) == [1, 2, nil, 4, nil, 5, nil])
        await reactive.delivered()
    }

    // MARK: Revisions and settling

    @Test("changes carry the revision of the value")
    func changes() async throws {
        try reactive.set(key, value: 1)
        var changes = reactive.changes(key).makeAsyncIterator()
        try reactive.set(KVKey<Int>("b"), value: 1)
        try reactive.set(key, value: 2)
        let revision = try reactive.entry(named: "a")?.revision
        try reactive.remove(key)
        for (value, expected) in [(1, 1), (2, revision), (nil, nil)] as [(Int?, UInt64?)] {
            let change = await changes.next()
            #expect(change?.value == value)
            #expect(change?.revision == expected)
        }
        try reactive.set(key, value: 5)
        let change = await changes.next()
        #expect(try reactive.compareAndSet(key, revision: change?.revision, value: 6))
    }

    @Test("a write that does not change the encoded value is not reported")
    func identicalWrites() async throws {
        let stream = reactive.stream(key)
        for value in [1, 1, 1, 2, 2, 1] { try reactive.set(key, value: value) }
        try reactive.setRawValue(try #require(try reactive.rawValue(named: "a")), named: "a")
        try reactive.set(key, value: 3)
        #expect(await first(5, of: stream) == [nil, 1, 2, 1, 3])
    }

    @Test(
        "a slow consumer does not see a value twice when coalesced changes cancel out",
        arguments: [(1, []), (2, [2, 1]), (3, [2, 1])])
    func identicalAfterConflation(_ limit: Int, _ expected: [Int]) async throws {
        var reactive: ReactiveKVStore<InMemoryKVStore>? = ReactiveKVStore(InMemoryKVStore(), bufferLimit: limit)
        var values = try #require(reactive?.stream(key)).makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        try reactive?.set(key, value: 1)
        #expect(await values.next() == 1)
        for value in [2, 1] { try reactive?.set(key, value: value) }
        reactive = nil
        var seen: [Int?] = []
        while let value = await values.next() { seen.append(value) }
        #expect(seen == expected)
    }

    @Test("identical writes are also detected in a store without revisions and raw values")
    func identicalWithoutRevisions() async throws {
        let reactive = ReactiveKVStore(BareKVStore())
        let stream = reactive.stream(key)
        for value in [1, 1, 2] { try reactive.set(key, value: value) }
        #expect(await first(3, of: stream) == [nil, 1, 2])
        let suite = TemporarySuite()
        let defaults = ReactiveKVStore(UserDefaultsKVStore(suiteName: suite.name))
        var changes = defaults.changes(key).makeAsyncIterator()
        for value in [1, 1, 2] { try defaults.set(key, value: value) }
        #expect(await changes.next()?.value == nil)
        #expect(await changes.next()?.value == 1)
        #expect(await changes.next()?.value == 2)
    }

    @Test("settled returns after every consumer has processed all writes")
    func settling() async throws {
        final class Seen: Sendable {
            private let values = Mutex<[Int: [Int?]]>([:])

            subscript(consumer: Int) -> [Int?] { values.withLock { $0[consumer] ?? [] } }
            func append(_ value: Int?, _ consumer: Int) { values.withLock { $0[consumer, default: []].append(value) } }
        }
        let seen = Seen()
        let tasks = (0..<3).map { consumer in
            let stream = reactive.stream(key)
            return Task {
                for await value in stream {
                    await Task.yield()
                    seen.append(value, consumer)
                }
            }
        }
        await reactive.settled()
        for consumer in 0..<3 { #expect(seen[consumer] == [nil]) }
        for value in 1...100 {
            try reactive.set(key, value: value)
            try reactive.set(key, value: value)
            guard value.isMultiple(of: 3) else { continue }
            await reactive.settled()
            for consumer in 0..<3 { #expect(seen[consumer].last == value) }
        }
        await reactive.settled()
        for consumer in 0..<3 { #expect(seen[consumer] == [nil] + (1...100).map { $0 }) }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        try reactive.set(key, value: 0)
        await reactive.settled()
    }

    @Test("delivered does not wait for a consumer to process an element")
    func delivering() async throws {
        var values = reactive.stream(key).makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        await reactive.delivered()
        try reactive.set(key, value: 1)
        let (reactive, key) = (reactive, key)
        let waiting = Task { await reactive.delivered() }
        #expect(await values.next() == 1)
        await waiting.value
        // An identical write has been delivered before.
        try reactive.set(key, value: 1)
        await reactive.delivered()
    }

    @Test("settled can be cancelled and does not wait for released streams")
    func settlingWithoutConsumer() async throws {
        await reactive.settled()
        var stream: KVStream<Int>? = reactive.stream(key)
        let reactive = reactive
        let waiting = Task { await reactive.settled() }
        waiting.cancel()
        await waiting.value
        let other = Task { await reactive.settled() }
        await Task.yield()
        withExtendedLifetime(stream) {}
        stream = nil
        await other.value
        #expect(reactive.subscriberCount == 0)
    }
}

/// A store without revisions, raw values and changes.
private struct BareKVStore: KVStoring {
    let base = InMemoryKVStore()
    func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }
    func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }
    func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }
    func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
    func removeAll() throws { try base.removeAll() }
}
