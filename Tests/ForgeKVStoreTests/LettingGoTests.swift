import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("Letting go of a store")
struct LettingGoTests {
    /// Holds the only reference.
    private final class Owner: Sendable {
        let store = Mutex<FileKVStore?>(nil)
        let hasLetGo = DispatchSemaphore(value: 0)
    }

    @Test("where it tells of an issue, in a thread of its own, closes it", .timeLimit(.minutes(20)))
    func inBackground() throws {
        let memory = InMemoryFileSystem()
        let fileSystem = FaultingFileSystem(memory, plan: FaultPlan([.on(.rename, call: 2, do: .fail(.ioError))]))
        let owner = Owner()
        let recorder = IssueRecorder()
        var options = recorder.options(compactionFloorInBytes: 1000)
        options.compactsInBackground = true
        options.onIssue = { issue in
            recorder.record(issue)
            owner.store.withLock { $0 = nil }
            owner.hasLetGo.signal()
        }
        let key = KVKey<Int>("count")
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            owner.store.withLock { $0 = store }
        }
        for number in 0..<500 {
            // Until it is gone.
            try owner.store.withLock { try $0?.set(key, value: number) }
        }
        owner.hasLetGo.wait()
        #expect(recorder.descriptions.first?.hasPrefix("compaction failed") == true)
        // Waits until the store is closed.
        let again = try FileKVStore(at: "/store", fileSystem: fileSystem, options: recorder.options())
        #expect(try again.read(key) != nil)
        #expect(try again.damageReports().isEmpty)
    }
}
