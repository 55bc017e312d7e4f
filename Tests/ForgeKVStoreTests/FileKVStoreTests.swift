import ForgeFileSystem
import ForgeKVStore
import Foundation
import SystemPackage
import TestDepth
import Testing

@Suite struct FileKVStoreTests {
    private let a = KVKey<Int>("a")

    @Test("the store's directory is 0700 and its files are 0600, regardless of parents")
    func modes() throws {
        let directory = TemporaryDirectory()
        let url = directory.url.appending(path: "x/y")
        let store = try FileKVStore(at: url)
        try store.set(a, value: 1)
        let system = SystemFileSystem()
        let path = try POSIXPath(url)
        #expect(try system.status(path).permissions == .ownerReadWriteExecute)
        for name in ["log", "#lock", "#store-key-value"] {
            #expect(try system.status(path.appending(POSIXPath(name))).permissions == .ownerReadWrite)
        }
    }

    @Test(
        "a store is not created in the directory of a file store or a cache",
        arguments: [StoreKind.files, .values, .images, .cache])
    func directoryOfFiles(_ kind: StoreKind) throws {
        let directory = TemporaryDirectory()
        try FileManager.default.createDirectory(at: directory.url, withIntermediateDirectories: true)
        let system = SystemFileSystem()
        let root = try system.open(POSIXPath(directory.url), .readOnly, options: [.directory], permissions: [])
        defer { system.discard(root) }
        try system.mark(root, as: kind, temporary: "#tmp-mark")
        for sharing in [FileKVStore.Sharing.exclusive, .shared] {
            var options = FileKVStore.Options()
            options.sharing = sharing
            let error = #expect(throws: KVStoreError.self) { try FileKVStore(at: directory.url, options: options) }
            #expect((error?.underlying as? FileSystemError)?.errno == .resourceBusy)
        }
        #expect(try system.entries(of: root).map(\.name) == [kind.markerName])
    }

    @Test("two objects for one directory are one store, even by different paths")
    func sharing() throws {
        let directory = TemporaryDirectory()
        let first = try FileKVStore(at: directory.url)
        let link = directory.url.appending(path: "link")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: directory.url)
        let second = try FileKVStore(at: link)
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        try second.set(a, value: 2)
        #expect(first.get(a) == 2)
    }

    @Test("a store can be opened as soon as its last object is released, by any number of threads")
    func reopening() async throws {
        let directory = TemporaryDirectory()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    for index in 0..<20 {
                        let store = try FileKVStore(at: directory.url)
                        try store.set(KVKey<Int>("\(task)"), value: index)
                        #expect(store.get(KVKey<Int>("\(task)")) == index)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try FileKVStore(at: directory.url).integers().count == 8)
    }

    @Test("the error for a store in use contains the process")
    func inUse() throws {
        let fileSystem = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(a, value: 1)
        let other = fileSystem.process()
        let error = try #require(throws: KVStoreError.self) { try FileKVStore(at: "/store", fileSystem: other) }
        let own = ProcessInfo.processInfo.processIdentifier
        #expect(error.code == .unavailable(.inUse(processID: own)))
        #expect("\(error)".contains("in use by process \(own)"))
        #expect(other.openDescriptors.isEmpty)
        try store.set(a, value: 2)
    }

    @Test("after a kill another process opens the store with all acknowledged writes")
    func killed() throws {
        let fileSystem = InMemoryFileSystem()
        let victim = fileSystem.process()
        let store = try FileKVStore(at: "/store", fileSystem: victim)
        for index in 0..<100 { try store.set(KVKey<Int>("\(index)"), value: index) }
        victim.endProcess()
        #expect(try FileKVStore(at: "/store", fileSystem: fileSystem).keys().count == 100)
    }

    @Test("no descriptor stays open after a store is released")
    func descriptors() throws {
        let fileSystem = InMemoryFileSystem()
        for index in 0..<20 {
            let options = FileKVStore.Options(compactionFloorInBytes: 0)
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            for value in 0..<20 { try store.set(a, value: index * value) }
        }
        // A compaction in the background holds the last store until it returns.
        let end = ContinuousClock.now + TestDepth.hangLimit
        while !fileSystem.openDescriptors.isEmpty, ContinuousClock.now < end { passTime() }
        #expect(fileSystem.openDescriptors.isEmpty)
    }

    @Test(
        "its lock contains the process in a line, with spaces behind it, and a block is kept for removals",
        arguments: [(1, 10), (812, 8), (.max, 1)] as [(Int32, Int)])
    func internalFiles(_ process: Int32, _ spaceCount: Int) throws {
        let fixture = LogFixture()
        var options = IssueRecorder().options()
        options.processes = ProcessTable(own: ProcessIdentity(id: process), isRunning: { _ in true })
        let store = try FileKVStore(at: fixture.path, fileSystem: fixture.fileSystem, options: options)
        let text = "\(process)\n" + String(repeating: " ", count: spaceCount)
        #expect(try fixture.fileSystem.readFile("/store/#lock") == Array(text.utf8))
        let block = [UInt8](repeating: 0x23, count: 4096)
        #expect(try fixture.fileSystem.readFile("/store/#reserve") == block)
        withExtendedLifetime(store) {}
    }

    @Test("only the store's own leftovers are removed, no other file, whatever its name")
    func leftovers() throws {
        let fixture = LogFixture()
        try fixture.open().set(a, value: 1)
        let foreign = ["#tmp-aaaabbbbccccdddd", "#trash-aaaabbbb", "mine", "quarantine-records-00000000-64-00000000"]
        let own = ["#log-new", "#quarantine-new", "#log-new-x", "#log-new-1-2-3", "#log-new-0-0-0-1"]
        for name in foreign + own {
            try fixture.fileSystem.close(
                fixture.fileSystem.open(POSIXPath("/store/\(name)"), .writeOnly, options: [.create]))
        }
        let store = try fixture.open()
        #expect(try fixture.names() == (foreign + ["#lock", "#reserve", "#store-key-value", "log"]).sorted())
        #expect(try store.damageReports().map(\.offset) == [64])
    }

    @Test("an obstacle to creating the directory is an error with its path")
    func inTheWay() throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.close(fileSystem.open("/file", .writeOnly, options: [.create]))
        for path: POSIXPath in ["/file", "/file/store"] {
            let error = try #require(throws: KVStoreError.self) { try FileKVStore(at: path, fileSystem: fileSystem) }
            #expect(error.operation == .open)
            #expect(error.store == String(path))
        }
        let url = try #require(URL(string: "https://example.org/store"))
        #expect(throws: KVStoreError.self) { try FileKVStore(at: url) }
    }

    @Test("a value above the limit is refused and changes nothing")
    func valueLimit() throws {
        let options = FileKVStore.Options(maximumValueSizeInBytes: 100)
        let stores: [any KVRawStoring] = [
            try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem(), options: options),
            InMemoryKVStore(maximumValueSizeInBytes: 100),
        ]
        for store in stores {
            let key = KVKey<Data>("a")
            try store.set(key, value: Data(count: 90))
            for attempt in [
                { try store.set(key, value: Data(count: 101)) },
                { try store.setRawValue([UInt8](repeating: 0, count: 101), named: "a") },
            ] {
                let error = try #require(throws: KVStoreError.self) { try attempt() }
                #expect(error.code == .valueTooLarge)
                #expect(store.get(key)?.count == 90)
            }
        }
    }

    @Test("a value of exactly the limit is stored, and a longer one is refused, however it is written")
    func exactValueLimit() throws {
        let options = FileKVStore.Options(maximumValueSizeInBytes: 100)
        let stores: [any KVTransactionalStoring] = [
            try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem(), options: options),
            InMemoryKVStore(maximumValueSizeInBytes: 100),
        ]
        let key = KVKey<Data>("a")
        let overhead = try key.encode(Data(count: 90)).count - 90
        let (exact, longer) = (Data(count: 100 - overhead), Data(count: 101 - overhead))
        let writes: [(any KVTransactionalStoring, Data) throws -> Void] = [
            { try $0.set(key, value: $1) },
            { try $0.setRawValue(key.encode($1), named: "a") },
            { store, value in try store.batch { try $0.set(key, value: value) } },
        ]
        for store in stores {
            for write in writes {
                try write(store, exact)
                #expect(try store.rawValue(named: "a")?.count == 100)
                let error = #expect(throws: KVStoreError.self) { try write(store, longer) }
                #expect(error?.code == .valueTooLarge && error?.key == "a")
                #expect(store.get(key) == exact)
                try store.removeAll()
            }
        }
    }

    @Test("a list of damage that cannot be read is an error")
    func unreadableDamage() throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        fileSystem.fail(.list)
        let error = #expect(throws: KVStoreError.self) { try store.damageReports() }
        #expect(error?.code == .unavailable(.inputOutput) && error?.operation == .open && error?.store == "/store")
        fileSystem.fail(nil)
        #expect(try store.damageReports().isEmpty)
    }

    @Test("a log stays within twice its live values plus the floor, whatever is overwritten")
    func compaction() throws {
        let fixture = LogFixture()
        var options = FileKVStore.Options(compactionFloorInBytes: 10_000)
        options.compactsInBackground = false
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fixture.fileSystem, options: options)
            for index in 0..<100 { try store.set(KVKey<Int>("key \(index)"), value: index) }
            let live = try fixture.bytes().count
            var largest = 0
            for round in 0..<200 {
                for index in 0..<20 { try store.set(KVKey<Int>("key \(index)"), value: round) }
                largest = max(largest, try fixture.bytes().count)
            }
            #expect(largest < 2 * live + 10_000 + 1000)
            for index in 0..<99 { try store.remove(KVKey<Int>("key \(index)")) }
            try store.compact()
            #expect(try fixture.bytes().count < 200)
        }
        #expect(try fixture.open().integers() == ["key 99": 99])
    }

    @Test("removeAll is one record, regardless of the number of keys")
    func removeAll() throws {
        let fixture = LogFixture()
        var options = FileKVStore.Options()
        options.isMapped = false
        let store = try FileKVStore(at: "/store", fileSystem: fixture.fileSystem, options: options)
        for index in 0..<500 { try store.set(KVKey<Int>("\(index)"), value: index) }
        let before = try fixture.bytes().count
        try store.removeAll()
        #expect(try fixture.bytes().count - before == 24)
    }

    @Test("opening and closing a store without writing leaves its log unchanged")
    func idleOpening() throws {
        let fixture = LogFixture()
        try fixture.open().set(a, value: 1)
        let bytes = try fixture.bytes()
        for _ in 0..<5 { #expect(try fixture.open().get(a) == 1) }
        #expect(try fixture.bytes() == bytes)
    }

    @Test("an undecodable value is reported once")
    func undecodable() throws {
        let fixture = LogFixture()
        let recorder = IssueRecorder()
        let store = try fixture.open(recorder)
        try store.set(KVKey<String>("a"), value: "text")
        // The caller of `read` has the error.
        #expect(throws: KVStoreError.self) { try store.read(a) }
        #expect(recorder.issues.isEmpty)
        for _ in 0..<3 { #expect(store.get(a) == nil) }
        #expect(recorder.issues.count == 1)
        #expect(recorder.descriptions[0].contains("undecodable"))
        try store.set(KVKey<String>("a"), value: "other text")
        for _ in 0..<3 { #expect(store.get(a) == nil) }
        #expect(recorder.issues.count == 2)
    }

    @Test("each of many undecodable values of one key is reported")
    func undecodables() throws {
        let recorder = IssueRecorder()
        let store = try LogFixture().open(recorder)
        for number in 0..<300 {
            try store.set(KVKey<String>("a"), value: "\(number)")
            for _ in 0..<2 { #expect(store.get(a) == nil) }
        }
        #expect(recorder.issues.count == 300)
        // The revisions of values that are not read are skipped.
        for number in 0..<255 { try store.set(KVKey<String>("a"), value: "\(number)") }
        #expect(store.get(a) == nil)
        #expect(recorder.issues.count == 301)
    }

    @Test(
        "an undecodable value that is read through a layer is reported to the handler of the store that has it",
        arguments: ["defaults", "expiring", "migrating from", "migrating to"])
    func undecodableBelow(_ layer: String) throws {
        let recorder = IssueRecorder()
        let file = try LogFixture().open(recorder)
        try file.set(KVKey<String>("a"), value: "text")
        let store: any KVStoring =
            switch layer {
            case "defaults": FallbackKVStore(file, defaults: InMemoryKVStore())
            case "expiring": ExpiringKVStore(file)
            case "migrating from": MigratingKVStore(from: file, to: InMemoryKVStore())
            default: MigratingKVStore(from: InMemoryKVStore(), to: file)
            }
        for _ in 0..<2 { #expect(store.get(a) == nil) }
        #expect(recorder.issues.count == 1)
        #expect(recorder.descriptions[0].contains("undecodable"))
    }

    @Test("the issue handler may use the store")
    func reentrantHandler() throws {
        let fileSystem = InMemoryFileSystem()
        let other = InMemoryKVStore()
        let options = FileKVStore.Options(onIssue: { issue in
            do { try other.set(KVKey<String>("issue"), value: issue.description) } catch {}
            // Opening and using the same store from here must not deadlock.
            do { _ = try FileKVStore(at: "/store", fileSystem: fileSystem).keys() } catch {}
        })
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        try store.set(KVKey<String>("a"), value: "text")
        #expect(store.get(a) == nil)
        #expect(other.contains(KVKey<String>("issue")))
    }

    @Test("twenty thousand values and a large one survive reopening")
    func many() throws {
        let fixture = LogFixture()
        do {
            let store = try fixture.open()
            for index in 0..<20_000 { try store.set(KVKey<Int>("key \(index)"), value: index) }
            try store.set(KVKey<Data>("large"), value: Data(count: 3 << 20))
        }
        let store = try fixture.open()
        #expect(try store.keys().count == 20_001)
        #expect(store.get(KVKey<Int>("key 19999")) == 19_999)
        #expect(store.get(KVKey<Data>("large"))?.count == 3 << 20)
    }
}
