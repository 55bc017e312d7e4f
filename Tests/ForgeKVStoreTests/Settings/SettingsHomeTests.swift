import Dispatch
import ForgeTestTraits
import Foundation
import Synchronization
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

@Suite("The home of settings without a store", .settingsInMemory) struct SettingsHomeTests {
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
        try SettingsHome.withStore(outer) {
            try HomeCounter().$count.set(1)
            try SettingsHome.withStore(inner) {
                #expect(HomeCounter().count == 0)
                try HomeCounter().$count.set(2)
            }
            #expect(HomeCounter().count == 1)
        }
        #expect(HomeCounter().count == 0)
        await SettingsHome.withStore(inner) {
            await Task.yield()
            #expect(HomeCounter().count == 2)
        }
        #expect(outer.get(.homeCount) == 1)
    }

    @Test("a model over the home observes it")
    @MainActor func observed() throws {
        let model = ObservedSettings()
        model[.homeCount] = 7
        #expect(HomeCounter().count == 7)
    }

    @Test("in a test the home of the process is in memory, and `open` does not call its closure")
    func processStore() async throws {
        let isInMemory = await Task.detached { SettingsHome.store is InMemoryKVStore }.value
        #expect(isInMemory)
        let isCalled = Atomic(false)
        try SettingsHome.open {
            isCalled.store(true, ordering: .relaxed)
            return InMemoryKVStore()
        }
        let wasCalled = isCalled.load(ordering: .relaxed)
        #expect(!wasCalled)
        #expect(SettingsHome.openingError == nil)
    }

    @Test("the model of the home uses the store of the process, whichever scope uses it first")
    @MainActor func homeModel() async throws {
        let isAbsent = SettingsHome.withStore(InMemoryKVStore()) {
            ObservedSettings.home[.homeCount] = 5
            return !SettingsHome.store.contains(KVSettings.homeCount)
        }
        #expect(isAbsent)
        let count = await Task.detached { SettingsHome.store.get(.homeCount) }.value
        #expect(count == 5)
        try ObservedSettings.home.reset(.homeCount)
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
            let settings = ProcessSettingsStore(isTest: false) { directory }
            #expect(!FileManager.default.fileExists(atPath: directory.path))
            try settings.store.set(.homeCount, value: 3)
            #expect(settings.openingError == nil)
            // Like a second process of the app.
            #expect(try FileKVStore(at: directory, options: .init(sharing: .shared)).get(.homeCount) == 3)
            #expect(throws: SettingsHome.AlreadyInUse.self) { try settings.open { InMemoryKVStore() } }
            #expect(settings.store.get(.homeCount) == 3)
        }
    }

    @Test("is the chosen one, once")
    func chosen() throws {
        let settings = ProcessSettingsStore(isTest: false) { throw Refused() }
        let store = InMemoryKVStore()
        try settings.open { store }
        #expect(settings.store as? InMemoryKVStore === store)
        #expect(throws: SettingsHome.AlreadyInUse.self) { try settings.open { InMemoryKVStore() } }
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
        "the use of a setting while the store is chosen is detected, and does not deadlock",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func usedMeanwhile() throws {
        try withDirectory { directory in
            let settings = ProcessSettingsStore(isTest: false) { directory }
            #expect(throws: SettingsHome.AlreadyInUse.self) {
                try settings.open {
                    _ = settings.store.get(.homeCount)
                    return InMemoryKVStore()
                }
            }
            #expect(settings.store is FileKVStore)
        }
    }

    @Test("is the same for all threads that use it first")
    func threads() throws {
        try withDirectory { directory in
            let settings = ProcessSettingsStore(isTest: false) { directory }
            let stores = Mutex<Set<ObjectIdentifier>>([])
            DispatchQueue.concurrentPerform(iterations: 8) { _ in
                let store = settings.store as AnyObject
                stores.withLock { _ = $0.insert(ObjectIdentifier(store)) }
            }
            #expect(stores.withLock { $0.count } == 1)
        }
    }
}
