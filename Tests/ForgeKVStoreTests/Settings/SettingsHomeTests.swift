import ForgeTestTraits
import Synchronization
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
    @Test("each case of a test has empty settings of its own", arguments: 0..<20)
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

    @Test("repeated and parallel tests find nothing of each other", arguments: [1, 2], [3, 4])
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

    @Test("in a test the home of the process is memory, and opening another calls nothing")
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

    @Test(
        "processes of tests and previews are recognised",
        arguments: [
            (["/b/AppPackageTests.xctest", "--testing-library", "swift-testing"], [:], true),
            (["/usr/bin/xctest", "/b/AppTests.xctest"], [:], true),
            (["/App"], ["XCTestConfigurationFilePath": "/c"], true),
            (["/App"], ["XCODE_RUNNING_FOR_PREVIEWS": "1"], true),
            (["/App", "--file=/a.xctest"], ["XCODE_RUNNING_FOR_PREVIEWS": "0"], false),
            (["/usr/bin/forge", "demo"], [:], false),
        ])
    func recognised(arguments: [String], environment: [String: String], _ isTest: Bool) {
        #expect(TestProcess.matches(arguments: arguments, environment: environment) == isTest)
    }
}
