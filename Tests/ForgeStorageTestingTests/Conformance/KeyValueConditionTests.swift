import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Synchronization
import TestDepth
import Testing

@Suite("The checks of a key-value store under conditions")
struct KeyValueConditionTests {
    private static let checks = ConformanceChecks.keyValueStoreConditions

    @Test("pass for a store without a defect", arguments: checks)
    func sound(_ check: ConformanceCheck<KeyValueStoreUnderTest>) async throws {
        try await check.run(on: BrokenKVStoreUnderTest.subject(nil))
    }

    @Test("each detect their defect, and no other check does", arguments: BrokenKVStoreUnderTest.Defect.allCases)
    func defects(_ defect: BrokenKVStoreUnderTest.Defect) async {
        // By day, values of the maximum size meet the defects that concern them only: to encode them takes long.
        let isOfSizes = Self.checks.contains { $0.description == defect.check && $0.needs.contains(.valueSizeLimit) }
        let turn = BrokenKVStoreUnderTest.Defect.allCases.firstIndex(of: defect) ?? 0
        let checks = TestDepth.checks(
            Self.checks.filter { TestDepth.isDeep || isOfSizes || !$0.needs.contains(.valueSizeLimit) }, turn: turn
        ) { $0.description == defect.check }
        let report = await Waiting.$limit.withValue(.seconds(2)) {
            await ConformanceSuite("conditions", checks).run(on: "\(defect)") {
                try BrokenKVStoreUnderTest.subject(defect)
            }
        }
        let failed = report.violations.map(\.check)
        #expect(defect.isGeneral ? failed.contains(defect.check) : failed == [defect.check], "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = BrokenKVStoreUnderTest.Defect.allCases.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("pass for a store in memory, and name the condition that it does not offer")
    func inMemory() async {
        let report = await ConformanceSuite.keyValueStoreConditions.run(
            on: "memory", having: [.valueSizeLimit, .secondStore]
        ) {
            let store = InMemoryKVStore(maximumValueSizeInBytes: 1000)
            var subject = KeyValueStoreUnderTest(store)
            subject.other = store
            subject.maximumValueSizeInBytes = 1000
            return subject
        }
        #expect(report.holds, "\(report)")
        let missing = ConformanceReport.Outcome.notApplicable("needs a small device")
        #expect(report.notApplicable.map(\.outcome) == [missing, missing], "\(report)")
    }

    @Test("never pass for a subject that offers nothing")
    func nothing() async {
        let suite = ConformanceSuite.keyValueStoreConditions
        let declared = await suite.run(on: "declared") { KeyValueStoreUnderTest(InMemoryKVStore()) }
        #expect(declared.violations.count == suite.checks.count, "\(declared)")
        let undeclared = await suite.run(on: "undeclared", having: []) { KeyValueStoreUnderTest(InMemoryKVStore()) }
        #expect(undeclared.notApplicable.count == suite.checks.count, "\(undeclared)")
        #expect(!undeclared.holds)
    }
}

/// A key-value store with one defect that shows under a condition, to test that the corresponding check fails.
final class BrokenKVStoreUnderTest: KVTransactionalStoring, KVLayer {
    /// A defect, mostly with the description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case refusesTheLargest = "a raw value may have the maximum size, and no more"
        case refusesTheLargestText = "a value of exactly the maximum size is stored by every call, and no larger one"
        case ignoresLargeTexts = "a value above the maximum size is refused by every call that stores one"
        case addsUpBatches = "the values of a batch may exceed the maximum size together"
        case forgetsSubscribers =
            "a subscriber of one store receives the changes of the other, or a notice to read again"
        case storesPartsOfBatches = "a batch with a value above the maximum size changes nothing"
        case hidesFullDevices = "a write that fails on a full device changes nothing, and says why"
        case forgetsTheOld = "a write that fails on a full device keeps the value that it would have replaced"
        case caches = "a second store of the same content sees every change when the call returns"
        case ignoresAbsence = "a change through one store invalidates the revisions that the other has read"
        case numbersAlone = "revisions increase with every write, whichever of two stores makes it"
        case losesACommit = "no update through two stores is lost"
        case namesAnotherCall = "an error names the call that was made"

        /// The description of the check that must fail.
        var check: String { self == .namesAnotherCall ? Defect.ignoresLargeTexts.rawValue : rawValue }

        /// Whether other checks may fail too.
        var isGeneral: Bool { [.hidesFullDevices, .storesPartsOfBatches, .namesAnotherCall].contains(self) }
    }

    private struct Memory {
        var values: [String: any Sendable] = [:]
        var commitCount = 0
    }

    /// A little more than what the check of a full device stores.
    private static let limit = (2 << 20) + 4_096

    /// The revisions that the second store has written.
    private final class Revisions: Sendable {
        let ofSecond = Mutex<Set<UInt64>>([])
    }

    let base: FileKVStore
    /// An empty store, to which nothing is written.
    private let silent = InMemoryKVStore()
    private let defect: Defect?
    private let memory = Mutex(Memory())
    private let revisions: Revisions

    private init(_ defect: Defect?, _ fileSystem: InMemoryFileSystem, _ revisions: Revisions) throws {
        self.defect = defect
        self.revisions = revisions
        base = try FileKVStore(
            at: "/store", fileSystem: fileSystem, options: FileKVStore.Options(maximumValueSizeInBytes: Self.limit))
    }

    /// A subject with every condition; its second store alone has the defects of two stores.
    static func subject(_ defect: Defect?) throws -> KeyValueStoreUnderTest {
        let device = InMemoryFileSystem()
        let revisions = Revisions()
        let showsInSecond = [.caches, .ignoresAbsence, .losesACommit, .numbersAlone, .forgetsSubscribers]
            .contains(defect)
        var subject = KeyValueStoreUnderTest(
            try BrokenKVStoreUnderTest(showsInSecond ? nil : defect, device, revisions))
        subject.other = try BrokenKVStoreUnderTest(showsInSecond ? defect : nil, device, revisions)
        subject.maximumValueSizeInBytes = limit
        subject.fillDevice = { try device.setQuota(.init(sizeInBytes: device.usage().sizeInBytes)) }
        return subject
    }

    func get<T>(_ key: KVKey<T>) -> T? {
        guard defect == .caches else { return base.get(key) }
        if let value = memory.withLock({ $0.values[key.name] }) as? T { return value }
        let value = base.get(key)
        if let value { memory.withLock { $0.values[key.name] = value } }
        return value
    }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        if defect == .ignoresLargeTexts, let text = value as? String, text.utf8.count > Self.limit { return }
        if defect == .refusesTheLargestText, let text = value as? String,
            (Self.limit - 16...Self.limit) ~= text.utf8.count
        {
            throw KVStoreError(.valueTooLarge, .set, key: key.name)
        }
        do {
            try base.set(key, value: value)
        } catch let error as KVStoreError where error.isOutOfSpace && defect == .forgetsTheOld {
            try base.remove(key)
            throw error
        } catch var error as KVStoreError where defect == .namesAnotherCall {
            error.operation = .batch
            throw error
        }
        try number(key.name)
    }

    /// Numbers a write of the second store beyond those of the first, which continues below.
    private func number(_ name: String) throws {
        guard defect == .numbersAlone, let revision = try base.entry(named: name)?.revision else { return }
        _ = revisions.ofSecond.withLock { $0.insert(revision) }
    }

    func entry(named name: String) throws -> KVEntry? {
        guard var entry = try base.entry(named: name) else { return nil }
        if revisions.ofSecond.withLock({ $0.contains(entry.revision) }) { entry.revision += 1 << 32 }
        return entry
    }

    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        if defect == .refusesTheLargest, bytes.count == Self.limit {
            throw KVStoreError(.valueTooLarge, .set, key: name)
        }
        do {
            try base.setRawValue(bytes, named: name)
        } catch let error as KVStoreError where error.isOutOfSpace && defect == .hidesFullDevices {
            throw KVStoreError(error.code, .set, key: name)
        }
    }

    func subscribe(to scope: KVScope) -> KVChanges? {
        if defect == .forgetsSubscribers { return silent.subscribe(to: scope) }
        return base.subscribe(to: scope)
    }

    func commit(_ batch: KVBatch) throws {
        let sizes = batch.changes.map { change in
            if case .set(_, let bytes) = change { bytes.count } else { 0 }
        }
        if defect == .addsUpBatches, sizes.reduce(0, +) > Self.limit, sizes.allSatisfy({ $0 <= Self.limit }) {
            throw KVStoreError(.valueTooLarge, .batch, key: batch.changes.first?.name)
        }
        var made = KVBatch()
        for change in batch.changes {
            made.append(change)
            guard defect == .storesPartsOfBatches, batch.changes.count > 1 else { continue }
            try base.commit(made)
            made = KVBatch()
        }
        for requirement in batch.requirements where defect != .ignoresAbsence || requirement.revision != nil {
            let isPresent =
                try requirement.revision != nil && entry(named: requirement.name)?.revision == requirement.revision
            let revision = isPresent ? requirement.revision.map { $0 % (1 << 32) } : requirement.revision
            made.require(requirement.name, revision: revision)
        }
        let count = memory.withLock { memory in
            memory.commitCount += 1
            return memory.commitCount
        }
        if defect == .losesACommit, count == 50 { return }
        try base.commit(made)
        for change in batch.changes { try number(change.name) }
    }
}
