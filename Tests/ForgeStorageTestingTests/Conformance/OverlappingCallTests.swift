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
        "find a batch that is applied, a snapshot that is read, or a store that is emptied, name by name, each time",
        arguments: runs, RacingKVStore.Call.allCases)
    func tornBatches(_ run: Int, _ call: RacingKVStore.Call) async throws {
        let check = try #require(
            ConformanceChecks.transactionalKeyValueStore.first {
                $0.description == RacingKVStore.Defect.snapshot.rawValue
            })
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: RacingKVStore(.snapshot, of: call))
        }
    }

    @Test("find a store that sets a value aside for each of two writers, each time", arguments: runs)
    func copies(_ run: Int) async throws {
        let check = try #require(
            ConformanceChecks.transactionalKeyValueSettingAside.first {
                $0.description == "a value that two writers replace at once is set aside once"
            })
        try await check.run(on: CopyingKVStore(nil).subject)
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: CopyingKVStore(.copiesTwice).subject)
        }
    }

    @Test(
        "find a store that sets texts aside and no other values, or none that a later version replaces",
        arguments: [CopyingKVStore.Defect.copiesTexts, .ignoresVersions])
    func omittedCopies(_ defect: CopyingKVStore.Defect) async throws {
        let check = try #require(
            ConformanceChecks.transactionalKeyValueSettingAside.first {
                $0.description == "set sets aside a value that cannot be read as the new type"
            })
        try await check.run(on: CopyingKVStore(nil).subject)
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: CopyingKVStore(defect).subject)
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
    enum Call: CaseIterable, Sendable {
        case snapshot, batch, removeAll
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
        case (.snapshot, .snapshot), (.snapshot, .removeAll): try base.commit(batch)
        }
    }

    func removeAll() throws {
        guard defect == .snapshot, call == .removeAll else { return try base.removeAll() }
        for name in try base.keys() { try base.removeValue(named: name) }
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

/// A key-value store that copies a value which cannot be read before it replaces it.
final class CopyingKVStore: KVTransactionalStoring, KVLayer {
    enum Defect: Sendable {
        case copiesTwice, copiesTexts, ignoresVersions
    }

    let base = InMemoryKVStore()
    private let copies = Mutex<[[UInt8]]>([])
    private let defect: Defect?

    init(_ defect: Defect?) { self.defect = defect }

    var subject: SettingAsideStore<any KVTransactionalStoring> {
        SettingAsideStore<any KVTransactionalStoring>(self) { self.copies.withLock(\.self) }
    }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        if let bytes = try base.rawValue(named: key.name), base.get(key) == nil,
            defect != .copiesTexts || base.get(KVKey<String>(key.name)) != nil,
            defect != .ignoresVersions || key.migratedVersions.isEmpty
        {
            copies.withLock { copies in
                if defect == .copiesTwice || !copies.contains(bytes) { copies.append(bytes) }
            }
        }
        try base.set(key, value: value)
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
