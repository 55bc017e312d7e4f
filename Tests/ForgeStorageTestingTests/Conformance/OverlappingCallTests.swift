import ForgeFileStore
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

/// Each defect shows only if two calls overlap, so each check runs several times.
@Suite("The checks of concurrent calls")
struct OverlappingCallTests {
    private static let runs = 0..<8

    @Test("find a store that checks requirements before it takes its lock, each time", arguments: runs)
    func requirements(_ run: Int) async throws {
        let check = try #require(
            ConformanceChecks.transactionalKeyValueStore.first {
                $0.description == RacingKVStore.Defect.requirements.rawValue
            })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: RacingKVStore(.requirements)) }
    }

    @Test(
        "find a batch that is applied, or a snapshot that is read, name by name, each time", arguments: runs,
        [RacingKVStore.Call.batch, .snapshot])
    func tornBatches(_ run: Int, _ call: RacingKVStore.Call) async throws {
        let check = try #require(
            ConformanceChecks.transactionalKeyValueStore.first {
                $0.description == RacingKVStore.Defect.snapshot.rawValue
            })
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: RacingKVStore(.snapshot, of: call))
        }
    }

    @Test("find a file store that saves in two steps, each time", arguments: runs)
    func tornSaves(_ run: Int) async throws {
        let check = try #require(
            ConformanceChecks.fileStore.first {
                $0.description == "a load during saves gives one content or another, never a mixture"
            })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: TearingFileStore()) }
    }
}

/// A key-value store one of whose calls takes several steps, each atomic.
final class RacingKVStore: KVTransactionalStoring, KVLayer {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case requirements = "of concurrent batches that require one revision, exactly one is applied"
        case snapshot = "a snapshot contains a whole batch or nothing of it"
    }

    /// The call of the defect of snapshots.
    enum Call: Sendable {
        case snapshot, batch
    }

    let base = InMemoryKVStore()
    private let defect: Defect
    private let call: Call

    init(_ defect: Defect, of call: Call = .batch) {
        self.defect = defect
        self.call = call
    }

    func commit(_ batch: KVBatch) throws {
        switch (defect, call) {
        case (.requirements, _):
            for requirement in batch.requirements
            where try base.entry(named: requirement.name)?.revision != requirement.revision {
                throw KVStoreError(.conflict, .batch, key: requirement.name)
            }
            var changes = KVBatch()
            for change in batch.changes { changes.append(change) }
            try base.commit(changes)
        case (.snapshot, .batch):
            for change in batch.changes {
                var single = KVBatch()
                single.append(change)
                try base.commit(single)
            }
        case (.snapshot, .snapshot): try base.commit(batch)
        }
    }

    func snapshot() throws -> KVSnapshot {
        guard defect == .snapshot, call == .snapshot else { return try base.snapshot() }
        var entries: [(name: String, entry: KVEntry)] = []
        for name in try base.keys() {
            if let entry = try base.entry(named: name) { entries.append((name, entry)) }
        }
        return KVSnapshot(entries)
    }
}

/// A file store in memory that replaces a content in two steps.
final class TearingFileStore: FileStoring {
    private let contents = Mutex<[String: Data]>([:])

    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        let half = data.count / 2
        contents.withLock { contents in
            contents[key] = data.prefix(half) + (contents[key] ?? Data()).dropFirst(half)
        }
        contents.withLock { $0[key] = data }
    }

    func load(_ key: String) async throws -> Data {
        guard let data = contents.withLock({ $0[key] }) else { throw FileStoreError(.notFound, .load, key: key) }
        return data
    }

    func exists(_ key: String) async -> Bool { contents.withLock { $0[key] != nil } }
    func delete(_ key: String) async throws { contents.withLock { $0[key] = nil } }
    func deleteAll() async throws { contents.withLock { $0 = [:] } }
    func list(in directory: String) async throws -> [StoredFile] { [] }
}
