import ChildProcesses
import Dispatch
import ForgeCrashTesting
import ForgeFileSystem
import ForgeTestTraits
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

extension KVSettings {
    fileprivate static let homeCount = KVSetting("home.count", default: 0)
}

/// A type whose settings name no store.
private struct HomeCounter {
    @Setting(.homeCount) var count
}

@Suite("The default store of settings", .settingsInMemory) struct DefaultSettingsStoreTests {
    @Test("each case of a test has separate, empty settings", arguments: 0..<20)
    func perCase(number: Int) async throws {
        let counter = HomeCounter()
        #expect(counter.count == 0)
        #expect(try counter.$count.read() == nil)
        counter.count = number + 1
        await Task.yield()
        #expect(counter.count == number + 1)
        await withTaskGroup { group in
            group.addTask { try? HomeCounter().$count.withLock { $0 += 1 } }
        }
        #expect(counter.count == number + 2)
    }

    @Test("repeated and parallel tests do not see each other's settings", arguments: [1, 2], [3, 4])
    func parallel(_ first: Int, _ second: Int) throws {
        #expect(HomeCounter().count == 0)
        try HomeCounter().$count.set(first * second)
        #expect(HomeCounter().count == first * second)
    }

    @Test("a scope ends with its body, and scopes nest")
    func scopes() async throws {
        let (outer, inner) = (InMemoryKVStore(), InMemoryKVStore())
        try DefaultSettingsStore.withStore(outer) {
            try HomeCounter().$count.set(1)
            try DefaultSettingsStore.withStore(inner) {
                #expect(HomeCounter().count == 0)
                try HomeCounter().$count.set(2)
            }
            #expect(HomeCounter().count == 1)
        }
        #expect(HomeCounter().count == 0)
        await DefaultSettingsStore.withStore(inner) {
            await Task.yield()
            #expect(HomeCounter().count == 2)
        }
        #expect(outer.get(.homeCount) == 1)
    }

    // In a separate process, which has had no scope before.
    @Test("the first scope of a process may be asynchronous or not", .onOwnThreads, arguments: [false, true])
    func firstScope(isAsynchronous: Bool) async {
        await #expect(processExitsWith: .success) {
            [isAsynchronous = isAsynchronous as Bool] in
            let store = InMemoryKVStore()
            let counter = HomeCounter()
            if isAsynchronous {
                await DefaultSettingsStore.withStore(store) {
                    await Task.yield()
                    counter.count = 1
                }
            } else {
                DefaultSettingsStore.withStore(store) { counter.count = 1 }
            }
            #expect(store.get(.homeCount) == 1)
            #expect(counter.count == 0)
        }
    }

    @Test("a model over the default store observes it")
    @MainActor func observed() throws {
        let model = ObservedSettings()
        model[.homeCount] = 7
        #expect(HomeCounter().count == 7)
    }

    @Test("in a test the store of the process is in memory, and `open` does not call its closure")
    func processStore() async throws {
        let isInMemory = await Task.detached { DefaultSettingsStore.store is InMemoryKVStore }.value
        #expect(isInMemory)
        let isCalled = Atomic(false)
        try DefaultSettingsStore.open {
            isCalled.store(true, ordering: .relaxed)
            return InMemoryKVStore()
        }
        let wasCalled = isCalled.load(ordering: .relaxed)
        #expect(!wasCalled)
        #expect(DefaultSettingsStore.openingError == nil)
    }

    @Test("the default model uses the store of the process, whichever scope uses it first")
    @MainActor func homeModel() async throws {
        let isAbsent = DefaultSettingsStore.withStore(InMemoryKVStore()) {
            ObservedSettings.default[.homeCount] = 5
            return !DefaultSettingsStore.store.contains(KVSettings.homeCount)
        }
        #expect(isAbsent)
        let count = await Task.detached { DefaultSettingsStore.store.get(.homeCount) }.value
        #expect(count == 5)
        try ObservedSettings.default.reset(.homeCount)
    }

    @Test(
        "processes of tests and previews are recognised, whatever arguments an app has",
        arguments: [
            ("/b/AppPackageTests.xctest", [:], true),
            ("/usr/bin/xctest", [:], true),
            ("/usr/libexec/swiftpm-testing-helper", [:], true),
            ("/App", ["XCTestConfigurationFilePath": "/c"], true),
            ("/App", ["XCODE_RUNNING_FOR_PREVIEWS": "1"], true),
            ("/App", ["XCODE_RUNNING_FOR_PREVIEWS": "0"], false),
            ("/App.xctest/forge", [:], false),
            ("", [:], false),
        ])
    func recognised(executable: String, environment: [String: String], _ isTest: Bool) {
        #expect(TestProcess.matches(executable: executable, environment: environment) == isTest)
    }
}

@Suite("The store of a process's settings") struct ProcessSettingsTests {
    private struct Refused: Error {}

    private static func open(_ directory: URL) throws -> FileKVStore {
        try FileKVStore(at: directory, options: .init(sharing: .shared))
    }

    private func withDirectory(_ body: (URL) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("settings-\(UUID())")
        defer {
            if FileManager.default.fileExists(atPath: directory.path) {
                do { try FileManager.default.removeItem(at: directory) } catch { Issue.record(error) }
            }
        }
        try body(directory)
    }

    @Test("is opened on disk by the first use, and kept")
    func firstUse() throws {
        try withDirectory { directory in
            let settings = ProcessSettingsStore(isTest: false) { try Self.open(directory) }
            #expect(!FileManager.default.fileExists(atPath: directory.path))
            try settings.store.set(.homeCount, value: 3)
            #expect(settings.openingError == nil)
            // Like a second process of the app.
            #expect(try Self.open(directory).get(.homeCount) == 3)
            #expect(code { try settings.open { InMemoryKVStore() } } == .refused)
            #expect(settings.store.get(.homeCount) == 3)
        }
    }

    @Test("is the chosen one, once")
    func chosen() throws {
        let settings = ProcessSettingsStore(isTest: false) { throw Refused() }
        let store = InMemoryKVStore()
        try settings.open { store }
        #expect(settings.store as? InMemoryKVStore === store)
        let error = code {
            try settings.open {
                Issue.record("opened although another store is chosen")
                return InMemoryKVStore()
            }
        }
        #expect(error == .refused)
        #expect(settings.store as? InMemoryKVStore === store)
    }

    @Test("is in memory if it cannot be opened, which is reported", arguments: [true, false])
    func failure(isChosen: Bool) throws {
        let settings = ProcessSettingsStore(isTest: false) { throw Refused() }
        if isChosen { #expect(throws: Refused.self) { try settings.open { throw Refused() } } }
        #expect(settings.store is InMemoryKVStore)
        #expect(settings.openingError is Refused)
    }

    @Test(
        "keeps nothing in memory before the first unlock: the same process then sees the stored values, and its writes survive",
        arguments: [true, false])
    func beforeFirstUnlock(isChosen: Bool) async throws {
        let device = try SimulatedDevice()
        let path = device.path(of: .applicationSupport).appending("settings")
        func process() throws -> ProcessSettingsStore {
            let fileSystem = device.fileSystem
            let opening: ProcessSettingsStore.Opening = {
                try FileKVStore(at: path, fileSystem: fileSystem, options: .init(sharing: .shared))
            }
            guard isChosen else { return ProcessSettingsStore(isTest: false, opening: opening) }
            let process = ProcessSettingsStore(isTest: false) { throw Refused() }
            guard device.lockState == .beforeFirstUnlock else {
                try process.open(opening)
                return process
            }
            #expect(throws: KVStoreError.self) { try process.open(opening) }
            return process
        }
        try process().store.set(.homeCount, value: 3)

        device.reboot()
        let settings = try process()
        let store = settings.store
        let setting = Setting(.homeCount, in: store)
        #expect(setting.wrappedValue == 0)
        #expect(!store.contains(KVSettings.homeCount))
        #expect((settings.openingError as? KVStoreError)?.code == .unavailable(.locked))
        #expect(code { try settings.open { InMemoryKVStore() } } == .refused)
        let name = "home.count"
        let calls: [(KVStoreError.Operation, String?, () throws -> Void)] = [
            (.read, name, { _ = try setting.read() }),
            (.set, name, { try setting.set(5) }),
            (.read, name, { try setting.withLock { $0 = 5 } }),
            (.remove, name, { try setting.reset() }),
            (.removeAll, nil, { try store.removeAll() }),
            (.keys, nil, { _ = try store.keys() }),
            (.read, name, { _ = try store.rawValue(named: name) }),
            (.set, name, { try store.setRawValue([], named: name) }),
            (.remove, name, { try store.removeValue(named: name) }),
            (.read, name, { _ = try store.entry(named: name) }),
            (.snapshot, nil, { _ = try store.snapshot() }),
            (.batch, nil, { try store.commit(KVBatch()) }),
            (.synchronize, nil, { try store.synchronize() }),
        ]
        for (number, (operation, key, call)) in calls.enumerated() {
            let error = #expect(throws: KVStoreError.self) { try call() }
            #expect(error?.code == .unavailable(.locked), "\(number)")
            #expect(error?.operation == operation && error?.key == key, "\(number)")
        }
        setting.wrappedValue = 5
        #expect((setting.lastError as? KVStoreError)?.code == .unavailable(.locked))
        var values = setting.values.makeAsyncIterator()
        #expect(await values.next() == 0)
        let (began, continuation) = AsyncStream.makeStream(of: Void.self)
        let waiting = Task {
            for await value in setting.values {
                continuation.yield()
                if value == 3 { return true }
            }
            return false
        }
        for await _ in began { break }
        // Most likely it waits by then; otherwise it finds the value.
        for _ in 0..<100 { await Task.yield() }

        device.unlock()
        #expect(setting.wrappedValue == 3)
        #expect(await values.next() == 3)
        #expect(settings.openingError == nil)
        #expect(settings.store is FileKVStore)
        #expect(await waiting.value)
        try setting.set(4)
        #expect(await values.next() == 4)
        try await useAll(of: store)
        try store.removeAll()
        #expect(await values.next() == 0)
        try setting.set(4)

        device.reboot()
        device.unlock()
        #expect(try process().store.read(KVSettings.homeCount) == 4)
    }

    /// Makes the calls of an open store that has the count 4.
    private func useAll(of store: any KVTransactionalStoring) async throws {
        let name = "home.count"
        let entry = try #require(try store.entry(named: name))
        #expect(try store.rawValue(named: name) == entry.bytes)
        var changes = try #require(store.subscribe(to: .key(name))).makeAsyncIterator()
        #expect(try await changes.next() == .changed(name: name, entry: entry, revision: nil))
        let other = KVKey<Int>("other")
        try store.setRawValue(entry.bytes, named: other.name)
        #expect(try store.keys().sorted() == [name, other.name])
        #expect(store.contains(other))
        #expect(try store.read(other) == 4)
        try store.removeValue(named: other.name)
        try store.batch { try $0.set(other, value: 5) }
        #expect(try store.snapshot().read(other) == 5)
        try store.remove(other)
        try store.set(KVKey<Int>("third"), value: 6)
        try store.synchronize()
        #expect(try store.keys().sorted() == [name, "third"])
    }

    @Test("is unavailable if the file system says that the device is locked, and in memory after another error")
    func lockedFileSystem() throws {
        let locked = FileSystemError(.open, .notPermitted, path: nil, underlying: ProtectedDataUnavailable())
        let settings = ProcessSettingsStore(isTest: false) { throw locked }
        let error = #expect(throws: KVStoreError.self) { try settings.store.set(.homeCount, value: 1) }
        #expect(error?.code == .unavailable(.locked) && error?.operation == .set && error?.key == "home.count")
        #expect((error?.underlying as? FileSystemError)?.isLocked == true)
        #expect(settings.openingError is FileSystemError)
        let failing = ProcessSettingsStore(isTest: false) { throw FileSystemError(.open, .ioError, path: nil) }
        try failing.store.set(.homeCount, value: 1)
        #expect(failing.store is InMemoryKVStore && failing.openingError is FileSystemError)
    }

    @Test(
        "the use of a setting while the store is chosen is detected, and does not deadlock",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func usedMeanwhile() throws {
        try withDirectory { directory in
            let settings = ProcessSettingsStore(isTest: false) { try Self.open(directory) }
            let error = code {
                try settings.open {
                    _ = settings.store.get(.homeCount)
                    return InMemoryKVStore()
                }
            }
            #expect(error == .refused)
            #expect(settings.store is FileKVStore)
        }
    }

    @Test("is the same for all threads that use it first")
    func threads() throws {
        try withDirectory { directory in
            let settings = ProcessSettingsStore(isTest: false) { try Self.open(directory) }
            let stores = Mutex<Set<ObjectIdentifier>>([])
            DispatchQueue.concurrentPerform(iterations: 8) { _ in
                let store = settings.store as AnyObject
                stores.withLock { _ = $0.insert(ObjectIdentifier(store)) }
            }
            #expect(stores.withLock { $0.count } == 1)
        }
    }
}
