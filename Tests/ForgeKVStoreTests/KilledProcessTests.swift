import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("A store after a kill followed by a power cut")
struct KilledProcessTests {
    private struct Lost: Error {}

    private let key = KVKey<Int>("count")

    private func open(on fileSystem: any POSIXFileSystem) throws -> FileKVStore {
        var options = IssueRecorder().options()
        options.compactsInBackground = false
        options.reserveLittle()
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    @Test("durable writes survive a process killed after it renamed the compacted log")
    func renamed() async throws {
        try await forEachCrash(
            limit: TestDepth.limit(60, deep: 100_000),
            prepare: { fileSystem in
                let store = try open(on: fileSystem)
                try store.set(key, value: 1)
            },
            run: { fileSystem, run in
                let plan = FaultPlan([.on(.rename, do: .crash(effect: .done))])
                let first = FaultingFileSystem(fileSystem, plan: plan)
                do {
                    let store = try open(on: first)
                    try store.set(key, value: 2)
                    #expect(throws: KVStoreError.self) { try store.compact() }
                }
                try plan.requireAllFired()
                // The first process recorded nothing as durable, so opening makes the writes durable.
                let store = try open(on: FaultingFileSystem(fileSystem))
                guard try store.read(key) == 2 else { throw Lost() }
                try store.synchronize()
                run.acknowledge("2")
                try store.set(key, value: 3)
                try store.synchronize()
                run.acknowledge("3")
            },
            recover: { fileSystem, crash in
                let value = try open(on: fileSystem).read(key) ?? 0
                if crash.acknowledged.contains("3"), value < 3 { throw Lost() }
                if crash.acknowledged.contains("2"), value < 2 { throw Lost() }
            })
    }
}
