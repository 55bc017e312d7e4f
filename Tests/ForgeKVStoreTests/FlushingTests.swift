import Dispatch
import ForgeCrashTesting
import ForgeFileSystem
import Foundation
import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Flushing and closing a store in a task", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct FlushingTests {
    private let key = KVKey<Int>("a")

    @Test("block no thread of the pool while the device flushes")
    func pool() async throws {
        let fileSystem = FailingFileSystem()
        let device = BusyDevice()
        // More than the pool has threads.
        let stores = try (0..<ProcessInfo.processInfo.activeProcessorCount + 2).map { number in
            try FileKVStore(at: POSIXPath("/store-\(number)"), fileSystem: fileSystem)
        }
        for store in stores { try store.set(key, value: 1) }
        fileSystem.fail { operation, _ in
            if operation == .synchronize { device.flush() }
            return nil
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, store) in stores.enumerated() {
                group.addTask {
                    if number.isMultiple(of: 2) { try await store.flush() } else { try await store.shutDown() }
                }
            }
            // Runs in the pool.
            group.addTask {
                while device.flushCount < stores.count { await Task.yield() }
                device.release()
            }
            try await group.waitForAll()
        }
    }

    @Test("make earlier writes durable")
    func durability() async throws {
        try await forEachCrash(limit: TestDepth.limit(60, deep: 1_000), depth: 1) { [key] fileSystem, run in
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            try store.set(key, value: 1)
            try await store.flush()
            run.acknowledge("flushed")
            try store.set(key, value: 2)
            try await store.shutDown()
            run.acknowledge("closed")
        } recover: { [key] fileSystem, crash in
            let value = try FileKVStore(at: "/store", fileSystem: fileSystem).get(key) ?? 0
            if crash.acknowledged.contains("flushed"), value < 1 { throw Lost() }
            if crash.acknowledged.contains("closed"), value < 2 { throw Lost() }
        }
    }

    private struct Lost: Error {}

    @Test("throw the errors of the blocking calls")
    func failures() async throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(key, value: 1)
        fileSystem.fail(.synchronize)
        let flush = await #expect(throws: KVStoreError.self) { try await store.flush() }
        #expect(flush?.operation == .synchronize)
        let close = await #expect(throws: KVStoreError.self) { try await store.shutDown() }
        #expect(close?.code == .durabilityUnknown)
    }
}

/// A device whose flushes end when it is released.
private final class BusyDevice: Sendable {
    private let count = Atomic(0)
    private let isReleased = DispatchSemaphore(value: 0)

    /// The number of flushes that have begun.
    var flushCount: Int { count.load(ordering: .relaxed) }

    func flush() {
        count.add(1, ordering: .relaxed)
        isReleased.wait()
        isReleased.signal()
    }

    func release() { isReleased.signal() }
}
