import Foundation
import Observation
import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Observed settings") @MainActor struct ObservedSettingsTests {
    /// Reads with observation, and calls `onChange` after each change of the values read.
    private func observe(_ read: @escaping @MainActor () -> Void, _ onChange: @escaping @MainActor () -> Void) {
        withObservationTracking {
            read()
        } onChange: {
            // Announcements are made on the main actor.
            MainActor.assumeIsolated {
                onChange()
                self.observe(read, onChange)
            }
        }
    }

    /// Waits for pending announcements of a store, which are made in order.
    private func settle(_ store: any KVStoring, _ model: ObservedSettings, _ probe: KVSetting<Int>) async {
        await withCheckedContinuation { continuation in
            withObservationTracking {
                _ = model[probe]
            } onChange: {
                continuation.resume()
            }
            #expect(throws: Never.self) { try store.set(probe, value: store[probe] + 1) }
        }
    }

    @Test("announce every change of a key, and none of another key")
    func keys() async throws {
        let store = InMemoryKVStore()
        let model = ObservedSettings(store)
        let probe = KVSetting("probe", default: 0)
        var themes = 0
        var counts = 0
        observe({ _ = model[.theme] }, { themes += 1 })
        observe({ _ = model[.count] }, { counts += 1 })
        try store.set(.theme, value: .dark)
        await settle(store, model, probe)
        #expect(themes == 1 && counts == 0)
        model[.count] = 5
        await settle(store, model, probe)
        #expect(themes == 1 && counts == 1)
        #expect(model[.count] == 5 && store[.count] == 5)
        try model.set(.theme, value: .light)
        try model.reset(.theme)
        await settle(store, model, probe)
        #expect((2...3).contains(themes) && model[.theme] == .system)
        try store.removeAll()
        await settle(store, model, probe)
        #expect(counts == 2)
    }

    @Test(
        "over a store that reports no changes announce those made through them",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func silentStore() async {
        struct Silent: KVLayer, KVStoring {
            let base = InMemoryKVStore()
            func subscribe(to scope: KVScope) -> KVChanges? { nil }
        }
        let model = ObservedSettings(Silent())
        let changes: [() throws -> Void] = [
            { model[.theme] = .dark }, { try model.set(.theme, value: .light) }, { try model.reset(.theme) },
        ]
        for (change, expected) in zip(changes, [Theme.dark, .light, .system]) {
            await withCheckedContinuation { continuation in
                withObservationTracking {
                    _ = model[.theme]
                } onChange: {
                    continuation.resume()
                }
                #expect(throws: Never.self) { try change() }
            }
            #expect(model[.theme] == expected)
        }
    }

    @Test("announce a dotted name separately")
    func dots() async throws {
        let store = InMemoryKVStore()
        let model = ObservedSettings(store)
        let other = KVSetting("user.age", default: 0)
        var names = 0
        observe({ _ = model[.name] }, { names += 1 })
        try store.set(other, value: 3)
        await settle(store, model, KVSetting("user", default: 0))
        #expect(names == 0)
        model[.name] = "Ada"
        await settle(store, model, KVSetting("user", default: 0))
        #expect(names == 1)
    }

    @Test("show the final value to an observer during concurrent writes, without a lock held")
    func finalValue() async throws {
        let store = InMemoryKVStore()
        let model = ObservedSettings(store)
        let (values, continuation) = AsyncStream.makeStream(of: Int.self)
        // An observer that reads and writes the store: it would deadlock if a lock were held.
        observe({ continuation.yield(model[.count]) }, { try? store.set(.theme, value: .dark) })
        let writer = Task.detached {
            for value in 0...5_000 { try store.set(.count, value: value) }
        }
        for await value in values where value == 5_000 { break }
        try await writer.value
    }

    @Test("retain neither themselves nor their store")
    func release() async throws {
        weak var weakModel: ObservedSettings?
        weak var weakStore: InMemoryKVStore?
        do {
            let store = InMemoryKVStore()
            let model = ObservedSettings(store)
            weakModel = model
            weakStore = store
            // Observation retains the closures until they are called.
            observe({ [weak model] in _ = model?[.theme] }, {})
            try store.set(.theme, value: .dark)
            await settle(store, model, KVSetting("probe", default: 0))
        }
        for _ in 0..<1_000 where weakModel != nil || weakStore != nil { await Task.yield() }
        #expect(weakModel == nil)
        #expect(weakStore == nil)
    }

    @Test("owned by the actor on which they are announced are released with it")
    func ownedByActor() async throws {
        actor Owner {
            var settings: ObservedSettings?

            func own(_ store: InMemoryKVStore) { settings = ObservedSettings(store, isolation: self) }
        }
        weak var weakOwner: Owner?
        weak var weakSettings: ObservedSettings?
        do {
            let owner = Owner()
            await owner.own(InMemoryKVStore())
            weakOwner = owner
            weakSettings = await owner.settings
        }
        for _ in 0..<1_000 where weakOwner != nil || weakSettings != nil { await Task.yield() }
        #expect(weakOwner == nil && weakSettings == nil)
    }

    @Test("have key paths, as bindings need")
    func keyPaths() {
        let model = ObservedSettings(InMemoryKVStore())
        let path = \ObservedSettings[.count]
        model[keyPath: path] = 3
        #expect(model[.count] == 3)
    }

    @Test("are announced on the chosen actor")
    func chosenActor() async throws {
        actor Observer {
            let announced = AsyncStream.makeStream(of: Void.self)

            nonisolated func observe(_ model: ObservedSettings) {
                withObservationTracking {
                    _ = model[.theme]
                } onChange: {
                    self.assertIsolated()
                    self.announced.continuation.yield()
                }
            }
        }
        let store = InMemoryKVStore()
        let observer = Observer()
        let model = ObservedSettings(store, isolation: observer)
        observer.observe(model)
        try store.set(.theme, value: .dark)
        for await _ in observer.announced.stream { break }
    }
}
