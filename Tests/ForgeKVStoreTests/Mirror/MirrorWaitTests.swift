import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("How current a mirror is")
struct MirrorWaitTests {
    @Test("a revision that the stream does not reach is reached by a list")
    func listForAWait() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let mirror = try await MirroredKVStore(remote, .test(patience: .milliseconds(100))).caughtUp()
        let revision = remote.pass()
        try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        #expect(mirror.revision == revision)
        #expect(remote.state.withLock { $0.listCount } > 1)
    }

    @Test("a wait ends with its time, with its task, and with the mirror")
    func ends() async throws {
        let remote = RemoteDouble()
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        var error = await #expect(throws: KVStoreError.self) {
            try await mirror.wait(for: 100, upTo: .milliseconds(20))
        }
        #expect(error?.code == .timeout)
        let task = Task { try await mirror.wait(for: 100, upTo: .seconds(600)) }
        try await Task.sleep(for: .milliseconds(20))  // In either order the wait ends.
        task.cancel()
        error = await #expect(throws: KVStoreError.self) { try await task.value }
        #expect(error?.code == .cancelled)
        let (started, start) = AsyncStream.makeStream(of: Void.self)
        let last = Task {
            start.yield()
            try await mirror.wait(for: 100, upTo: .seconds(600))
        }
        for await _ in started { break }
        try await mirror.close()
        error = await #expect(throws: KVStoreError.self) { try await last.value }
        #expect(error?.code == .unavailable(.closed))
        // What it shows is no longer that of the remote store.
        error = await #expect(throws: KVStoreError.self) { try await mirror.wait(upTo: .seconds(1)) }
        #expect(error?.code == .unavailable(.closed))
    }

    @Test("reports a failure until the mirror has caught up again")
    func failure() async throws {
        let remote = RemoteDouble()
        remote.state.withLock { $0.isDown = true }
        let mirror = try MirroredKVStore(remote, .test(patience: .milliseconds(100)))
        try await until { mirror.failure?.code == .unavailable(.server) }
        #expect(!mirror.isCaughtUp && mirror.age == nil && mirror.revision == nil)
        remote.set("a", 1)
        remote.state.withLock { $0.isDown = false }
        try await mirror.wait(upTo: TestDepth.hangLimit)
        #expect(mirror.failure == nil && mirror.isCaughtUp)
        remote.state.withLock { $0.isDown = true }
        try await until { !mirror.isCaughtUp }
        #expect(mirror.get(KVKey<Int>("a")) == 1)
        // A connection that continues has caught up when it has reached what the store has had at its beginning.
        remote.pass()
        remote.state.withLock { $0.isDown = false }
        try await until { mirror.isCaughtUp }
        #expect(mirror.revision == 2)
    }

    @Test("a write returns when the mirror shows it, with or without revisions", arguments: [true, false])
    func writes(_ tellsRevisions: Bool) async throws {
        let store: any AsyncKVStoring = tellsRevisions ? RemoteDouble() : LocalAsyncKVStore(InMemoryKVStore())
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        let key = KVKey<Int>("a")
        for value in 1...20 {
            try await mirror.remote.set(key, value: value)
            #expect(mirror.get(key) == value)
        }
        #expect(try await mirror.remote.compareAndSet(key, revision: mirror.entry(named: "a")?.revision, value: 30))
        #expect(mirror.get(key) == 30)
        try await mirror.remote.remove(key)
        #expect(!mirror.contains(key))
        // Nothing to report follows from this one.
        try await mirror.remote.remove(key)
        #expect(!mirror.contains(key))
    }

    @Test("a write that the stream skips ends when the mirror shows the later one", arguments: [1, nil], [2, nil])
    func hidden(_ own: Int?, _ other: Int?) async throws {
        let store = ScriptedStore(returnsRevisions: false)
        store.base.set("a", 0)
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        let key = KVKey<Int>("a")
        let write = Task {
            if let own { try await mirror.remote.set(key, value: own) } else { try await mirror.remote.remove(key) }
        }
        try await until { store.readCount.load(ordering: .relaxed) > 0 }
        let revision = store.base.set("a", other)
        let entry = store.base.state.withLock { $0.content[KeyName("a")] }
        store.deliver([.changed(name: "a", entry: entry, revision: nil)])
        try await write.value
        #expect(mirror.get(key) == other)
        #expect(revision == 3)
    }

    @Test("a write goes on waiting while the remote store cannot be read")
    func unreadable() async throws {
        let store = ScriptedStore(returnsRevisions: false)
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        let key = KVKey<Int>("a")
        let write = Task { try await mirror.remote.set(key, value: 1) }
        try await until { store.readCount.load(ordering: .relaxed) > 0 }
        store.failsReads.store(true, ordering: .relaxed)
        try await until { store.readCount.load(ordering: .relaxed) > 3 }
        let entry = store.base.state.withLock { $0.content[KeyName("a")] }
        store.deliver([.changed(name: "a", entry: entry, revision: nil)])
        try await write.value
        #expect(mirror.get(key) == 1)
    }

    @Test("a removal also reaches names that the mirror does not show yet")
    func removalOfTheUnseen() async throws {
        let remote = RemoteDouble()
        let mirror = try await MirroredKVStore(remote, .test(patience: .milliseconds(100))).caughtUp()
        remote.state.withLock { $0.isMuted = true }
        remote.set("a", 1)
        remote.set("a", nil)
        try await mirror.remote.remove(KVKey<Int>("a"))
        #expect(mirror.revision == 2)
        remote.state.withLock { $0.isMuted = false }
        try await mirror.wait(for: remote.set("b", 1), upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["b": 1])
    }

    @Test("a write that the mirror does not show in time is applied, and the error says so")
    func notYetVisible() async throws {
        let remote = RemoteDouble()
        let isDead = Mutex(false)
        let store = FaultingAsyncKVStore(remote) { call in
            call.operation == .entries && isDead.withLock { $0 } ? .before(.unavailable(.server)) : nil
        }
        var configuration = MirroredKVStore.Configuration.test(patience: .milliseconds(50))
        configuration.visibilityLimit = .milliseconds(300)
        configuration.revisionCheckInterval = .milliseconds(200)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        isDead.withLock { $0 = true }
        remote.state.withLock { $0.isMuted = true }
        let error = await #expect(throws: KVStoreError.self) {
            try await mirror.remote.set(KVKey<Int>("a"), value: 1)
        }
        #expect(error?.code == .notYetVisible)
        #expect(error?.key == "a")
        #expect(remote.state.withLock { $0.content.count } == 1)
        isDead.withLock { $0 = false }
        try await until { mirror.get(KVKey<Int>("a")) == 1 }
    }

    @Test("the synchronous writes are refused, unless they may block")
    func synchronousWrites() async throws {
        let remote = RemoteDouble()
        let mirror = try await MirroredKVStore(remote, .test).caughtUp()
        let key = KVKey<Int>("a")
        let calls: [(KVStoreError.Operation, () throws -> Void)] = [
            (.set, { try mirror.set(key, value: 1) }), (.remove, { try mirror.remove(key) }),
            (.removeAll, { try mirror.removeAll() }), (.set, { try mirror.setRawValue([1], named: "a") }),
            (.remove, { try mirror.removeValue(named: "a") }),
        ]
        for (operation, call) in calls {
            let error = #expect(throws: KVStoreError.self) { try call() }
            #expect(error?.code == .readOnly)
            #expect(error?.operation == operation)
        }
        let long = String(repeating: "x", count: 1_025)
        for call in [
            { try mirror.set(KVKey<Int>(long), value: 1) }, { try mirror.setRawValue([1], named: long) },
            { try mirror.remove(KVKey<Int>(long)) },
        ] as [() throws -> Void] { #expect(code(call) == .invalidKey) }
        #expect(remote.state.withLock { $0.revision } == 0)
    }

    @Test("a synchronous write whose outcome is unknown says so, and one that cannot be sent changes nothing")
    func failedSynchronousWrites() async throws {
        let fault = Mutex<FaultingAsyncKVStore<RemoteDouble>.Fault?>(nil)
        let store = FaultingAsyncKVStore(RemoteDouble()) { call in
            call.operation == .commit ? fault.withLock { $0 } : nil
        }
        var configuration = MirroredKVStore.Configuration.test
        configuration.synchronousWrites = .blocking(upTo: TestDepth.hangLimit)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        let codes: [KVStoreError.Code] = [
            .unavailable(.server), .timeout, .unknownOutcome, .refused, .tooLarge, .conflict,
        ]
        for code in codes {
            fault.withLock { $0 = .before(code) }
            let error = await withTaskExecutorPreference(ThreadExecutor.shared) {
                #expect(throws: KVStoreError.self) { try mirror.set(KVKey<Int>("a"), value: 1) }
            }
            #expect(error?.code == code)
            #expect(error?.operation == .set)
            #expect(error?.key == "a")
        }
    }
}

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
        let counts: [Int] = remote.state.withLock { [$0.listCount, $0.connectionCount] }
        #expect(counts == [1, 1])
    }

    @Test("a question that the store does not answer ends the connection, and the next one continues")
    func unansweredQuestion() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let isDown = Mutex(false)
        let store = FaultingAsyncKVStore(remote) { call in
            call.operation == .entries && isDown.withLock { $0 } ? .before(.unavailable(.server)) : nil
        }
        var configuration = MirroredKVStore.Configuration.test
        configuration.revisionCheckInterval = .milliseconds(20)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        isDown.withLock { $0 = true }
        try await until { mirror.failure?.code == .unavailable(.server) }
        #expect(!mirror.isCaughtUp)
        isDown.withLock { $0 = false }
        try await mirror.wait(upTo: TestDepth.hangLimit)
        #expect(mirror.failure == nil)
        #expect(remote.state.withLock { $0.listCount } == 1)
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
        let codes: [KVStoreError.Code?] = [
            .unavailable(.server), .refused, .tooLarge, .timeout, .timeout, .tooLarge, nil,
        ]
        let store = RuledPages(base: remote) { limit in
            let index = sizes.withLock { sizes in
                sizes.append(limit)
                return sizes.count - 1
            }
            return codes[min(index, codes.count - 1)]
        }
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        #expect(sizes.withLock { $0 } == [500, 500, 500, 125, 31, 16, 16])
        // The next connection asks for the revision, and lists with larger pages again.
        remote.state.withLock { $0.replays = false }
        remote.cut()
        try await until { sizes.withLock { $0.count } == 9 }
        #expect(sizes.withLock { $0.suffix(2) } == [1, 32])
        withExtendedLifetime(mirror) {}
    }
}
