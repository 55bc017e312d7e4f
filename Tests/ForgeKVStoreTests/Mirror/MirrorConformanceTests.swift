import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("A mirror conforms", .serialized)
struct MirrorConformanceTests {
    /// Mirrors block the threads of these checks, so they run on threads of their own.
    private func run(_ check: ConformanceCheck<any KVRawStoring>, over store: any AsyncKVStoring) async throws {
        var configuration = MirroredKVStore.Configuration.test
        configuration.synchronousWrites = .blocking(upTo: TestDepth.hangLimit)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await check.run(on: mirror) }
        try await mirror.close()
    }

    @Test("over a local store, with writes that block", arguments: ConformanceChecks.rawKeyValueStore)
    func local(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        try await run(check, over: LocalAsyncKVStore(InMemoryKVStore()))
    }

    @Test(
        "over a store with revisions, with writes that block",
        arguments: TestDepth.leavingOut("4 MiB", of: ConformanceChecks.rawKeyValueStore))
    func revisions(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        try await run(check, over: RemoteDouble())
    }

    @Test("its remote store does, as the store itself", arguments: ConformanceChecks.asyncKeyValueStore)
    func remote(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        let store = RemoteDouble()
        let mirror = try MirroredKVStore(store, .test)
        try await check.run(on: AsyncKVStoreUnderTest(mirror.remote, other: store, pass: { _ in }))
        try await mirror.close()
    }

    @Test("a namespace of a remote store is mirrored under the caller's names")
    func namespace() async throws {
        let store = RemoteDouble()
        let part = NamespacedKVStore(store, namespace: "n")
        try await part.set(KVKey<Int>("a"), value: 1)
        try await store.set(KVKey<Int>("other"), value: 1)
        let mirror = try await MirroredKVStore(part, .test).caughtUp()
        #expect(try mirror.numbers == ["a": 1])
        try await mirror.remote.set(KVKey<Int>("b"), value: 2)
        #expect(try mirror.numbers == ["a": 1, "b": 2])
        #expect(store.state.withLock { $0.listCount } == 1)
    }
}

/// Runs each job of a task on a thread of its own, so that tasks may block: those of Dispatch are the pool's.
final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
