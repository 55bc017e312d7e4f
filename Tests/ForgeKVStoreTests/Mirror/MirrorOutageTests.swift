import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Synchronization
import TestDepth
import Testing

@Suite("A mirror whose remote store cannot be reached")
struct MirrorOutageTests {
    @Test("the mirrors of a fleet list at different times, whatever makes them list", arguments: [true, false])
    func spread(_ waits: Bool) async throws {
        let lists = Mutex<[ContinuousClock.Instant]>([])
        let remote = RemoteDouble { _ in lists.withLock { $0.append(.now) } }
        remote.state.withLock { $0.replays = false }
        remote.set("a", 1)
        var configuration = MirroredKVStore.Configuration.test(patience: .milliseconds(20))
        configuration.listJitter = .seconds(2)
        var fleet: [MirroredKVStore] = []
        for _ in 0..<20 { fleet.append(try MirroredKVStore(remote, configuration)) }
        for mirror in fleet { try await mirror.wait(upTo: TestDepth.hangLimit) }
        // The first list is not delayed by the spread.
        let start = lists.withLock { $0 }
        #expect(start.count == 20)
        remote.state.withLock { $0.isDown = true }
        for mirror in fleet { try await until { !mirror.isCaughtUp } }
        let revision = remote.set("a", 2)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for mirror in fleet where waits {
                group.addTask { try await mirror.wait(for: revision, upTo: TestDepth.hangLimit) }
            }
            try await Task.sleep(for: .milliseconds(100))  // In any order the lists are spread.
            remote.state.withLock { $0.isDown = false }
            try await group.waitForAll()
        }
        for mirror in fleet { try await until { mirror.get(KVKey<Int>("a")) == 2 } }
        let times = lists.withLock { $0.dropFirst(20) }
        #expect(times.count == 20)
        #expect(try #require(times.max()) - #require(times.min()) > .milliseconds(500))
    }

    @Test("after an outage during which a revision is waited for, the changes are replayed and not listed")
    func replayAfterWaiting() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let mirror = try await MirroredKVStore(remote, .test(patience: .seconds(1))).caughtUp()
        remote.state.withLock { $0.isDown = true }
        let revision = remote.set("a", 2)
        let waiting = Task { try await mirror.wait(for: revision, upTo: TestDepth.hangLimit) }
        let error = await #expect(throws: KVStoreError.self) {
            try await mirror.wait(for: revision, upTo: .seconds(3))
        }
        #expect(error?.code == .timeout)
        remote.state.withLock { $0.isDown = false }
        try await waiting.value
        #expect(mirror.get(KVKey<Int>("a")) == 2)
        #expect(remote.state.withLock { $0.listCount } == 1)
    }

    @Test("a silent stream is kept while the store cannot be asked")
    func silentStreamInAnOutage() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let isDown = Mutex(false)
        let store = FaultingAsyncKVStore(remote) { call in
            call.operation == .entries && isDown.withLock { $0 } ? .before(.unavailable(.server)) : nil
        }
        let mirror = try await MirroredKVStore(store, .test(patience: .milliseconds(8))).caughtUp()
        isDown.withLock { $0 = true }
        remote.state.withLock { $0.isMuted = true }
        let revision = remote.set("a", 2)
        let error = await #expect(throws: KVStoreError.self) {
            try await mirror.wait(for: revision, upTo: .milliseconds(400))
        }
        #expect(error?.code == .timeout)
        remote.state.withLock { $0.isMuted = false }
        try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        #expect(remote.state.withLock { [$0.listCount, $0.connectionCount] } == [1, 1])
    }

    @Test("the wait after a failure grows while the store can be asked, but its stream ends at once")
    func backoff() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let fails = Mutex(false)
        let store = FaultingAsyncKVStore(remote) { call in
            call.operation == .changes && fails.withLock { $0 } ? .before(.unavailable(.server)) : nil
        }
        var configuration = MirroredKVStore.Configuration.test
        configuration.longestBackoff = .seconds(600)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        fails.withLock { $0 = true }
        remote.set("b", 1)
        try await until { mirror.failure != nil }
        // The limits of 13 waits have a sum of 400 seconds, those without growth of less than one.
        let start = ContinuousClock.now
        while remote.state.withLock({ $0.checkCount }) < 14, ContinuousClock.now - start < .seconds(4) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(remote.state.withLock { $0.checkCount } < 14)
        try await mirror.close()
    }

    @Test("a list that fails because of the connection is repeated with pages of the same size")
    func pageSize() async throws {
        let sizes = Mutex<[Int]>([])
        let remote = RemoteDouble()
        remote.set("a", 1)
        let codes: [KVStoreError.Code?] = [.unavailable(.server), .refused, .tooLarge, .timeout, nil]
        let store = RecordedPages(base: remote) { limit in
            let index = sizes.withLock { sizes in
                sizes.append(limit)
                return sizes.count - 1
            }
            return codes[min(index, codes.count - 1)]
        }
        _ = try await MirroredKVStore(store, .test).caughtUp()
        #expect(sizes.withLock { $0 } == [500, 500, 500, 125, 31])
    }
}

/// A store whose lists fail as a rule says.
private struct RecordedPages: ForwardingStore {
    let base: RemoteDouble
    let failure: @Sendable (_ limit: Int) -> KVStoreError.Code?

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        if let code = failure(limit) { throw KVStoreError(code, .keys) }
        return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }
}
