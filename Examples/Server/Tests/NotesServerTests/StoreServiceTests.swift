import ForgeStorage
import ForgeStorageTesting
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

@testable import NotesServer

struct StoreServiceTests {
    @Test(.timeLimit(.minutes(10))) func closesTheStoreAtShutdown() async throws {
        let store = try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem())
        try await testGracefulShutdown { trigger in
            trigger.triggerGracefulShutdown()
            try await StoreService(store: store).run()
        }
        let error = #expect(throws: KVStoreError.self) { try store.set(KVKey<Int>("a"), value: 1) }
        #expect(error?.code == .unavailable(.closed))
    }

    @Test(.timeLimit(.minutes(10))) func closesTheStoreAndThrowsIfItIsCancelled() async throws {
        let store = try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem())
        let service = Task { try await StoreService(store: store).run() }
        service.cancel()
        await #expect(throws: ShutdownForced.self) { try await service.value }
        let error = #expect(throws: KVStoreError.self) { try store.set(KVKey<Int>("a"), value: 1) }
        #expect(error?.code == .unavailable(.closed))
    }

    @Test(.timeLimit(.minutes(10))) func throwsIfTheDeviceFails() async throws {
        let plan = FaultPlan()
        let store = try FileKVStore(
            at: "/store", fileSystem: FaultingFileSystem(InMemoryFileSystem(), plan: plan))
        try store.set(KVKey<Int>("a"), value: 1)
        plan.add(.fail(.synchronize, every: 1, with: .ioError))
        await testGracefulShutdown { trigger in
            trigger.triggerGracefulShutdown()
            await #expect(throws: KVStoreError.self) { try await StoreService(store: store).run() }
        }
    }
}
