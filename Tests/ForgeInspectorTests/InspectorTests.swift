import Crypto
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeInspector

@Suite("An inspector") struct InspectorTests {
    private let stores: TemporaryStores

    init() throws {
        stores = try TemporaryStores()
    }

    @Test("finds stores of every kind by their content")
    func finds() async throws {
        try stores.keyValueStore("a/settings").set(KVKey<Int>("key"), value: 1)
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("vaults/key"))
        try VaultCrypt(at: stores.place("vaults/vault"), key: key).set("x", for: CryptKey<String>(key: "name"))
        let cache = try BoundedCache<String>(directory: stores.place("cache"), coding: .codable)
        await cache.insert("value", for: "https://example.org/a")
        let inspector = try Inspector(stores.url)
        inspector.refreshLogs()
        let summary = inspector.summary
        #expect(
            summary.stores.map { "\($0.kind) \($0.name)" } == [
                "keyValue a/settings", "cache cache", "vault vaults/vault",
            ])
        #expect(summary.stores[0].count == 1)
        let found = try #require(inspector.cache("cache"))
        #expect(
            try CacheContent(of: found, in: inspector.root, offset: 0, limit: 10).rows.map(\.name) == [
                "https://example.org/a"
            ])
    }

    @Test("searches a tenth of the time while a page is open, and not at all without one")
    func pauses() {
        #expect(Inspector.pause(afterSearching: .seconds(2), idleFor: .seconds(1)) == .seconds(18))
        #expect(Inspector.pause(afterSearching: .milliseconds(1), idleFor: .zero) == .milliseconds(500))
        #expect(Inspector.pause(afterSearching: .milliseconds(1), idleFor: nil) == nil)
        #expect(Inspector.pause(afterSearching: .milliseconds(1), idleFor: .seconds(60)) == nil)
    }

    @Test(
        "does not take a directory for a store because of the name of a file",
        arguments: ["log", "a.cache", "b.forgecache"])
    func namesProveNothing(name: String) async throws {
        let log = try Data(
            contentsOf: {
                let store = try stores.keyValueStore("scrap")
                try store.set(KVKey<Int>("key"), value: 1)
                try store.close()
                return stores.place("scrap/log")
            }())
        try FileManager.default.removeItem(at: stores.place("scrap"))
        let files = DiskFileStore(root: stores.place("files"))
        try await files.save(name == "log" ? log : Data("text".utf8), to: name)
        try await files.save(Data("text".utf8), to: "d/\(name)")
        let inspector = try Inspector(stores.url)
        #expect(inspector.summary.stores.map(\.name) == [])
        #expect(throws: (any Error).self) {
            try StagedEdits(store: "files", edits: [.init(key: "a", state: nil, json: "1")]).apply(
                to: FoundStore(kind: .keyValue, path: "files"), in: stores.root)
        }
        #expect(
            try await files.list(in: "", recursive: true).filter { !$0.isDirectory }.map(\.key).sorted()
                == ["d/\(name)", name].sorted())
    }

    @Test("shows the hit rates of the caches that the app registers, and of no others")
    func hits() async throws {
        let memory = try BoundedCache<String>(directory: nil, coding: .codable)
        let disk = try BoundedCache<String>(directory: stores.place("disk"), coding: .codable)
        let other = try BoundedCache<String>(directory: stores.place("other"), coding: .codable)
        for cache in [memory, disk, other] {
            for _ in 0..<3 { _ = try await cache.value(for: "a") { "value" } }
        }
        var options = InspectorOptions()
        options.caches = [InspectedCache("memory") { memory.statistics }]
        let inspector = try Inspector(stores.url, options: options)
        #expect(inspector.summary.stores.map(\.name) == ["disk", "other"])
        #expect(inspector.summary.stores.allSatisfy { $0.hits == nil })
        inspector.register(InspectedCache("disk", directory: stores.place("missing")) { other.statistics })
        #expect(inspector.summary.stores.allSatisfy { $0.hits == nil })
        inspector.register(InspectedCache("disk", directory: stores.place("disk")) { disk.statistics })
        let summary = inspector.summary
        #expect(summary.caches.map(\.name) == ["memory", "disk"])
        #expect(summary.caches.map(\.memoryHits) == [2, 2])
        #expect(summary.caches.map(\.misses) == [1, 1])
        #expect(summary.stores.map { $0.hits?.memoryHits } == [2, nil])
    }

    @Test("tells stores apart whose names are equal strings of other bytes")
    func equalNames() throws {
        for (name, key) in [("e\u{301}", "decomposed"), ("\u{e9}", "composed")] {
            let store = try stores.keyValueStore(name)
            try store.set(KVKey<Int>(key), value: 1)
            try store.close()
        }
        // A file system that normalises names has one of them.
        let count = try FileManager.default.contentsOfDirectory(atPath: stores.url.path).count
        let inspector = try Inspector(stores.url)
        #expect(inspector.summary.stores.count == count)
        for (name, key) in [("e\u{301}", "decomposed"), ("\u{e9}", "composed")] where count == 2 {
            let view = try #require(inspector.keyValueStore(name))
            #expect(try view.page(.init(), offset: 0, limit: 10).rows.map(\.key) == [key])
        }
    }

    @Test("never blocks on a pipe, and opens none")
    func pipes() throws {
        try stores.keyValueStore("settings").close()
        try FileManager.default.removeItem(at: stores.place("settings/log"))
        for name in ["pipe", "settings/log", "x.cache", "y.forgecache", "settings/quarantine-x"] {
            #expect(mkfifo(stores.place(name).path, 0o600) == 0)
        }
        // A writer waits until the pipe is opened for reading.
        let places = ["pipe", "settings/log", "x.cache"].map { stores.place($0).path }
        let openedCount = Atomic(0)
        for place in places {
            Thread.detachNewThread {
                close(open(place, O_WRONLY))
                openedCount.add(1, ordering: .relaxed)
            }
        }
        let inspector = try Inspector(stores.url)
        #expect(inspector.summary.stores.isEmpty)
        #expect(throws: FileSystemError.self) { try inspector.files.preview("pipe", offset: 0) }
        #expect(
            try inspector.files.list("", offset: 0, limit: 10).rows.first { $0.name == "pipe" }?.content == .special)
        let view = KeyValueView(FoundStore(kind: .keyValue, path: "settings"), in: inspector.root)
        #expect(throws: KVStoreError.self) { try view.page(.init(), offset: 0, limit: 1) }
        #expect(openedCount.load(ordering: .relaxed) == 0)
        for place in places {
            let reader = open(place, O_RDONLY)
            #expect(reader >= 0)
            close(reader)
        }
    }

    @Test("shows why a store of a later version, or a damaged one, cannot be shown, and the others")
    func laterVersion() throws {
        for name in ["a", "b", "c"] { try stores.keyValueStore(name).close() }
        var later = try Data(contentsOf: stores.place("a/log"))
        later[8] = 9
        later.withUnsafeMutableBytes { bytes in
            var checksum = CRC32C()
            checksum.update(UnsafeRawBufferPointer(rebasing: bytes[..<60]))
            bytes.storeBytes(of: checksum.value.littleEndian, toByteOffset: 60, as: UInt32.self)
        }
        try later.write(to: stores.place("a/log"))
        try Data("FORGEKV\n".utf8 + [UInt8](repeating: 1, count: 99)).write(to: stores.place("b/log"))
        let inspector = try Inspector(stores.url)
        inspector.refreshLogs()
        let failures = inspector.summary.stores.map(\.failure)
        #expect(failures[0]?.contains("version 9") == true)
        #expect(failures[1] != nil && failures[2] == nil)
    }

    @Test("throws for a directory that is missing")
    func missing() {
        #expect(throws: (any Error).self) { try Inspector(stores.place("missing")) }
    }

    @Test("lists the changes of keys and files in the timeline")
    func timeline() throws {
        let store = try stores.keyValueStore()
        try store.set(KVKey<Int>("old"), value: 1)
        let inspector = try Inspector(stores.url)
        inspector.refreshLogs()
        #expect(inspector.timeline.events(after: 0).events.isEmpty)
        try store.set(KVKey<Int>("new"), value: 2)
        try Data("text".utf8).write(to: stores.place("note.txt"))
        inspector.refreshLogs()
        try inspector.refreshStores()
        let page = inspector.timeline.events(after: 0)
        #expect(page.events.map(\.operation) == ["set", "create"])
        #expect(page.events.map(\.name) == ["new", "note.txt"])
        #expect(page.events.map(\.store) == ["settings", "files"])
        #expect(inspector.timeline.events(after: page.last).events.isEmpty)
        try FileManager.default.removeItem(at: stores.place("note.txt"))
        try inspector.refreshStores()
        #expect(inspector.timeline.events(after: page.last).events.map(\.operation) == ["delete"])
    }

    @Test("lists the first of many changes of files, and the number of the others")
    func burst() throws {
        let inspector = try Inspector(stores.url)
        let names = (0..<Timeline.burst + 2).map { "note\($0)" }.sorted()
        for name in names { try Data("text".utf8).write(to: stores.place(name)) }
        try inspector.refreshStores()
        let events = inspector.timeline.events(after: 0).events
        #expect(events.compactMap(\.name) == Array(names.prefix(Timeline.burst)))
        #expect(events.map(\.omittedCount) == Array(repeating: 0, count: Timeline.burst - 1) + [2])
    }

    @Test("leaves out a file that cannot be read, until it can")
    func unreadable() throws {
        let plan = FaultPlan([.fail(.read, matching: "/d/a", name: "unreadable", with: .ioError)])
        let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
        try fileSystem.createDirectory("/d")
        var search = StoreSearch(try ConfinedDirectory("/d", on: fileSystem))
        var events = try search.run()
        #expect(events.isEmpty)
        for path: POSIXPath in ["/d/a", "/d/b"] { try fileSystem.write(Data("text".utf8), to: URL(path)) }
        events = try search.run()
        #expect(events.map(\.name) == ["b"])
        plan.lift("unreadable")
        events = try search.run()
        #expect(events.map(\.name) == ["a"])
    }

    @Test("lists a file that was rewritten in place with its size and its modification time, as `rsync -a` does")
    func restoredTime() throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.createDirectory("/d")
        try fileSystem.write(Data("text".utf8), to: URL(POSIXPath("/d/a")))
        var search = StoreSearch(try ConfinedDirectory("/d", on: fileSystem))
        _ = try search.run()
        let old = try fileSystem.status("/d/a")
        let descriptor = try fileSystem.open("/d/a", .writeOnly)
        try fileSystem.writeBytes(Array("TEXT".utf8), to: descriptor)
        try fileSystem.setTimes(accessed: old.accessed, modified: old.modified, of: .descriptor(descriptor))
        try fileSystem.close(descriptor)
        let new = try fileSystem.status("/d/a")
        #expect(new.inode == old.inode && new.modified == old.modified)
        var events = try search.run()
        #expect(events.map(\.operation) == ["write"])
        events = try search.run()
        #expect(events.isEmpty)
    }

    @Test("lists the entries of a cache that are still there")
    func evicted() throws {
        let memory = InMemoryFileSystem()
        try memory.createDirectory("/d")
        for path: POSIXPath in ["/d/a.forgecache", "/d/b.forgecache"] {
            try memory.write(Data("text".utf8), to: URL(path))
        }
        let plan = FaultPlan([.fail(.status, matching: "/d/a.forgecache", with: .noSuchFileOrDirectory)])
        let root = try ConfinedDirectory("/", on: FaultingFileSystem(memory, plan: plan))
        let content = try CacheContent(of: FoundStore(kind: .cache, path: "d"), in: root, offset: 0, limit: 10)
        #expect(content.rows.map(\.name) == ["b"] && content.rows.map(\.size) == [4])
        #expect(content.count == 1 && content.size == 4)
    }

    @Test("finds changes while it follows the stores")
    func live() async throws {
        let store = try stores.keyValueStore()
        let inspector = try Inspector(stores.url)
        let following = Task { try await inspector.follow() }
        defer { following.cancel() }
        _ = try inspector.keyValueStore("settings")?.page(.init(), offset: 0, limit: 1)
        try store.set(KVKey<Int>("key"), value: 1)
        let page = try await inspector.timeline.events(after: 0, waiting: TestDepth.hangLimit)
        #expect(page.events.map(\.name) == ["key"])
    }

    @Test("forgets a store that was removed")
    func removed() throws {
        try stores.keyValueStore().close()
        let inspector = try Inspector(stores.url)
        #expect(inspector.keyValueStore("settings") != nil)
        try FileManager.default.removeItem(at: stores.place("settings"))
        try inspector.refreshStores()
        #expect(inspector.keyValueStore("settings") == nil)
        let events = inspector.timeline.events(after: 0).events
        #expect(events.map(\.operation) == ["lost"])
        #expect(events.map(\.store) == ["settings"])
        try stores.keyValueStore().close()
        try inspector.refreshStores()
        #expect(inspector.timeline.events(after: 1).events.map(\.operation) == ["found"])
    }

    @Test("shows only the number of a vault's secrets until it is unlocked, and never a value")
    func vault() throws {
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("key"))
        try VaultCrypt(at: stores.place("vault"), key: key).set("x", for: CryptKey<String>(key: "name"))
        let vault = try #require(try Inspector(stores.url).vault("vault"))
        #expect(try vault.content()?.count == 1)
        #expect(try vault.content()?.names == nil)
        #expect(try vault.unlock(with: [.init(size: .bits256)]) == false)
        #expect(try vault.content()?.names == nil)
        #expect(try vault.unlock(with: [.init(size: .bits256), key]))
        #expect(try vault.content()?.names == ["name"])
        vault.lock()
        #expect(try vault.content()?.names == nil)
    }

    @Test("draws damage and quarantine")
    func logMap() throws {
        let store = try stores.keyValueStore()
        for number in 0..<100 { try store.set(KVKey<Int>("key\(number)"), value: number) }
        try store.close()
        let log = stores.place("settings/log")
        var bytes = try Data(contentsOf: log)
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: log)
        try Data("aside".utf8).write(to: stores.place("settings/quarantine-tail-00000000-64-00000000"))
        let (found, root) = (FoundStore(kind: .keyValue, path: "settings"), try stores.root)
        let view = KeyValueView(found, in: root)
        let map = try LogMap(try #require(try view.map(sectionCount: 32)), of: found, in: root)
        #expect(map.damage.count == 1)
        #expect(map.sections.filter { $0[2] == 1 }.count == 1)
        #expect(map.quarantine.map(\.size) == [5])
        let records = try view.records(from: 0, limit: 3)
        #expect(records.map(\.operation) == ["set", "set", "set"])
        #expect(records[1].offset == records[0].offset + records[0].sizeInBytes)
    }
}
