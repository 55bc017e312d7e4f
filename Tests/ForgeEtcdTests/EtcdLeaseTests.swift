#if Etcd
import EtcdServers
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing
@testable import ForgeEtcd

@Suite("Leases in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdLeaseTests {
    private func batch(_ name: String) throws -> KVBatch {
        var batch = KVBatch()
        try batch.set(KVKey<Int>(name), value: 1)
        return batch
    }

    @Test("a kept lease outlasts its time, is shared, and ends after it was released")
    func keeping() async throws {
        let store = try EtcdKVStore(.test(try await EtcdServer.shared().endpoint))
        var lease: EtcdLease? = try await store.keptLease(timeToLive: .seconds(6))
        #expect(try await store.keptLease(timeToLive: .milliseconds(5500)) === lease)
        try await store.commit(try batch("a"), lease: try #require(lease))
        try await Task.sleep(for: .seconds(9))
        #expect(try await store.contains(KVKey<Int>("a")))
        #expect(lease?.isLost == false)
        lease = nil
        let end = ContinuousClock.now + .seconds(30)
        while try await store.contains(KVKey<Int>("a")) {
            try #require(ContinuousClock.now < end, "the value of a released lease stays")
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    @Test("a lease that the cluster has ended is reported, and so is a write under it")
    func revoked() async throws {
        let server = try await EtcdServer.shared()
        let store = try EtcdKVStore(.test(server.endpoint))
        let lease = try await store.keptLease(timeToLive: .seconds(2))
        try await Gateway(server).post("/v3/lease/revoke", #"{"ID":"\#(lease.id)"}"#)
        let error = await #expect(throws: KVStoreError.self) {
            try await store.commit(try batch("a"), lease: lease)
        }
        #expect(error?.code == .leaseLost)
        #expect(lease.isLost)
        #expect(try await store.contains(KVKey<Int>("a")) == false)
        let other = try await store.keptLease(timeToLive: .seconds(2))
        #expect(other !== lease)
        try await Gateway(server).post("/v3/lease/revoke", #"{"ID":"\#(other.id)"}"#)
        try await other.lost()
        #expect(other.isLost)
    }

    @Test("a lease is lost when the cluster cannot be reached for its time")
    func unreachable() async throws {
        let server = try await EtcdServer.started()
        let start = ContinuousClock.now
        let lease = try await EtcdKVStore(.test(server.endpoint)).keptLease(timeToLive: .seconds(2))
        try await server.stop()
        try await lease.lost()
        #expect(ContinuousClock.now - start >= .seconds(2))
        #expect(ContinuousClock.now - start < .seconds(20))
    }

    @Test("the loss is noticed when the time ends, not when the next renewal is due")
    func end() async throws {
        let renewals = Mutex(0)
        let lease = EtcdLease(id: 1, timeToLive: .milliseconds(900))
        lease.keep(since: .now) { _ in
            renewals.withLock { $0 += 1 }
            try? await Task.sleep(for: .milliseconds(100))
            return nil
        }
        try await lease.lost()
        // After 300 and 700 ms; the next one would be due after 1,100.
        #expect(renewals.withLock { $0 } <= 2)
        #expect(lease.isLost)
    }

    @Test("waiting for the loss of a lease ends with the task")
    func cancelledWait() async throws {
        let lease = EtcdLease(id: 1, timeToLive: .seconds(60))
        let task = Task { try await lease.lost() }
        try await Task.sleep(for: .milliseconds(20))
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(!lease.isLost)
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await lease.lost()
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        lease.lose()
        try await lease.lost()
    }

    @Test("values written together share a lease")
    func sharing() async throws {
        let proxy = try FaultyProxy(to: try await EtcdServer.shared().port)
        let store = try EtcdKVStore(.test(proxy.endpoint))
        let start = ContinuousClock.now
        for index in 0..<10 { try await store.set(KVKey<Int>("\(index)"), value: index, timeToLive: .seconds(60)) }
        // One for each second that the writes have taken.
        let seconds = Int((ContinuousClock.now - start) / .seconds(1))
        #expect(proxy.requests.count { $0 == "/v3/lease/grant" } <= seconds + 1)
    }
}

@Suite("A session in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdSessionTests {
    @Test("conforms, and ends after its lifetime", arguments: ConformanceChecks.asyncSessionStorage)
    func conforms(_ check: ConformanceCheck<AsyncSessionStorageUnderTest>) async throws {
        let configuration = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        let (store, other) = (try EtcdKVStore(configuration), try EtcdKVStore(configuration))
        let tolerance = try #require(try await store.capabilities().expiry)
        let storages = [store, other].map {
            AsyncKVSessionStorage<ConformanceUser>(store: $0, key: "session", lifetime: .seconds(15))
        }
        try await check.run(
            on: AsyncSessionStorageUnderTest(
                storages[0], other: storages[1], lifetime: .seconds(15), tolerance: tolerance))
        await store.close()
        await other.close()
    }

    @Test("a cluster that is gone is an error of each call, and the session is kept")
    func errors() async throws {
        let server = try await EtcdServer.started()
        let store = try EtcdKVStore(.test(server.endpoint, deadline: .seconds(1)))
        let session = AsyncKVSessionStorage<Int>(store: store, key: "session", lifetime: .seconds(60))
        try await session.saveUser(1)
        try await server.stop()
        for call in [
            { try await session.saveUser(2) }, { try await session.clearUser() }, { _ = try await session.loadUser() },
        ] {
            let error = await #expect(throws: SessionStorageError.self) { try await call() }
            switch try #require(error) {
            case .cantSave(let cause as KVStoreError), .cantClear(let cause as KVStoreError),
                .unavailable(let cause as KVStoreError):
                #expect(cause.code == .unavailable(.server) || cause.code == .timeout, "\(cause)")
                #expect(cause.endpoint == server.endpoint || cause.endpoint == nil)
            default: Issue.record("\(String(describing: error))")
            }
        }
        try await server.start()
        #expect(try await session.loadUser() == 1)
        await store.close()
    }
}
#endif
