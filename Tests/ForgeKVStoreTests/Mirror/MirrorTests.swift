import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

/// A store whose pages are empty and promise more.
private struct EmptyPages: ForwardingStore {
    let base = RemoteDouble()

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        AsyncKVEntryPage(entries: [], hasMore: true, revision: 1)
    }
}

/// A store whose streams of changes end at once.
private struct EndingStreams: ForwardingStore {
    let base = RemoteDouble()

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        KVChanges { () async throws(KVStoreError) -> KVChangeSet? in nil }
    }
}

/// A local store that is written after each page of a list, and reports no change after the list.
private struct WrittenBetweenPages: ForwardingStore {
    let base: LocalAsyncKVStore
    let write: @Sendable () throws -> Void

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        let page = try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        do { try write() } catch { throw KVStoreError(.unavailable(.server), .keys, underlying: error) }
        return page
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        let source = OnlyBeginning()
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in await source.next() }
    }

    private final class OnlyBeginning: Sendable {
        private let hasBegun = Atomic(false)
        private let never = AsyncStream<Void>.makeStream()

        func next() async -> KVChangeSet? {
            guard hasBegun.exchange(true, ordering: .relaxed) else { return KVChangeSet([.resync]) }
            // Ends when the task is cancelled.
            for await _ in never.stream {}
            return nil
        }
    }
}

@Suite("A mirror of a remote store")
struct MirrorTests {
    @Test("lists in pages at one revision, and follows the changes after it")
    func following() async throws {
        // A write between two pages is not in the list.
        let remote = RemoteDouble(pageSize: 2) { remote in
            if remote.state.withLock({ $0.revision }) < 8 { remote.change([("a", 7), ("z", 7)]) }
        }
        for (index, name) in ["a", "b", "c", "d", "e"].enumerated() { remote.set(name, index) }
        remote.state.withLock { $0.isMuted = true }
        let mirror = try MirroredKVStore(remote, .test)
        #expect(mirror.age == nil && !mirror.isCaughtUp && mirror.get(KVKey<Int>("a")) == nil)
        try await mirror.wait(upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 0, "b": 1, "c": 2, "d": 3, "e": 4])
        #expect(mirror.revision == 5)
        remote.state.withLock { $0.isMuted = false }
        try await mirror.wait(for: 8, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 7, "b": 1, "c": 2, "d": 3, "e": 4, "z": 7])
        #expect(mirror.isCaughtUp && mirror.failure == nil && mirror.age != nil)
        let revision = remote.change([("b", nil), ("c", 9)])
        try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 7, "c": 9, "d": 3, "e": 4, "z": 7])
        #expect(try mirror.entry(named: "c")?.revision == revision)
        #expect(mirror.revision == revision)
        #expect(remote.state.withLock { $0.listCount } == 1)
    }

    @Test("the changes of a batch become visible at once")
    func batches() async throws {
        let remote = RemoteDouble()
        let names = (0..<100).map { "\($0)" }
        remote.change(names.map { ($0, 0) })
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        let writer = Task { for round in 1...200 { remote.change(names.map { ($0, round) }) } }
        while mirror.get(KVKey<Int>("0")) ?? 0 < 200 {
            #expect(try Set(mirror.numbers.values).count == 1)
            await Task.yield()
        }
        await writer.value
    }

    @Test("a list of a store without revisions shows one instant")
    func oneInstant() async throws {
        let base = InMemoryKVStore()
        let round = Mutex(0)
        let commit: @Sendable () throws -> Void = {
            let number = round.withLock { round in
                round += 1
                return round
            }
            try base.batch { batch in
                for name in 0..<40 { try batch.set(KVKey<Int>("\(name)"), value: number) }
            }
        }
        try commit()
        var configuration = MirroredKVStore.Configuration.test
        configuration.pageSize = 3
        let remote = WrittenBetweenPages(base: LocalAsyncKVStore(base), write: commit)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        #expect(try Set(mirror.numbers.values).count == 1)
        #expect(try mirror.numbers.count == 40)
    }

    @Test("a mirror of a local store shows whole commits, from a list in pages and from changes")
    func localCommits() async throws {
        let base = InMemoryKVStore()
        let keys = (0..<40).map { KVKey<Int>("\($0)") }
        @Sendable func commit(_ round: Int) throws {
            try base.batch { batch in for key in keys { try batch.set(key, value: round) } }
        }
        try commit(0)
        var configuration = MirroredKVStore.Configuration.test
        configuration.pageSize = 3
        let writer = Task {
            for round in 1...200 {
                try commit(round)
                await Task.yield()
            }
        }
        let mirror = try await MirroredKVStore(LocalAsyncKVStore(base), configuration).caughtUp()
        var tornCount = 0
        while mirror.get(keys[0]) ?? 0 < 200 {
            if try Set(mirror.numbers.values).count != 1 { tornCount += 1 }
            await Task.yield()
        }
        try await writer.value
        #expect(tornCount == 0)
    }

    @Test("after 20 interruptions nothing is missed or out of order", arguments: [true, false])
    func interruptions(_ replays: Bool) async throws {
        let remote = RemoteDouble()
        remote.state.withLock { $0.replays = replays }
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        let seen = Mutex<[Int]>([])
        let observation = Observation(mirror) { [unowned mirror] _ in
            if let value = mirror.get(KVKey<Int>("count")) { seen.withLock { $0.append(value) } }
        }
        for round in 1...20 {
            remote.set("kept", round)
            remote.set("removed", round)
            try await until { mirror.get(KVKey<Int>("removed")) == round }
            remote.cut()
            remote.set("removed", nil)
            remote.set("round \(round)", round)
            let revision = remote.set("count", round)
            try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
            #expect(mirror.get(KVKey<Int>("count")) == round)
            #expect(!mirror.contains(KVKey<Int>("removed")))
        }
        #expect(try mirror.numbers.count == 22)
        let values = seen.withLock { $0 }
        #expect(values == values.sorted())
        // A server that replays is not listed again.
        #expect(remote.state.withLock { $0.listCount } == (replays ? 1 : 21))
        withExtendedLifetime(observation) {}
    }

    @Test("a list is applied as a difference, of which observers see only real changes")
    func difference() async throws {
        let remote = RemoteDouble()
        remote.state.withLock { $0.replays = false }
        for name in ["a", "b", "c"] { remote.set(name, 1) }
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        let entry = try mirror.entry(named: "a")
        let seen = Mutex<Set<String>>([])
        let observation = Observation(mirror) { names in
            seen.withLock { $0.formUnion(names ?? ["anything"]) }
        }
        remote.state.withLock { $0.isDown = true }
        try await until { !mirror.isCaughtUp }
        remote.set("b", 2)
        remote.set("c", nil)
        remote.set("d", 1)
        remote.state.withLock { $0.isDown = false }
        try await until { mirror.isCaughtUp }
        try await until { seen.withLock { $0.count } == 3 }
        #expect(seen.withLock { $0 } == ["b", "c", "d"])
        #expect(try mirror.entry(named: "a") == entry)
        #expect(try mirror.numbers == ["a": 1, "b": 2, "d": 1])
        withExtendedLifetime(observation) {}
    }

    @Test("changes that the list shows already are not made again")
    func changesBeforeTheList() async throws {
        let remote = RemoteDouble()
        // After the stream has begun, and before the list.
        let store = FaultingAsyncKVStore(remote) { call in
            guard call.operation == .entries, remote.state.withLock({ $0.revision }) == 0 else { return nil }
            remote.change([("a", 1), ("b", 1)])
            remote.change([("a", nil), ("b", 2)])
            remote.set("c", 1)
            remote.set("c", nil)
            return nil
        }
        let mirror = try MirroredKVStore(store, .test)
        let seen = Mutex<[String]>([])
        let observation = Observation(mirror) { names in seen.withLock { $0 += (names ?? ["anything"]).sorted() } }
        try await mirror.wait(upTo: TestDepth.hangLimit)
        try await mirror.wait(for: remote.set("end", 1), upTo: TestDepth.hangLimit)
        try await until { seen.withLock { $0.contains("end") } }
        #expect(try mirror.numbers == ["b": 2, "end": 1])
        #expect(!seen.withLock { $0.contains("a") || $0.contains("c") })
        withExtendedLifetime(observation) {}
    }

    @Test("a compaction under the mirror leads to another list")
    func compaction() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        remote.state.withLock { $0.isDown = true }
        try await until { !mirror.isCaughtUp }
        remote.set("a", nil)
        let revision = remote.set("b", 2)
        remote.compact()
        remote.state.withLock { $0.isDown = false }
        try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["b": 2])
        #expect(remote.state.withLock { $0.listCount } == 2)
    }

    @Test(
        "a store with another identity or a lower revision replaces the content", arguments: [("two", 9), ("one", 2)])
    func otherStore(_ storeID: String, _ revision: UInt64) async throws {
        let remote = RemoteDouble()
        for value in 1...3 { remote.set("a", value) }
        remote.set("same", 5)
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        let seen = Mutex<Set<String>>([])
        let observation = Observation(mirror) { names in seen.withLock { $0.formUnion(names ?? ["anything"]) } }
        remote.replace(by: ["b": 1, "same": 5], revision: revision, storeID: storeID)
        try await until { mirror.revision == revision }
        #expect(try mirror.numbers == ["b": 1, "same": 5])
        #expect(try mirror.entry(named: "same")?.revision == revision)
        try await until { seen.withLock { $0.count } == 2 }
        #expect(seen.withLock { $0 } == ["a", "b"])
        try await mirror.wait(for: remote.set("b", 2), upTo: TestDepth.hangLimit)
        #expect(mirror.get(KVKey<Int>("b")) == 2)
        withExtendedLifetime(observation) {}
    }

    @Test("a slow subscriber gets many changes as one")
    func slowSubscriber() async throws {
        let remote = RemoteDouble()
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        var changes = try #require(mirror.subscribe(to: .prefix(""))).makeAsyncIterator()
        try await mirror.wait(for: remote.set("first", 1), upTo: TestDepth.hangLimit)
        #expect(try await changes.nextSet()?.changes.count == 1)
        let revision = remote.change((0..<1500).map { (index: Int) in ("\(index)", index) })
        try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        #expect(try await changes.nextSet()?.changes.count == 1500)
    }

    @Test("a store that reports no changes is refused")
    func withoutChanges() async throws {
        let store = FaultingAsyncKVStore(RemoteDouble()) { $0.operation == .changes ? .before(.refused) : nil }
        let mirror = try MirroredKVStore(store, .test)
        try await until { mirror.failure?.code == .refused }
        #expect(!mirror.isCaughtUp)
    }

    @Test("a list whose pages are too large is repeated with smaller ones")
    func smallerPages() async throws {
        let remote = RemoteDouble()
        for name in ["a", "b", "c"] { remote.set(name, 1) }
        let mirror = try await MirroredKVStore(RuledPages(base: remote) { $0 <= 50 ? nil : .tooLarge }, .test)
            .caughtUp()
        #expect(try mirror.numbers.count == 3)
    }

    @Test("the pages of a list grow up to a size in bytes")
    func growingPages() async throws {
        let remote = RemoteDouble(pageSize: .max)
        let bytes = [UInt8](repeating: 1, count: 100 << 10)
        remote.state.withLock { $0.change((100..<230).map { (KeyName("\($0)"), bytes) }) }
        let limits = Mutex<[Int]>([])
        let store = RuledPages(base: remote) { limit in
            limits.withLock { $0.append(limit) }
            return nil
        }
        var configuration = MirroredKVStore.Configuration.test
        configuration.pageSize = 10
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        #expect(try mirror.keys().count == 130)
        // 40 names and values have less than 4 MiB, 41 of them more.
        #expect(limits.withLock { $0 } == [10, 20, 40, 40, 40])
    }

    @Test(
        "a store without revisions that cannot answer with all values at once is listed in pages",
        arguments: [(.tooLarge, true), (.timeout, true), (.refused, false)] as [(KVStoreError.Code, Bool)])
    func withoutWholeList(_ code: KVStoreError.Code, _ isListed: Bool) async throws {
        let base = InMemoryKVStore()
        for number in 0..<10 { try base.set(KVKey<Int>("\(number)"), value: number) }
        var configuration = MirroredKVStore.Configuration.test
        configuration.pageSize = 3
        let store = RuledPages(base: LocalAsyncKVStore(base)) { $0 <= 100 ? nil : code }
        let mirror = try MirroredKVStore(store, configuration)
        try await until { mirror.isCaughtUp || mirror.failure != nil }
        #expect(mirror.isCaughtUp == isListed)
        #expect(mirror.failure?.code == (isListed ? nil : code))
        #expect(try mirror.numbers.count == (isListed ? 10 : 0))
    }

    @Test("the pages of two stores are not one list")
    func otherStoreBetweenPages() async throws {
        let bytes = encoded(2)
        let remote = RemoteDouble(pageSize: 2) { remote in
            remote.state.withLock { state in
                guard state.storeID == "one" else { return }
                state.storeID = "two"
                state.content = state.content.mapValues { _ in KVEntry(bytes: bytes, revision: 1) }
                state.history[1] = state.content
            }
        }
        remote.change([("a", 1), ("b", 1), ("c", 1)])
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        #expect(try mirror.numbers == ["a": 2, "b": 2, "c": 2])
        #expect(remote.state.withLock { $0.listCount } == 2)
    }

    @Test("a list whose end does not come, and a stream that ends, are failures")
    func incompleteAnswers() async throws {
        for (store, detail) in [
            (EmptyPages(), "an empty page"), (EndingStreams(), "the changes have ended"),
        ] as [(any AsyncKVStoring, String)] {
            let mirror = try MirroredKVStore(store, .test)
            try await until { mirror.failure != nil || mirror.isCaughtUp }
            #expect(mirror.failure?.code == .unavailable(.server))
            #expect(mirror.failure?.detail == detail)
            #expect(!mirror.isCaughtUp)
        }
    }

    @Test("a mirror that is released frees its connection, and so does closing it")
    func release() async throws {
        let remote = RemoteDouble()
        var mirror: MirroredKVStore? = try await MirroredKVStore(remote, .test).caughtUp()
        #expect(remote.state.withLock { $0.openCount } == 1)
        mirror = nil
        try await until { remote.state.withLock { $0.openCount } == 0 }
        remote.set("a", 1)
        let other = try await MirroredKVStore(remote, .test).caughtUp()
        try await other.close()
        #expect(remote.state.withLock { $0.openCount } == 0)
        #expect(other.get(KVKey<Int>("a")) == 1)
        let error = await #expect(throws: KVStoreError.self) {
            try await other.remote.set(KVKey<Int>("a"), value: 2)
        }
        #expect(error?.code == .unavailable(.closed))
        try await other.close()
        withExtendedLifetime(mirror) {}
    }

    @Test("a closed mirror leaves no task, not even those of its waits and writes")
    func tasks() async throws {
        weak var feed: MirrorFeed?
        do {
            let mirror = try await MirroredKVStore(LocalAsyncKVStore(InMemoryKVStore()), .test).caughtUp()
            feed = mirror.feed
            try await mirror.remote.set(KVKey<Int>("a"), value: 1)
            try await mirror.close()
        }
        // Before the times of the waits end.
        let end = ContinuousClock.now + TestDepth.hangLimit / 2
        while feed != nil, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(2)) }
        #expect(feed == nil)
    }
}
