import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The checks of a file store under conditions")
struct FileStoreConditionTests {
    private static let checks = ConformanceChecks.fileStoreConditions

    @Test("pass for a store without a defect", arguments: checks)
    func sound(_ check: ConformanceCheck<FileStoreUnderTest>) async throws {
        try await check.run(on: BrokenFileStoreUnderTest.subject(nil))
    }

    @Test("each detect their defect, and no other check does", arguments: BrokenFileStoreUnderTest.Defect.allCases)
    func defects(_ defect: BrokenFileStoreUnderTest.Defect) async {
        let report = await ConformanceSuite.fileStoreConditions.run(on: "\(defect)") {
            BrokenFileStoreUnderTest.subject(defect)
        }
        #expect(report.violations.map(\.check) == [defect.rawValue], "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = BrokenFileStoreUnderTest.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("pass for a store in memory, and name the conditions that it does not offer")
    func inMemory() async {
        let offered: Set<ConformanceCapability> = [.limitedSpace, .readOnlyDevice, .loadLimit, .secondStore]
        let report = await ConformanceSuite.fileStoreConditions.run(on: "memory", having: offered) {
            let fileSystem = InMemoryFileSystem()
            let options = FileStoreOptions(maximumLoadSizeInBytes: 1 << 20)
            var subject = FileStoreUnderTest(InMemoryFileStore(fileSystem: fileSystem, options: options))
            subject.other = InMemoryFileStore(fileSystem: fileSystem, options: options)
            subject.fillDevice = { try fileSystem.setQuota(.init(sizeInBytes: fileSystem.usage().sizeInBytes)) }
            subject.makeReadOnly = { try fileSystem.setReadOnly(true) }
            subject.maximumLoadSizeInBytes = 1 << 20
            return subject
        }
        #expect(report.holds, "\(report)")
        let missing = ConformanceReport.Outcome.notApplicable("needs a device that can be made to fail")
        let others = ConformanceReport.Outcome.notApplicable("needs files of other programs in its root")
        #expect(report.notApplicable.map(\.outcome) == [missing, missing, others], "\(report)")
    }

    @Test("never pass for a subject that offers nothing")
    func nothing() async {
        let suite = ConformanceSuite.fileStoreConditions
        let declared = await suite.run(on: "declared") { FileStoreUnderTest(InMemoryFileStore()) }
        #expect(declared.violations.count == suite.checks.count, "\(declared)")
        let undeclared = await suite.run(on: "undeclared", having: []) { FileStoreUnderTest(InMemoryFileStore()) }
        #expect(undeclared.notApplicable.count == suite.checks.count, "\(undeclared)")
        #expect(!undeclared.holds)
    }
}

/// A file store with one defect that shows under a condition, to test that the corresponding check fails.
final class BrokenFileStoreUnderTest: FileStoring {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case losesWhenFull = "a save that fails on a full device keeps the old content and leaves no file"
        case keepsWhenFull = "a file can be deleted on a full device, and its space used again"
        case keepsSpace = "the space that a failed save has taken is free again"
        case hidesReadOnly = "on a read-only device files are read, and every change is not permitted"
        case missesUnreadable = "a file that cannot be read is an error other than notFound, and is kept"
        case losesOnFailure = "a save that fails keeps the old content and leaves no file"
        case emptiesLarge = "a file above the limit of loads is too large to load, and is kept"
        case caches = "a second store of the same files sees every change when the call returns"
        case listsEveryName = "a file of another program is listed and loaded if its name is a key, and only then"
        case overwrites = "of saves through two stores that may not overwrite, exactly one succeeds"
    }

    private struct Memory {
        var isFull = false
        var hasFailed = false
        var lost: Set<String> = []
        var foreign: [String] = []
        var loaded: [String: Data] = [:]
    }

    private static let limit = 3 << 20

    private let defect: Defect?
    private let base: DiskFileStore
    private let memory = Mutex(Memory())

    private init(_ defect: Defect?, _ fileSystem: any POSIXFileSystem) {
        self.defect = defect
        base = DiskFileStore(
            root: URL(filePath: "/data/store"), fileSystem: fileSystem,
            options: FileStoreOptions(maximumLoadSizeInBytes: Self.limit))
    }

    /// A subject with every condition; its second store alone has the defects of two stores.
    static func subject(_ defect: Defect?) -> FileStoreUnderTest {
        let device = InMemoryFileSystem()
        let fileSystem = FaultingFileSystem(device)
        let showsInSecond = defect == .caches || defect == .overwrites
        let store = BrokenFileStoreUnderTest(showsInSecond ? nil : defect, fileSystem)
        var subject = FileStoreUnderTest(store)
        subject.other = BrokenFileStoreUnderTest(showsInSecond ? defect : nil, fileSystem)
        subject.fillDevice = {
            try device.setQuota(.init(sizeInBytes: device.usage().sizeInBytes))
            store.memory.withLock { $0.isFull = true }
        }
        subject.makeReadOnly = { try device.setReadOnly(true) }
        subject.setFailing = { fails in
            if fails {
                fileSystem.plan.add(.fail(.open, .read, .write, name: "device", with: .ioError))
            } else {
                fileSystem.plan.lift("device")
            }
        }
        subject.maximumLoadSizeInBytes = limit
        subject.plant = { name in
            let path = POSIXPath(Array("/data/store/".utf8) + name)
            try device.close(try device.open(path, .writeOnly, options: [.create]))
            if String(validating: name, as: UTF8.self) == nil {
                store.memory.withLock { $0.foreign.append(String(decoding: name, as: UTF8.self)) }
            }
        }
        return subject
    }

    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        if defect == .keepsSpace, memory.withLock({ $0.hasFailed }) { throw FileStoreError(.noSpace, .save, key: key) }
        do {
            try await base.save(data, to: key, overwrite: overwrite || defect == .overwrites)
            memory.withLock { _ = $0.lost.remove(key) }
        } catch let error as FileStoreError {
            switch (defect, error.code) {
            case (.losesWhenFull, .noSpace), (.losesOnFailure, .unavailable):
                memory.withLock { _ = $0.lost.insert(key) }
            case (.keepsSpace, .noSpace): memory.withLock { $0.hasFailed = true }
            case (.hidesReadOnly, .notPermitted): return
            default: break
            }
            throw error
        }
    }

    func load(_ key: String) async throws -> Data {
        let (isLost, loaded) = memory.withLock { ($0.lost.contains(key), $0.loaded[key]) }
        if isLost { throw FileStoreError(.notFound, .load, key: key) }
        if defect == .caches, let loaded { return loaded }
        do {
            let data = try await base.load(key)
            memory.withLock { $0.loaded[key] = data }
            return data
        } catch let error as FileStoreError {
            switch (defect, error.code) {
            case (.missesUnreadable, .unavailable): throw FileStoreError(.notFound, .load, key: key)
            case (.emptiesLarge, .tooLarge): return Data()
            default: throw error
            }
        }
    }

    func exists(_ key: String) async -> Bool { base.exists(key) }

    func delete(_ key: String) async throws {
        if defect == .keepsWhenFull, key == "large", memory.withLock({ $0.isFull }) {
            throw FileStoreError(.noSpace, .delete, key: key)
        }
        try await base.delete(key)
    }

    func list(in directory: String) async throws -> [StoredFile] {
        let files = try await base.list(in: directory)
        guard defect == .listsEveryName, directory.isEmpty else { return files }
        return files
            + memory.withLock { $0.foreign }.map { StoredFile(key: $0, sizeInBytes: 0, modified: .distantPast) }
    }

    func deleteAll() async throws { try await base.deleteAll() }
}
