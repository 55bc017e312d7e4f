#if Etcd
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import ServerTestSupport
import Synchronization
import Testing

@Suite("A mirror of a store in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdMirrorTests {
    private static func configuration() -> MirroredKVStore.Configuration {
        var configuration = MirroredKVStore.Configuration()
        configuration.listJitter = .zero
        configuration.longestBackoff = .milliseconds(200)
        configuration.visibilityLimit = .seconds(60)
        return configuration
    }

    private let configuration = Self.configuration()

    @Test("lists in pages, and follows the changes by other clients, batch by batch")
    func following() async throws {
        let settings = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        let other = try EtcdKVStore(settings)
        for index in 0..<7 { try await other.set(KVKey<Int>("\(index)"), value: index) }
        var configuration = configuration
        configuration.pageSize = 3
        let mirror = try MirroredKVStore(try EtcdKVStore(settings), configuration)
        try await mirror.wait(upTo: .seconds(60))
        #expect(try mirror.numbers == Dictionary(uniqueKeysWithValues: (0..<7).map { ("\($0)", $0) }))
        var revision: UInt64?
        for value in 1...50 {
            var batch = KVBatch()
            try batch.set(KVKey<Int>("a"), value: value)
            try batch.set(KVKey<Int>("b"), value: value)
            batch.remove(KVKey<Int>("\(value % 7)"))
            revision = try await other.commit(batch, timeToLive: nil)
            let numbers = try mirror.numbers
            #expect(numbers["a"] == numbers["b"])
        }
        try await mirror.wait(for: revision, upTo: .seconds(60))
        #expect(try mirror.numbers == ["a": 50, "b": 50])
        #expect(try mirror.entry(named: "a")?.revision == revision)
    }

    @Test("a write returns when the mirror shows it, also one that changes nothing")
    func writes() async throws {
        let settings = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        let mirror = try MirroredKVStore(try EtcdKVStore(settings), configuration)
        let key = KVKey<Int>("a")
        for value in 0..<20 {
            try await mirror.remote.set(key, value: value)
            #expect(mirror.get(key) == value)
        }
        try await mirror.remote.remove(key)
        #expect(!mirror.contains(key))
        // Another prefix of the cluster, so that the next revision is on no stream.
        let elsewhere = try EtcdKVStore(.test(try await EtcdServer.shared().endpoint))
        try await elsewhere.set(key, value: 1)
        try await mirror.remote.remove(key)
        #expect(!mirror.contains(key))
    }

    @Test(
        "conforms, with writes that block", .serialized,
        arguments: ConformanceChecks.rawKeyValueStore.filter { !$0.description.contains("4 MiB") })
    func conforms(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        let settings = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        var configuration = configuration
        configuration.synchronousWrites = .blocking(upTo: .seconds(60))
        let mirror = try MirroredKVStore(try EtcdKVStore(settings), configuration)
        try await mirror.wait(upTo: .seconds(60))
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await check.run(on: mirror) }
        try await mirror.close()
    }

    @Test("a compaction and a killed server are survived, without a change missed or out of order")
    func restarts() async throws {
        // A longer run: FORGE_MIRROR_ROUNDS=100.
        let rounds = Int(ProcessInfo.processInfo.environment["FORGE_MIRROR_ROUNDS"] ?? "") ?? 3
        let server = try await EtcdServer.started()
        var settings = EtcdKVStore.Configuration.test(server.endpoint)
        settings.deadline = .seconds(20)
        let (other, store) = (try EtcdKVStore(settings), try EtcdKVStore(settings))
        let mirror = try MirroredKVStore(store, configuration)
        try await mirror.wait(upTo: .seconds(60))
        let seen = Mutex<[Int]>([])
        let count = KVKey<Int>("count")
        let values = mirror.values(of: count)
        let following = Task { for await case let value? in values { seen.withLock { $0.append(value) } } }
        defer { following.cancel() }
        for round in 1...rounds {
            try await other.repeating { try await $0.set(KVKey<Int>("removed"), value: round) }
            try await other.repeating { try await $0.set(KVKey<Int>("round \(round)"), value: round) }
            try await server.restart()
            try await other.repeating { try await $0.remove(KVKey<Int>("removed")) }
            try await other.repeating { try await $0.set(count, value: round) }
            let revision = try await other.entry(named: "count")?.revision
            if let revision {
                try await Gateway(server).post("/v3/kv/compaction", #"{"revision":"\#(revision)"}"#)
            }
            try await mirror.wait(for: revision, upTo: .seconds(120))
            #expect(mirror.get(count) == round)
            #expect(!mirror.contains(KVKey<Int>("removed")))
            #expect(try mirror.numbers.count == round + 1)
        }
        let inOrder = seen.withLock { $0 == $0.sorted() }
        #expect(inOrder)
    }

    @Test("after 20 cut connections nothing is missed or out of order")
    func interruptions() async throws {
        let server = try await EtcdServer.shared()
        let proxy = try FaultyProxy(to: server.port)
        var settings = EtcdKVStore.Configuration.test(server.endpoint)
        let other = try EtcdKVStore(settings)
        settings.endpoints = [proxy.endpoint]
        let mirror = try MirroredKVStore(try EtcdKVStore(settings), configuration)
        try await mirror.wait(upTo: .seconds(60))
        let seen = Mutex<[Int]>([])
        let count = KVKey<Int>("count")
        let values = mirror.values(of: count)
        let following = Task { for await case let value? in values { seen.withLock { $0.append(value) } } }
        defer { following.cancel() }
        for round in 1...20 {
            try await mirror.wait(for: other.set("removed", round), upTo: .seconds(60))
            #expect(mirror.contains(KVKey<Int>("removed")))
            proxy.cut()
            try await other.remove(KVKey<Int>("removed"))
            _ = try await other.set("round \(round)", round)
            try await mirror.wait(for: other.set("count", round), upTo: .seconds(60))
            #expect(mirror.get(count) == round)
            #expect(!mirror.contains(KVKey<Int>("removed")))
        }
        #expect(try mirror.numbers.count == 21)
        let inOrder = seen.withLock { $0 == $0.sorted() }
        #expect(inOrder)
    }

    @Test("begins with its copy while the server is down, and replaces it by the content of a new cluster")
    func copy() async throws {
        let server = try await EtcdServer.started()
        let directory = FileManager.default.temporaryDirectory.appending(path: "forge-mirror-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        var configuration = configuration
        configuration.copy = try .init(at: directory)
        var settings = EtcdKVStore.Configuration.test(server.endpoint)
        settings.deadline = .seconds(20)
        let store = try EtcdKVStore(settings)
        let first = try MirroredKVStore(store, configuration)
        for value in 1...10 { try await first.remote.set(KVKey<Int>("a"), value: value) }
        let revision = first.revision
        try await first.close()
        try await server.stop()
        let second = try MirroredKVStore(store, configuration)
        #expect(try second.numbers == ["a": 10])
        #expect(second.revision == revision && !second.isCaughtUp)
        try await server.start()
        try await second.wait(upTo: .seconds(120))
        #expect(try second.numbers == ["a": 10])
        // Under a mirror that is connected.
        try await server.replace()
        try await store.repeating { try await $0.set(KVKey<Int>("b"), value: 1) }
        try await until { try second.numbers == ["b": 1] }
        #expect(try #require(second.revision) < #require(revision))
        try await second.close()
        // And under its copy.
        try await server.replace()
        let third = try MirroredKVStore(store, configuration)
        #expect(try third.numbers == ["b": 1])
        try await third.wait(upTo: .seconds(120))
        #expect(try third.numbers.isEmpty)
        try await third.close()
    }
}

extension MirroredKVStore {
    /// The values that are numbers.
    fileprivate var numbers: [String: Int] {
        get throws {
            let snapshot = try snapshot()
            return Dictionary(
                uniqueKeysWithValues: try snapshot.names.map { ($0, try snapshot.read(KVKey<Int>($0)) ?? 0) })
        }
    }
}

extension EtcdKVStore {
    /// Sets a value; returns its revision.
    fileprivate func set(_ name: String, _ value: Int) async throws -> UInt64? {
        var batch = KVBatch()
        try batch.set(KVKey<Int>(name), value: value)
        return try await commit(batch, timeToLive: nil)
    }

    /// Makes a call that may happen twice until it succeeds.
    fileprivate func repeating(_ call: (EtcdKVStore) async throws -> Void) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            do {
                return try await call(self)
            } catch {
                guard ContinuousClock.now < end else { throw error }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }
}

/// Runs each job of a task on a thread of its own, so that tasks may block: those of Dispatch are the pool's.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
#endif
