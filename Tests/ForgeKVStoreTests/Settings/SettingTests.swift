import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

enum Theme: String, Codable { case system, dark, light }

extension KVSettings {
    static let theme = KVSetting("theme", default: Theme.system)
    static let count = KVSetting("count", default: 10)
    static let name = KVSetting("user.name", default: "guest")
}

@Suite("A setting") struct SettingTests {
    private let store = InMemoryKVStore()

    @Test("has its default until a value is stored, and again after it was removed")
    func defaults() throws {
        #expect(store.get(.theme) == .system)
        #expect(store[.theme] == .system)
        #expect(!store.contains(.theme))
        try store.set(.theme, value: .dark)
        #expect(store[.theme] == .dark)
        #expect(store.get(KVKey<Theme>("theme")) == .dark)
        try store.remove(.theme)
        #expect(store[.theme] == .system)
        #expect(try store.keys().isEmpty)
    }

    @Test("distinguishes an absent value from an undecodable one")
    func reading() throws {
        #expect(try store.read(.count) == nil)
        try store.set(KVKey<String>("count"), value: "many")
        #expect(store[.count] == 10)
        #expect(code { _ = try store.read(.count) } == .undecodable)
        #expect(store.contains(.count))
    }

    @Test("in any store is reached through the protocol")
    func existential() throws {
        let any: any KVStoring = store
        try any.set(.name, value: "Ada")
        #expect(any[.name] == "Ada")
        #expect(Setting(.name, in: any).wrappedValue == "Ada")
    }

    @Test("is declared in a catalog")
    func catalog() {
        var catalog = KVKeyCatalog()
        catalog.declare(.theme, "how the app looks")
        #expect(catalog.entries.map(\.name) == ["theme"])
    }

    @Test("is equal to one of the same name")
    func equality() {
        let count = KVSetting("count", default: 1)
        #expect(count == KVSettings.count && count != KVSetting("other", default: 1))
        #expect(Set([count, KVSettings.count, KVSetting("other", default: 1)]).count == 2)
    }

    struct Appearance {
        @Setting var theme: Theme
        @Setting var count: Int

        init(_ store: any KVStoring) {
            _theme = Setting(.theme, in: store)
            _count = Setting(.count, in: store)
        }
    }

    @Test("as a property reads and writes the store")
    func property() throws {
        let appearance = Appearance(store)
        appearance.theme = .light
        #expect(store[.theme] == .light)
        try store.set(.theme, value: .dark)
        #expect(appearance.theme == .dark)
        try appearance.$theme.reset()
        #expect(appearance.theme == .system)
        #expect(try appearance.$theme.read() == nil)
        #expect(appearance.$count.lastError == nil)
    }

    @Test("whose assignment fails keeps its value, and the failure is reported")
    func failedAssignment() throws {
        let fileSystem = FailingFileSystem()
        let recorder = IssueRecorder()
        var options = recorder.options()
        options.isMapped = false
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        let appearance = Appearance(store)
        appearance.theme = .dark
        fileSystem.fail { operation, _ in operation == .write ? .noSpace : nil }
        appearance.theme = .light
        fileSystem.fail(nil)
        #expect(appearance.theme == .dark)
        let error = appearance.$theme.lastError as? KVStoreError
        #expect(error?.key == "theme")
        guard case .assignment("theme", _) = recorder.issues.first else {
            Issue.record("reported: \(recorder.descriptions)")
            return
        }
        appearance.theme = .light
        #expect(appearance.$theme.lastError == nil)
    }

    @Test(
        "whose assignment fails over any layer is reported to the base store",
        arguments: [
            "defaults", "expiring", "migrating", "namespaced", "reactive", "read-only", "recording", "of a layer",
        ])
    func failureOverLayer(_ name: String) throws {
        let (directory, recorder) = (TemporaryDirectory(), IssueRecorder())
        var options = recorder.options()
        options.maximumValueSizeInBytes = 16
        let base = try FileKVStore(at: directory.url, options: options)
        let layer: any KVStoring =
            switch name {
            case "defaults": FallbackKVStore(base, defaults: InMemoryKVStore())
            case "expiring": ExpiringKVStore(base)
            case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: base)
            case "namespaced": NamespacedKVStore(base, namespace: "n")
            case "reactive": ReactiveKVStore(base)
            case "read-only": ReadOnlyKVStore(base)
            case "recording": RecordingKVStore(base)
            default: ExpiringKVStore(FallbackKVStore(base, defaults: InMemoryKVStore()))
            }
        let setting = Setting(KVSetting("text", default: ""), in: layer)
        setting.wrappedValue = String(repeating: "x", count: 100)
        #expect(setting.lastError != nil)
        #expect(recorder.issues.count == 1)
        guard case .assignment("text", _) = recorder.issues.first else {
            Issue.record("not reported")
            return
        }
    }

    @Test("whose assignment fails below layers is reported to the base store")
    func failureBelowLayers() throws {
        let recorder = IssueRecorder()
        let store = try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem(), options: recorder.options())
        let layers: [any KVStoring] = [
            ReadOnlyKVStore(store), ReadOnlyKVStore(ReactiveKVStore(store)),
            NamespacedKVStore(ReadOnlyKVStore(store), namespace: "user"),
            RecordingKVStore(ReadOnlyKVStore(store)),
        ]
        for layer in layers { Setting(.count, in: layer).wrappedValue = 1 }
        #expect(recorder.issues.count == layers.count, "\(recorder.descriptions)")
        #expect(store[.count] == 10)
    }

    @Test("that threads change with `withLock` loses no change")
    func withLock() async throws {
        let setting = Setting(.count, in: store)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<500 { #expect(throws: Never.self) { try setting.withLock { $0 += 1 } } }
                }
            }
        }
        #expect(setting.wrappedValue == 2010)
    }

    @Test("whose change throws keeps its value")
    func throwingChange() throws {
        struct Refused: Error {}
        let setting = Setting(.count, in: store)
        #expect(throws: Refused.self) {
            try setting.withLock { (count: inout Int) throws in
                count = 1
                throw Refused()
            }
        }
        #expect(setting.wrappedValue == 10)
        #expect(setting.lastError is Refused)
    }
}

@Suite("The values of a setting", .timeLimit(.minutes(TestDepth.hangLimitInMinutes))) struct SettingValuesTests {
    private let store = InMemoryKVStore()

    @Test("begin with the current one, and the last one is always delivered")
    func values() async throws {
        let setting = Setting(.count, in: store)
        var iterator = setting.values.makeAsyncIterator()
        #expect(await iterator.next() == 10)
        for value in 0...1_000 { try store.set(.count, value: value) }
        var last: Int?
        while last != 1_000 { last = await iterator.next() }
        try setting.reset()
        #expect(await iterator.next() == 10)
    }

    @Test("deliver nothing for a write that does not change the value")
    func equal() async throws {
        var iterator = store.values(of: .count).makeAsyncIterator()
        #expect(await iterator.next() == 10)
        try store.set(.count, value: 10)
        try store.set(.name, value: "Ada")
        try store.set(.count, value: 11)
        #expect(await iterator.next() == 11)
    }

    @Test("of a key are nil while it is absent")
    func key() async throws {
        let key = KVKey<String>("a")
        var iterator = store.values(of: key).makeAsyncIterator()
        #expect(await iterator.next() == .some(nil))
        try store.set(key, value: "one")
        #expect(await iterator.next() == .some("one"))
        try store.removeAll()
        #expect(await iterator.next() == .some(nil))
        try store.batch { try $0.set(key, value: "two") }
        #expect(await iterator.next() == .some("two"))
    }

    @Test("of a shared store include writes of other processes")
    func remote() async throws {
        let fixture = SharedFixture()
        let (first, second) = try fixture.pair()
        var iterator = first.values(of: .count).makeAsyncIterator()
        #expect(await iterator.next() == 10)
        try second.set(.count, value: 20)
        #expect(await iterator.next() == 20)
        try first.set(.count, value: 30)
        #expect(await iterator.next() == 30)
    }

    @Test("end when their task is cancelled, and then retain nothing")
    func cancellation() async throws {
        weak var weakStore: InMemoryKVStore?
        // Retained, as by the property of a view.
        var values: KVSettingValues<Int>?
        do {
            let store = InMemoryKVStore()
            weakStore = store
            let (started, continuation) = AsyncStream.makeStream(of: Void.self)
            values = store.values(of: .count)
            let task = Task { [values] in
                var count = 0
                for await _ in try #require(values) {
                    count += 1
                    continuation.yield()
                }
                return count
            }
            for await _ in started { break }
            task.cancel()
            #expect(try await task.value == 1)
        }
        #expect(weakStore == nil)
        withExtendedLifetime(values) {}
    }

    @Test("are forwarded by layers, under the layers' names")
    func layers() async throws {
        let namespace = NamespacedKVStore(store, namespace: "user")
        let layered = ReadOnlyKVStore(RecordingKVStore(ReactiveKVStore(namespace)))
        var iterator = layered.values(of: .count).makeAsyncIterator()
        #expect(await iterator.next() == 10)
        try store.set(.count, value: 1)
        try namespace.set(.count, value: 2)
        #expect(await iterator.next() == 2)
        var values = Setting(.count, in: ReactiveKVStore(namespace)).values.makeAsyncIterator()
        #expect(await values.next() == 2)
        try namespace.set(.count, value: 3)
        #expect(await values.next() == 3)
    }

    @Test("of a migrating store include changes of either store")
    func migrating() async throws {
        let old = InMemoryKVStore()
        try old.set(.count, value: 1)
        // A copy in the new store would hide later values of the old one.
        let moving = MigratingKVStore(from: old, to: store, copiesOnRead: false)
        var iterator = moving.values(of: .count).makeAsyncIterator()
        #expect(await iterator.next() == 1)
        try old.set(.count, value: 2)
        #expect(await iterator.next() == 2)
        try moving.set(.count, value: 3)
        #expect(await iterator.next() == 3)
        try store.set(.count, value: 4)
        #expect(await iterator.next() == 4)
    }

    @Test("in user defaults follow every object over the suite")
    func userDefaults() async throws {
        let suite = "forge-settings-\(UUID().uuidString)"
        let first = UserDefaultsKVStore(suiteName: suite)
        let second = UserDefaultsKVStore(suiteName: suite)
        defer { #expect(throws: Never.self) { try first.removeAll() } }
        let setting = Setting(.count, in: first)
        var iterator = setting.values.makeAsyncIterator()
        #expect(await iterator.next() == 10)
        try second.set(.count, value: 20)
        #expect(await iterator.next() == 20)
        let error = #expect(throws: KVStoreError.self) { try setting.withLock { $0 += 1 } }
        #expect(error?.code == .refused)
        #expect(error?.key == "count")
        #expect(setting.wrappedValue == 20)
    }

    @Test("of a store that reports no changes contain only the current one")
    func unobservable() async {
        let values = Setting(.count, in: FiveCalls()).values
        var iterator = values.makeAsyncIterator()
        #expect(await iterator.next() == 10)
        #expect(await iterator.next() == nil)
    }

    private struct FiveCalls: KVStoring {
        func get<T>(_ key: KVKey<T>) -> T? { nil }
        func set<T>(_ key: KVKey<T>, value: T) throws {}
        func remove<T>(_ key: KVKey<T>) throws {}
        func contains<T>(_ key: KVKey<T>) -> Bool { false }
        func removeAll() throws {}
    }
}
