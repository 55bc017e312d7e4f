import ForgeCoding
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing
@testable import ForgeKVStore

@Suite("An unreadable value is set aside before it is overwritten")
struct SetAsideTests {
    private let text = KVKey<String>("a")
    private let number = KVKey<Int>("a")

    private let changes: [@Sendable (any KVTransactionalStoring) throws -> Void] = [
        { try $0.set(KVKey<Int>("a"), value: 1) },
        { try $0.batch { try $0.set(KVKey<Int>("a"), value: 1) } },
        { store in
            let revision = try store.entry(named: "a")?.revision
            try store.compareAndSet(KVKey<Int>("a"), revision: revision, value: 1)
        },
    ]

    @Test("on disk, in a file that is listed with the key", arguments: 0..<3, [true, false])
    func onDisk(_ change: Int, _ reopens: Bool) throws {
        let fixture = LogFixture()
        let recorder = IssueRecorder()
        var store: FileKVStore? = try fixture.open(recorder)
        try store?.set(text, value: "precious")
        let bytes = try #require(try store?.rawValue(named: "a"))
        if reopens {
            store = nil
            store = try fixture.open(recorder)
        }
        try changes[change](try #require(store))
        #expect(store?.get(number) == 1)
        let report = try #require(try store?.damageReports().first)
        #expect(try store?.damageReports().count == 1)
        #expect(report.kind == .value)
        #expect(report.key == "a")
        #expect(recorder.damage == [report])
        #expect("\(report)".contains("value of \"a\""))
        let kept = try fixture.fileSystem.readFile(POSIXPath(report.file))
        #expect(kept.count == Int(report.sizeInBytes))
        #expect(Array(kept.suffix(bytes.count)) == bytes)
    }

    @Test("also a number that is written over by a list of numbers")
    func numbers() throws {
        let store = InMemoryKVStore()
        let numbers: [(any KVTransactionalStoring) throws -> Void] = [
            { try $0.set(KVKey<Decimal>("a"), value: Decimal(string: "1.25") ?? 0) },
            { try $0.set(KVKey<Int128>("a"), value: .max) },
            { try $0.set(KVKey<UUID>("a"), value: UUID()) },
        ]
        for (index, set) in numbers.enumerated() {
            try store.remove(KVKey<Int>("a"))
            try set(store)
            try store.set(KVKey<[Int]>("a"), value: [1])
            try store.remove(KVKey<Int>("a"))
            try set(store)
            try store.set(KVKey<Data>("a"), value: Data([1]))
            #expect(store.setAside.count == 2 * (index + 1))
        }
    }

    @Test("in memory, in a list", arguments: 0..<3)
    func inMemory(_ change: Int) throws {
        let store = InMemoryKVStore()
        try store.set(text, value: "precious")
        let entry = try #require(try store.entry(named: "a"))
        try changes[change](store)
        #expect(store.get(number) == 1)
        #expect(store.setAside.map(\.name) == ["a"])
        #expect(store.setAside.map(\.entry) == [entry])
    }

    @Test("but not if it can be read as the type, was removed, or is replaced by the same type")
    func readable() throws {
        let fixture = LogFixture()
        do {
            let store = try fixture.open()
            try store.set(number, value: 1)
            try store.set(KVKey<[Int]>("list"), value: [1])
            try store.batch { try $0.set(KVKey<[Int]>("batch"), value: [1]) }
            try store.set(text, value: "one")
            try store.remove(text)
            try store.set(number, value: 1)
        }
        #expect(try fixture.open().damageReports().count == 1)
        let store = try fixture.open()
        for round in 0..<3 {
            try store.set(number, value: round)
            try store.set(KVKey<[Int]>("list"), value: [round])
            try store.batch { batch in
                try batch.set(KVKey<[Int]>("batch"), value: [round])
                try batch.set(KVKey<[Int]>("list"), value: [round])
            }
        }
        // A number that can be read as another number type.
        try store.set(KVKey<Double>("a"), value: 1)
        #expect(try store.damageReports().count == 1)
    }

    @Test("a date is not a number", arguments: [100, 100.1])
    func date(_ seconds: Double) throws {
        let store = InMemoryKVStore()
        try store.set(KVKey<Date>("a"), value: Date(timeIntervalSinceReferenceDate: seconds))
        #expect(throws: KVStoreError.self) { try store.read(number) }
        #expect(throws: KVStoreError.self) { try store.read(KVKey<Double>("a")) }
        try store.set(KVKey<Double>("a"), value: 1)
        #expect(store.setAside.map(\.name) == ["a"])
    }

    @Test("if that fails, the set fails and the value is kept")
    func failure() throws {
        let memory = InMemoryFileSystem()
        let fileSystem = FaultingFileSystem(memory, plan: FaultPlan())
        do {
            let store = try FileKVStore(at: "/store", fileSystem: memory, options: IssueRecorder().options())
            try store.set(text, value: "precious")
        }
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try memory.withDirectory("/store") { (_) throws(FileSystemError) in }
        fileSystem.plan.add(.fail(.rename, matching: "**", with: .noSpace))
        fileSystem.plan.add(.fail(.link, matching: "**", with: .noSpace))
        for change in changes {
            let error = #expect(throws: KVStoreError.self) { try change(store) }
            #expect(error?.operation == .setAside)
            #expect(error?.key == "a")
            #expect(error?.code == .unavailable(.inputOutput))
            #expect(store.get(text) == "precious")
        }
        try store.set(KVKey<Int>("b"), value: 1)
        try store.set(text, value: "other")
        #expect(store.get(text) == "other")
    }

    @Test("a value of a later version is set aside when an earlier release sets its own")
    func newerVersion() throws {
        let store = InMemoryKVStore()
        let later = KVKey<Int>("a", migrations: [.from(1) { (old: Int) in old }])
        try store.set(later, value: 5)
        try store.set(later, value: 6)
        #expect(store.setAside.isEmpty)
        try store.set(number, value: 7)
        #expect(store.setAside.count == 1)
        try store.set(later, value: 8)
        try store.batch { try $0.set(later, value: 9) }
        try store.set(later, value: 10)
        #expect(store.setAside.count == 1)
    }

    @Test("threads that overwrite one value set it aside once")
    func concurrency() async throws {
        let store = InMemoryKVStore()
        for round in 0..<50 {
            let name = "\(round)"
            try store.set(KVKey<String>(name), value: "x")
            await withTaskGroup(of: Void.self) { group in
                for writer in 0..<4 {
                    group.addTask {
                        do {
                            try store.set(KVKey<Int>(name), value: writer)
                        } catch {
                            Issue.record(error)
                        }
                    }
                }
            }
        }
        #expect(store.setAside.count == 50)
    }
}

@Suite("Every store and layer sets aside unreadable values")
struct SetAsideConformanceTests {
    private static let checks = ConformanceChecks.transactionalKeyValueSettingAside

    /// Layers that forward writes.
    private static let layers = ["none", "namespaced", "defaults", "recording", "reactive", "expiring", "migrating"]

    private func layer<Base: KVTransactionalStoring>(
        _ name: String, over store: Base
    ) throws -> any KVTransactionalStoring {
        // The other tests know at compile time that a layer over this base is transactional.
        try #require(rawLayer(name, over: store) as? any KVTransactionalStoring)
    }

    private func rawLayer<Base: KVRawStoring>(_ name: String, over store: Base) throws -> any KVRawStoring {
        switch name {
        case "namespaced": NamespacedKVStore(store, namespace: "n")
        case "defaults": FallbackKVStore(store, defaults: InMemoryKVStore())
        case "recording": RecordingKVStore(store)
        case "reactive": ReactiveKVStore(store)
        case "expiring": ExpiringKVStore(NamespacedKVStore(store, namespace: "n"))
        case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: store)
        default: store
        }
    }

    @Test(arguments: checks, layers)
    func inMemory(
        _ check: ConformanceCheck<SettingAsideStore<any KVTransactionalStoring>>, _ layer: String
    ) async throws {
        let store = InMemoryKVStore()
        try await check.run(
            on: SettingAsideStore(try self.layer(layer, over: store)) { store.setAside.map(\.entry.bytes) })
    }

    @Test(arguments: checks, layers)
    func onDisk(
        _ check: ConformanceCheck<SettingAsideStore<any KVTransactionalStoring>>, _ layer: String
    ) async throws {
        let fileSystem = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try await check.run(
            on: SettingAsideStore(try self.layer(layer, over: store)) {
                try store.damageReports().map { Array(try fileSystem.readFile(POSIXPath($0.file))) }
            })
    }

    @Test(arguments: ConformanceChecks.keyValueSettingAside, layers)
    func userDefaults(_ check: ConformanceCheck<SettingAsideStore<any KVRawStoring>>, _ layer: String) async throws {
        let suite = TemporarySuite()
        let store = UserDefaultsKVStore(suiteName: suite.name)
        try await check.run(
            on: SettingAsideStore(try rawLayer(layer, over: store)) { try store.setAside().map(\.bytes) })
    }

    @Test("a value that only the old store of a migration contains is set aside by the new one")
    func migrating() throws {
        for copiesOnRead in [true, false] {
            let old = InMemoryKVStore()
            let new = InMemoryKVStore()
            try old.set(KVKey<String>("a"), value: "precious")
            try old.set(KVKey<String>("b"), value: "precious")
            let store = MigratingKVStore(from: old, to: new, copiesOnRead: copiesOnRead)
            try store.set(KVKey<Int>("a"), value: 1)
            try store.batch { try $0.set(KVKey<Int>("b"), value: 1) }
            #expect(new.setAside.map(\.name) == ["a", "b"])
            try store.removeMigrated()
            #expect(store.get(KVKey<Int>("a")) == 1)
        }
    }

    @Test("an expired value is not set aside")
    func expired() throws {
        let base = InMemoryKVStore()
        let store = ExpiringKVStore(base)
        try store.set(KVKey<String>("a"), value: "old", expiresAt: .distantPast)
        try store.set(KVKey<Int>("a"), value: 1)
        #expect(base.setAside.isEmpty)
        #expect(store.get(KVKey<Int>("a")) == 1)
    }

    @Test("user defaults list the values that they set aside, each once, and keep them")
    func userDefaultsList() throws {
        let suite = TemporarySuite()
        let store = UserDefaultsKVStore(suiteName: suite.name)
        for name in ["plain", "é:1"] {
            for _ in 0..<3 {
                try store.set(KVKey<String>(name), value: "text")
                try store.set(KVKey<[Int]>(name), value: [1])
            }
            try store.set(KVKey<String>(name), value: "other")
            try store.set(KVKey<[Int]>(name), value: [1])
        }
        let reopened = UserDefaultsKVStore(suiteName: suite.name)
        // "text", [1] and "other".
        let expected = 3
        #expect(try reopened.setAside().filter { $0.name == "plain" }.count == expected)
        #expect(try reopened.setAside().filter { $0.name == "é:1" }.count == expected)
        #expect(try reopened.keys().sorted() == ["plain", "é:1"])
        try reopened.set(KVKey<Int>("#forge-set-aside:1:plain"), value: 5)
        #expect(reopened.get(KVKey<Int>("#forge-set-aside:1:plain")) == 5)
        try reopened.removeAll()
        #expect(try reopened.keys().isEmpty)
        #expect(try reopened.setAside().count == 2 * expected)
    }
}

@Suite("The quarantine is bounded") struct QuarantineLimitTests {
    @Test("hundreds of changes of a value's type leave only the newest files, up to a limit")
    func count() throws {
        let fixture = LogFixture()
        let store = try fixture.open()
        for number in 0..<150 {
            try store.set(KVKey<String>("a"), value: "text \(number)")
            try store.set(KVKey<[Int]>("a"), value: [number])
        }
        let reports = try store.damageReports()
        #expect(reports.count <= 64)
        #expect(reports.count >= 32)
        let newest = try reports.map { try fixture.fileSystem.readFile(POSIXPath($0.file)) }
        #expect(newest.contains { String(decoding: $0, as: UTF8.self).contains("text 149") })
    }

    @Test("a value already set aside is found without a listing, and the directory is flushed once")
    func cost() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(KVKey<String>("a"), value: "text")
        try store.synchronize()
        fileSystem.log.removeAll()
        try store.set(KVKey<Int>("a"), value: 1)
        let operations = fileSystem.log.records.map(\.operation)
        #expect(operations.filter { $0 == .synchronize }.count <= 2, "the file and its directory")
    }
}
