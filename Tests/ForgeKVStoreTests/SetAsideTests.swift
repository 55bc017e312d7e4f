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

    @Test("a value of an earlier version that cannot be migrated is set aside, also if it has the key's type")
    func unmigratable() throws {
        struct Refused: Error {}
        func check<Value: Codable & Sendable>(_ old: Value, _ new: Value) throws {
            let store = InMemoryKVStore()
            let present = KVKey<Value>("a", migrations: [.from(1) { (_: Value) in throw Refused() }])
            try store.set(KVKey<Value>("a"), value: old)
            let entry = try store.entry(named: "a")
            // Decoded, where the type permits it.
            #expect(store.get(KVKey<Value>("a")) != nil)
            try store.set(present, value: new)
            #expect(store.setAside.map(\.entry) == [entry].compactMap(\.self) && entry != nil)
        }
        try check(1, 2)
        try check("one", "two")
        try check([1], [2])
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
        let expected = [
            try KVKey<String>("a").encode("text"), try KVKey<[Int]>("a").encode([1]),
            try KVKey<String>("a").encode("other"),
        ]
        #expect(try reopened.setAside().filter { $0.name == "plain" }.map(\.bytes) == expected)
        #expect(try reopened.setAside().filter { $0.name == "é:1" }.map(\.bytes) == expected)
        #expect(try reopened.keys().sorted() == ["plain", "é:1"])
        try reopened.set(KVKey<Int>("#forge-set-aside:1:plain"), value: 5)
        #expect(reopened.get(KVKey<Int>("#forge-set-aside:1:plain")) == 5)
        try reopened.removeAll()
        #expect(try reopened.keys().isEmpty)
        #expect(try reopened.setAside().count == 2 * expected.count)
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

    // MARK: Files

    private let memory = InMemoryFileSystem()

    /// The quarantine of a new directory.
    private func quarantine(_ path: POSIXPath) throws -> Quarantine {
        try memory.createDirectory(path)
        return Quarantine(
            fileSystem: memory, directory: try memory.open(path, .readOnly, options: [.directory]), path: path)
    }

    private func put(_ name: String, in quarantine: Quarantine, size: Int64 = 0, _ content: [UInt8] = []) throws {
        let file = try memory.open(quarantine.path.appending(POSIXPath(name)), .writeOnly, options: [.create])
        defer { memory.discard(file) }
        try memory.writeBytes(content, to: file, at: 0)
        try memory.truncate(.descriptor(file), to: max(size, Int64(content.count)))
    }

    private func names(_ quarantine: Quarantine) throws -> [String] {
        try memory.entries(of: quarantine.directory).map { String($0.name) }.sorted()
    }

    private func value(_ revision: Int) -> String { "quarantine-value-00000000-\(revision)-00000000" }

    @Test("the oldest files with values beyond the limit of their size are removed, but not the newest, nor any other")
    func size() throws {
        let quarantine = try quarantine("/q")
        let limit = Quarantine.valueSizeLimit
        let others = [
            "quarantine-records-00000000-64-00000000", "quarantine-value-00000000-1",
            "quarantine-value-00000000-x-00000000", "value-00000000-1-00000000",
        ]
        for name in others { try put(name, in: quarantine, size: 2 * limit) }
        try memory.createDirectory(quarantine.path.appending(POSIXPath(value(30))))
        for (revision, size) in [(20, limit - 10), (9, 10), (8, 1), (7, 0)] as [(Int, Int64)] {
            try put(value(revision), in: quarantine, size: size)
        }
        #expect(try quarantine.removeOldValues() == 2)
        #expect(try names(quarantine) == (others + [value(30), value(20), value(9)]).sorted())
        #expect(try quarantine.removeOldValues() == 0)

        let large = try self.quarantine("/large")
        for revision in [1, 2] { try put(value(revision), in: large, size: limit + 1) }
        #expect(try large.removeOldValues() == 1)
        #expect(try names(large) == [value(2)])
    }

    @Test("the oldest files with values beyond the limit of their number are removed")
    func number() throws {
        let quarantine = try quarantine("/q")
        for revision in 1...66 { try put(value(revision), in: quarantine, size: 1) }
        #expect(try quarantine.removeOldValues() == 2)
        #expect(try names(quarantine) == (3...66).map(value).sorted())
    }

    @Test("every file with unreadable data is listed, by its offset and name, with the key of a value")
    func reports() throws {
        let quarantine = try quarantine("/q")
        try put("quarantine-records-1f2e3d4c-4096-0badcafe", in: quarantine, size: 3)
        try put("quarantine-tail-1f2e3d4c-500-0badcafe", in: quarantine, size: 4)
        try put("quarantine-header-1f2e3d4c-x-0badcafe", in: quarantine)
        try put("quarantine-log-abcd", in: quarantine, size: 5)
        var content: [UInt8] = []
        LogRecord.appendToBatch(.set, KeyName("é"), [7], &content)
        try put("quarantine-value-0badcafe-17-1f2e3d4c", in: quarantine, content)
        try put("quarantine-value-0badcafe-18", in: quarantine, Array(content.dropLast(2)))
        try put("quarantine-value-0badcafe-19", in: quarantine, Array(content.prefix(7)))
        try put("quarantine-value-0badcafe-20", in: quarantine, [UInt8](repeating: 0, count: 8))
        for name in ["quarantine-other-1-2-3", "quarantine-", "records-1-2-3"] { try put(name, in: quarantine) }
        try memory.createDirectory("/q/quarantine-records-1-2-3")
        let lines = try quarantine.reports().map { report in
            let key = report.key.map { "\"\($0)\"" } ?? "-"
            return "\(report.file.dropFirst(14)) \(report.kind) \(report.offset) \(report.sizeInBytes) \(key)"
        }
        #expect(
            lines == [
                "header-1f2e3d4c-x-0badcafe header 0 0 -", "log-abcd log 0 5 -",
                "value-0badcafe-17-1f2e3d4c value 0 11 \"é\"", "value-0badcafe-18 value 0 9 -",
                "value-0badcafe-19 value 0 7 -", "value-0badcafe-20 value 0 8 \"\"",
                "tail-1f2e3d4c-500-0badcafe tail 500 4 -", "records-1f2e3d4c-4096-0badcafe records 4096 3 -",
            ])
    }

    @Test("the name of a file has all digits of its checksums")
    func digits() throws {
        func checksum(_ bytes: [UInt8]) -> UInt32 {
            var checksum = CRC32C()
            checksum.update(bytes.span, 0..<bytes.count)
            return checksum.value
        }
        let name = try #require((0..<10_000).map { "\($0)" }.first { checksum(Array($0.utf8)) < 1 << 24 })
        let report = try quarantine("/q").setAside([7], of: KeyName(name), revision: 17)
        let parts = report.file.split(separator: "-").map(String.init)
        #expect(parts.count == 5 && parts[0] == "/q/quarantine" && parts[1] == "value" && parts[3] == "17")
        #expect(parts[2].count == 8 && UInt32(parts[2], radix: 16) == checksum(Array(name.utf8)))
        let content = try memory.readFile(POSIXPath(report.file))
        #expect(parts[4].count == 8 && UInt32(parts[4], radix: 16) == checksum(content))
        #expect(report.sizeInBytes == Int64(content.count) && report.key == name && report.offset == 0)
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
