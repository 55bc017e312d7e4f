import ForgeKVStore
import ForgeStorageTesting
import Synchronization
import TestDepth
import Testing

@Suite("The age of a mirror")
struct MirrorAgeTests {
    @Test("a silent stream is trusted while the store is at the mirror's revision, and its age begins again")
    func silence() async throws {
        let remote = RemoteDouble()
        var configuration = MirroredKVStore.Configuration.test
        configuration.revisionCheckInterval = .milliseconds(50)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        try await until { remote.state.withLock { $0.checkCount } >= 5 }
        #expect(remote.state.withLock { $0.connectionCount } == 1)
        // Every check proves that the mirror is current; the list alone would be older.
        let start = ContinuousClock.now
        let count = remote.state.withLock { $0.checkCount }
        try await until { remote.state.withLock { $0.checkCount } >= count + 3 }
        #expect(try #require(mirror.age) < ContinuousClock.now - start + .milliseconds(50))
    }

    @Test("a stream that is dead is replaced, and what it has missed is applied", arguments: [true, false])
    func deadStream(_ replays: Bool) async throws {
        let remote = RemoteDouble()
        remote.state.withLock { $0.replays = replays }
        remote.set("removed", 1)
        var configuration = MirroredKVStore.Configuration.test(patience: .milliseconds(50))
        configuration.revisionCheckInterval = .milliseconds(50)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        remote.state.withLock { $0.isMuted = true }
        remote.set("removed", nil)
        remote.set("a", 1)
        try await until { remote.state.withLock { $0.connectionCount } > 1 }
        remote.state.withLock { $0.isMuted = false }
        try await until { try mirror.numbers == ["a": 1] }
    }

    @Test("a stream that delivers is compared with the store as well")
    func busyStream() async throws {
        let remote = RemoteDouble()
        var configuration = MirroredKVStore.Configuration.test
        configuration.revisionCheckInterval = .milliseconds(50)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        let count = remote.state.withLock { $0.checkCount }
        // A change every 20 ms: the stream is never silent for the limit.
        var polls = 0
        try await until {
            polls += 1
            if polls.isMultiple(of: 10) { remote.set("a", polls) }
            return remote.state.withLock { $0.checkCount } >= count + 3
        }
        #expect(remote.state.withLock { $0.connectionCount } == 1)
        #expect(mirror.isCaughtUp)
    }

    @Test("a message proves nothing about the time of its arrival")
    func lateMessages() async throws {
        let store = ScriptedStore()
        store.base.set("a", 1)
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        let listed = ContinuousClock.now
        // Sent before the list, and a change that was sent long ago.
        store.deliver([], upTo: 1)
        store.deliver(
            [.changed(name: "a", entry: KVEntry(bytes: encoded(2), revision: 2), revision: 2)], upTo: 2)
        try await mirror.wait(for: 2, upTo: TestDepth.hangLimit)
        let elapsed = ContinuousClock.now - listed
        #expect(try #require(mirror.age) >= elapsed)
        #expect(mirror.isCaughtUp)
    }

    @Test("a stream that does not begin is replaced")
    func silentBeginning() async throws {
        let store = ScriptedStore()
        var configuration = MirroredKVStore.Configuration.test
        configuration.revisionCheckInterval = .milliseconds(20)
        let mirror = try MirroredKVStore(store, configuration)
        try await until { store.connectionCount.load(ordering: .relaxed) >= 3 }
        store.deliver([.resync])
        try await mirror.wait(upTo: TestDepth.hangLimit)
    }

    @Test("a mirror that does not show what the store has is not caught up")
    func failedProof() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        var configuration = MirroredKVStore.Configuration.test(patience: .milliseconds(50))
        configuration.revisionCheckInterval = .milliseconds(50)
        configuration.listJitter = .seconds(600)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        remote.state.withLock { $0.isMuted = true }
        remote.set("a", 2)
        try await until { !mirror.isCaughtUp }
        #expect(mirror.failure == nil)
        // After a second stream that does not deliver, a list is to come.
        try await until { remote.state.withLock { $0.connectionCount } >= 3 }
        #expect(!mirror.isCaughtUp && mirror.get(KVKey<Int>("a")) == 1)
        try await mirror.close()
    }
}
