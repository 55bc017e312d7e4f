#if Etcd
import ForgeFileSystem
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import Testing

@Suite("Changes in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdWatchTests {
    private let end = KVKey<Int>("end")

    /// Follows the changes until `end` has a value; `act` is called with the number of resyncs so far.
    private func follow(
        _ store: EtcdKVStore, _ act: (_ resyncs: Int) async throws -> Void
    ) async throws -> (content: [String: Int], resyncs: Int) {
        var content: [String: Int] = [:]
        var resyncs = 0
        for try await change in store.changes() {
            switch change {
            case .resync:
                resyncs += 1
                content = [:]
                for name in try await store.keys() { content[name] = try await store.read(KVKey(name)) }
                try await act(resyncs)
            case .changed(let name, let entry, _): content[name] = try entry?.value(of: KVKey<Int>(name))
            }
            if content["end"] != nil { break }
        }
        return (content, resyncs)
    }

    @Test("watches do not use up the connections of other calls")
    func manyWatches() async throws {
        let server = try await EtcdServer.shared()
        let store = try EtcdKVStore(.test(server.endpoint))
        try await withThrowingTaskGroup(of: Void.self) { group in
            let count = 20
            let (opened, open) = AsyncStream.makeStream(of: Void.self)
            for _ in 0..<count {
                group.addTask {
                    for try await change in store.changes() {
                        guard case .resync = change else { return }
                        open.yield()
                    }
                }
            }
            var iterator = opened.makeAsyncIterator()
            for _ in 0..<count { await iterator.next() }
            try await store.set(end, value: 1)
            #expect(try await store.read(end) == 1)
            try await group.waitForAll()
        }
    }

    @Test("after a cut connection a watch misses nothing")
    func interruption() async throws {
        let server = try await EtcdServer.shared()
        let proxy = try FaultyProxy(to: server.port)
        var configuration = EtcdKVStore.Configuration.test(proxy.endpoint)
        let store = try EtcdKVStore(configuration)
        configuration.endpoints = [server.endpoint]
        let direct = try EtcdKVStore(configuration)
        try await direct.set(KVKey<Int>("removed"), value: 1)
        let isReplayed = try await store.capabilities().changes == .replayable
        let found = try await follow(store) { resyncs in
            guard resyncs == 1 else { return try await direct.set(end, value: 1) }
            proxy.cut()
            try await direct.remove(KVKey<Int>("removed"))
            try await direct.set(KVKey<Int>("added"), value: 2)
            if isReplayed { try await direct.set(end, value: 1) }
        }
        #expect(found.content == ["added": 2, "end": 1])
        #expect(found.resyncs == (isReplayed ? 1 : 2))
    }

    @Test("after the server was killed and started again a watch misses nothing")
    func restart() async throws {
        let server = try await EtcdServer.started()
        let store = try EtcdKVStore(.test(server.endpoint, deadline: .seconds(10)))
        let isReplayed = try await store.capabilities().changes == .replayable
        let found = try await follow(store) { resyncs in
            guard resyncs == 1 else { return try await store.set(end, value: 1) }
            try await server.restart()
            try await store.set(KVKey<Int>("added"), value: 2)
            if isReplayed { try await store.set(end, value: 1) }
        }
        #expect(found.content == ["added": 2, "end": 1])
    }

    @Test("from a compacted revision changes begin with a resync")
    func compaction() async throws {
        let server = try await EtcdServer.started()
        let store = try EtcdKVStore(.test(server.endpoint))
        let key = KVKey<Int>("a")
        for value in 0..<5 { try await store.set(key, value: value) }
        let revision = try #require(try await store.entry(named: "a")?.revision)
        try await Gateway(server).post("/v3/kv/compaction", #"{"revision":"\#(revision)"}"#)
        var iterator = store.changes(prefix: "", from: 2).makeAsyncIterator()
        #expect(try await iterator.next() == .resync)
        try await store.set(key, value: 7)
        guard case .changed("a", let entry, _) = try await iterator.next() else {
            Issue.record("another element")
            return
        }
        #expect(try entry?.value(of: key) == 7)
    }

    @Test("a server that cannot be reached is reported, and the sequence continues when it can")
    func unreachable() async throws {
        let server = try await EtcdServer.started()
        let store = try EtcdKVStore(.test(server.endpoint, deadline: .seconds(2)))
        var iterator = store.changes().makeAsyncIterator()
        #expect(try await iterator.next() == .resync)
        try await server.stop()
        let error = await #expect(throws: KVStoreError.self) { try await iterator.next() }
        #expect(error?.code == .unavailable(.server))
        #expect(error?.endpoint == server.endpoint)
        try await server.start()
        // Calls may time out until the member has a leader.
        while true {
            do {
                #expect(try await iterator.next() == .resync)
                break
            } catch {}
        }
    }

    @Test("cancelling the consumer, and releasing the sequence, free the connection")
    func release() async throws {
        let proxy = try FaultyProxy(to: try await EtcdServer.shared().port)
        let store = try EtcdKVStore(.test(proxy.endpoint))
        let task = Task {
            var count = 0
            for try await _ in store.changes() { count += 1 }
            return count
        }
        try await until { proxy.requests.contains("/v3/watch") }
        task.cancel()
        _ = try await task.value
        try await until { proxy.connectionCount == 0 }
        for try await _ in store.changes() { break }
        try await until { proxy.connectionCount == 0 }
    }
}
#endif
