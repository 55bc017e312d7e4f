import ForgeCoding
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Testing

private struct SettingsV1: Codable, Sendable, Equatable {
    var isDark: Bool
}

private struct SettingsV2: Codable, Sendable, Equatable {
    var theme: String
}

private struct Settings: Codable, Sendable, Equatable {
    var theme: String
    var size: Int
}

private let first = KVKey<SettingsV1>("settings")
private let second = KVKey<SettingsV2>(
    "settings", migrations: [.from(1) { (old: SettingsV1) in SettingsV2(theme: old.isDark ? "dark" : "light") }])
private let present = KVKey<Settings>(
    "settings",
    migrations: [
        .from(2) { (old: SettingsV2) in Settings(theme: old.theme, size: 10) },
        .from(1) { (old: SettingsV1) in Settings(theme: old.isDark ? "dark" : "light", size: 10) },
    ])

@Suite("Versioned values")
struct VersionedValueTests {
    private static let stores: [String: @Sendable () throws -> any KVTransactionalStoring] = [
        "memory": { InMemoryKVStore() },
        "disk": { try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem(), options: IssueRecorder().options()) },
        "reactive": { ReactiveKVStore(InMemoryKVStore()) },
        "namespaced": { NamespacedKVStore(InMemoryKVStore(), namespace: "n") },
        "expiring": { ExpiringKVStore(InMemoryKVStore()) },
        "migrating": { MigratingKVStore(from: InMemoryKVStore(), to: InMemoryKVStore()) },
    ]

    private func version(_ store: any KVTransactionalStoring) throws -> UInt32? {
        try store.rawValue(named: "settings").map { try ValueEnvelope(decoding: $0).schemaVersion }
    }

    @Test("a list of values migrates those of earlier versions, and its keys write the current one")
    func lists() throws {
        let store = InMemoryKVStore()
        let migrations: [KVMigration<String>] = [.from(1) { (old: Int) in "\(old)" }]
        try store.set(KVKey<Int>("n.a"), value: 1)
        try store.set(KVKey("n.b", migrations: migrations), value: "2")
        #expect(throws: KVStoreError.self) { try store.snapshot().values(of: String.self, prefix: "n.") }
        let values = try store.snapshot().values(of: String.self, prefix: "n.", migrations: migrations)
        #expect(values.map(\.value) == ["1", "2"])
        #expect(values.map(\.key.schemaVersion) == [2, 2])
        #expect(values.map(\.key.name) == ["n.a", "n.b"])
    }

    /// A value that cannot be encoded.
    private struct Refusing: Codable, Sendable {
        init() {}
        init(from decoder: any Decoder) throws { throw CancellationError() }
        func encode(to encoder: any Encoder) throws { throw CancellationError() }
    }

    @Test(
        "an error about a value names the store on disk, also below layers",
        arguments: ["disk", "reactive", "namespaced", "expiring", "migrating", "defaults"])
    func storeOfErrors(_ name: String) throws {
        let file = try LogFixture().open()
        let store: any KVTransactionalStoring =
            switch name {
            case "reactive": ReactiveKVStore(file)
            case "namespaced": NamespacedKVStore(file, namespace: "n")
            case "expiring": ExpiringKVStore(file)
            case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: file)
            case "defaults": FallbackKVStore(file, defaults: InMemoryKVStore())
            default: file
            }
        try store.set(KVKey<String>("a"), value: "text")
        let number = KVKey<Int>("a")
        let refusing = KVKey<Refusing>("b")
        let calls: [(String, () throws -> Void)] = [
            ("read", { _ = try store.read(number) }),
            ("versioned", { _ = try store.versioned(number) }),
            ("update", { try store.update(number, default: 0) { $0 += 1 } }),
            ("updateIfPresent", { try store.updateIfPresent(number) { $0 += 1 } }),
            ("withLock", { try Setting(KVSetting(number, default: 0), in: store).withLock { $0 += 1 } }),
            ("snapshot", { _ = try store.snapshot().read(number) }),
            ("set", { try store.set(refusing, value: Refusing()) }),
            ("batch", { try store.batch { try $0.set(refusing, value: Refusing()) } }),
            ("createIfAbsent", { try store.createIfAbsent(refusing, value: Refusing()) }),
        ]
        for (call, body) in calls {
            let error = #expect(throws: KVStoreError.self, "\(call)") { try body() }
            #expect(error?.store == "/store", "\(call)")
            #expect(error?.key == (error?.code == .unencodable ? "b" : "a"), "\(call)")
        }
        // Not the error of a store that the closure has used.
        let other = #expect(throws: KVStoreError.self) {
            try store.batch { _ in try InMemoryKVStore().set(refusing, value: Refusing()) }
        }
        #expect(other?.operation == .set && other?.store == nil)
    }

    @Test("a value that is no expiring one is reported with the store that has it")
    func foreignValue() throws {
        let file = try LogFixture().open()
        try file.set(KVKey<String>("a"), value: "text")
        let error = #expect(throws: KVStoreError.self) { try ExpiringKVStore(file).versioned(KVKey<Int>("a")) }
        #expect(error?.store == "/store" && error?.code == .undecodable)
    }

    @Test("a key counts its versions")
    func counting() {
        #expect([first.schemaVersion, second.schemaVersion, present.schemaVersion] == [1, 2, 3])
        #expect(present.migratedVersions == [1, 2])
        #expect(KVKey<Int>("a", migrations: []).schemaVersion == 1)
        #expect(KVKey<Settings>("settings") == present)
        // It is passed with every call.
        #expect(MemoryLayout<KVKey<Settings>>.size <= 64)
    }

    @Test("values of all earlier versions can be read, and the next set updates them", arguments: stores.keys.sorted())
    func migrating(_ name: String) throws {
        let make = try #require(Self.stores[name])
        let store = try make()
        try store.set(first, value: SettingsV1(isDark: true))
        #expect(try version(store) == 1)
        #expect(store.get(second) == SettingsV2(theme: "dark"))
        #expect(try store.read(present) == Settings(theme: "dark", size: 10))
        #expect(store.get(present) == Settings(theme: "dark", size: 10))
        #expect(store.get(first) == SettingsV1(isDark: true))
        #expect(try version(store) == 1)
        try store.set(second, value: SettingsV2(theme: "light"))
        #expect(try version(store) == 2)
        #expect(store.get(present) == Settings(theme: "light", size: 10))
        #expect(try store.versioned(present)?.value == Settings(theme: "light", size: 10))
        try store.update(present, default: Settings(theme: "", size: 0)) { $0.size += 1 }
        #expect(try version(store) == 3)
        #expect(store.get(present) == Settings(theme: "light", size: 11))
        #expect(try store.snapshot().read(present)?.size == 11)
    }

    @Test("a value of a later version is refused and kept", arguments: stores.keys.sorted())
    func newer(_ name: String) throws {
        let make = try #require(Self.stores[name])
        let store = try make()
        try store.set(present, value: Settings(theme: "dark", size: 12))
        let bytes = try store.rawValue(named: "settings")
        #expect(store.get(second) == nil)
        #expect(store.get(KVKey<Settings>("settings")) == nil)
        #expect(store.contains(second))
        for attempt: () throws -> Void in [
            { _ = try store.read(second) }, { _ = try store.read(first) }, { _ = try store.versioned(second) },
            { try store.update(first, default: SettingsV1(isDark: true)) { _ in } },
            { _ = try store.snapshot().read(first) },
        ] {
            let error = #expect(throws: KVStoreError.self) { try attempt() }
            #expect(error?.code == .newerSchema(version: 3))
        }
        #expect(try store.rawValue(named: "settings") == bytes)
        #expect(store.get(present) == Settings(theme: "dark", size: 12))
    }

    @Test("a migration between versions of one type is never skipped, in one process and over several")
    func sameType() throws {
        let fixture = LogFixture()
        let seconds = KVKey<Int>("timeout")
        let milliseconds = KVKey<Int>("timeout", migrations: [.from(1) { (old: Int) in old * 1000 }])
        do {
            let store = try fixture.open()
            try store.set(seconds, value: 5)
            #expect(store.get(seconds) == 5)
            #expect(store.get(milliseconds) == 5000)
            #expect(store.get(seconds) == 5)
            #expect(store.get(milliseconds) == 5000)
            try store.set(milliseconds, value: 7000)
            #expect(store.get(milliseconds) == 7000)
            #expect(store.get(seconds) == nil)
        }
        let store = try fixture.open()
        #expect(store.get(milliseconds) == 7000)
        #expect(store.get(milliseconds) == 7000)
        #expect(store.get(seconds) == nil)
        try store.compact()
        #expect(try ValueEnvelope(decoding: try #require(try store.rawValue(named: "timeout"))).schemaVersion == 2)
    }

    @Test("a value of a very late version is not taken for one of an early version")
    func lateVersion() throws {
        let store = InMemoryKVStore()
        let late = KVKey<[Int]>("a", migrations: [.from(65_535) { (old: [Int]) in old }])
        try store.set(late, value: [1])
        for _ in 0..<2 {
            #expect(store.get(late) == [1])
            #expect(store.get(KVKey<[Int]>("a")) == nil)
        }
    }

    @Test("a refused value is reported once")
    func report() throws {
        let recorder = IssueRecorder()
        let store = try LogFixture().open(recorder)
        try store.set(present, value: Settings(theme: "dark", size: 12))
        _ = store.get(second)
        _ = store.get(second)
        #expect(recorder.descriptions.count == 1)
        #expect(recorder.descriptions.first?.contains("version 3 of its type") == true)
    }

    @Test("a migration that throws and a version without one make the value undecodable")
    func failures() throws {
        struct Refused: Error {}
        let store = InMemoryKVStore()
        try store.set(first, value: SettingsV1(isDark: true))
        let throwing = KVKey<Settings>("settings", migrations: [.from(1) { (_: SettingsV1) in throw Refused() }])
        let gap = KVKey<Settings>(
            "settings", migrations: [.from(2) { (_: SettingsV2) in Settings(theme: "", size: 0) }])
        for key in [throwing, gap] {
            let error = #expect(throws: KVStoreError.self) { try store.read(key) }
            #expect(error?.code == .undecodable)
            #expect(store.get(key) == nil)
        }
        #expect(store.get(first) == SettingsV1(isDark: true))
    }

    // MARK: Golden values

    @Test("values of every version written by earlier releases still decode")
    func golden() throws {
        let golden = try GoldenValues(
            text: """
                # Written by releases 1, 2 and 3.
                settings 1 1101a16669734461726bf5
                settings 2 1102a1657468656d65656c69676874

                settings 3 1103a2657468656d65656c696768746473697a650c
                """)
        try golden.check(
            present,
            expecting: [
                1: Settings(theme: "dark", size: 10), 2: Settings(theme: "light", size: 10),
                3: Settings(theme: "light", size: 12),
            ])
        #expect(throws: ConformanceViolation.self) { try golden.check(present, expecting: [:]) }
        #expect(throws: ConformanceViolation.self) {
            let value = Settings(theme: "light", size: 10)
            try golden.check(present, expecting: [1: value, 2: value, 3: value])
        }
        #expect(throws: ConformanceViolation.self) {
            try golden.check(KVKey<Int>("never"), expecting: [1: 1])
        }
    }

    @Test("a line round-trips with any name", arguments: ["a", "", "a b", "%", "# é\n", "e\u{301}"])
    func lines(_ name: String) throws {
        let key = KVKey<Int>(name, migrations: [.from(1) { (old: String) in old.count }])
        let old = try GoldenValues.line(for: KVKey<String>(name), value: "four")
        let text = old + "\n" + (try GoldenValues.line(for: key, value: 5)) + "\r\n"
        try GoldenValues(text: text).check(key, expecting: [1: 4, 2: 5])
        #expect(throws: ConformanceViolation.self) { try GoldenValues(text: old).check(key, expecting: [1: 4, 2: 5]) }
    }

    @Test(
        "an invalid line is reported",
        arguments: ["a 1", "a b 11", "a 1 111", "a 1 1g", "%g 1 11", "%ff 1 11", "a 1 11 1"])
    func badLines(_ line: String) {
        let error = #expect(throws: ConformanceViolation.self) { try GoldenValues(text: "\n" + line) }
        #expect(error?.description.contains("line 2") == true)
    }

    @Test("a type whose current version is encoded differently is detected")
    func changedFormat() throws {
        struct Renamed: Codable, Equatable {
            var theme: String
            var isBold: Bool?
        }
        let golden = try GoldenValues(text: "s 1 1101a1657468656d65656c69676874")
        try golden.check(KVKey<SettingsV2>("s"), expecting: [1: SettingsV2(theme: "light")])
        #expect(throws: ConformanceViolation.self) {
            try golden.check(KVKey<SettingsV1>("s"), expecting: [1: SettingsV1(isDark: true)])
        }
        #expect(throws: ConformanceViolation.self) {
            try GoldenValues(text: "s 1 1201a1657468656d65656c69676874").check(
                KVKey<SettingsV2>("s"), expecting: [1: SettingsV2(theme: "light")])
        }
    }
}
