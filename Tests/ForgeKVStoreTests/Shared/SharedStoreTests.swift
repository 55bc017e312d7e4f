import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A store that several processes share")
struct SharedStoreTests {
    private let fixture = SharedFixture()
    private let a = KVKey<Int>("a")
    private let b = KVKey<String>("b")

    @Test("a log that replaces the open one is a file with a valid header, and without a second name")
    func replacement() throws {
        let memory = InMemoryFileSystem()
        let options = IssueRecorder().options()
        try FileKVStore(at: "/store", fileSystem: memory, options: options).close()
        let handle = try StoreHandle(reading: "/store", on: memory, options: options)
        let openDescriptors = memory.openDescriptors
        func isFound() throws -> Bool {
            let found = try LogOpening.openReplacement(of: handle)
            return found != nil
        }
        #expect(try isFound())
        try memory.link("/store/log", to: "/second")
        #expect(try !isFound())
        try memory.unlink("/second")
        #expect(try isFound())
        let file = try memory.open("/store/log", .writeOnly)
        try memory.writeBytes([0], to: file, at: 0)
        try memory.close(file)
        #expect(try !isFound())
        try memory.unlink("/store/log")
        #expect(try !isFound())
        #expect(memory.openDescriptors == openDescriptors)
    }

    @Test("every call finds writes of the other process")
    func visibility() throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        try first.set(a, value: 2)
        #expect(try second.read(a) == 2)
        try first.set(b, value: "x")
        #expect(second.contains(b))
        try first.remove(a)
        #expect(try second.keys() == ["b"])
        try first.set(a, value: 3)
        #expect(try second.rawValue(named: "a") == first.rawValue(named: "a"))
        try first.set(a, value: 4)
        #expect(try second.entry(named: "a") == first.entry(named: "a"))
        try first.setRawValue(try #require(try first.rawValue(named: "a")), named: "c")
        #expect(try second.snapshot().names.sorted() == ["a", "b", "c"])
        try first.batch { batch in
            try batch.set(a, value: 5)
            batch.remove(b)
            for name in ["d", "e"] { try batch.set(KVKey<Int>(name), value: 6) }
        }
        #expect(second.get(a) == 5 && !second.contains(b))
        // Each change of a batch has a revision.
        for name in ["a", "d", "e"] { #expect(try second.entry(named: name) == first.entry(named: name)) }
        try first.removeAll()
        #expect(try second.keys().isEmpty)
        try second.set(a, value: 6)
        #expect(first.get(a) == 6)
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("changes of both are in one order, with the same revisions, and persist")
    func order() throws {
        do {
            let (first, second) = try fixture.pair()
            for value in 0..<100 {
                try (value.isMultiple(of: 3) ? first : second).set(KVKey<Int>("\(value % 7)"), value: value)
            }
            let expected = try first.snapshot().sorted { $0.name < $1.name }.map(\.entry)
            #expect(try second.snapshot().sorted { $0.name < $1.name }.map(\.entry) == expected)
            #expect(Set(expected.map(\.revision)) == Set(94...100))
        }
        #expect(try fixture.open(fixture.process(3)).integers().count == 7)
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("a change whose requirement no longer holds is refused, whichever process changed it")
    func conflicts() throws {
        let (first, second) = try fixture.pair()
        #expect(try first.createIfAbsent(a, value: 1))
        #expect(try !second.createIfAbsent(a, value: 2))
        let revision = try #require(try second.versioned(a)?.revision)
        #expect(try first.compareAndSet(a, revision: revision, value: 3))
        #expect(try !second.compareAndSet(a, revision: revision, value: 4))
        #expect(try second.update(a, default: 0) { $0 += 1 } == 4)
        var requirement = KVBatch()
        requirement.require("a", revision: revision)
        #expect(code { try first.commit(requirement) } == .conflict)
        #expect(try first.read(a) == 4)
    }

    @Test("concurrent updates of several processes and threads are all applied")
    func updates() async throws {
        let stores = try (1...3).map { try fixture.open(fixture.process($0), compactionFloorInBytes: 2000) }
        for store in stores { #expect(store.get(a) == nil) }
        await withTaskGroup(of: Void.self) { group in
            for store in stores + stores {
                group.addTask { [a] in
                    for _ in 0..<100 {
                        // A turn may exceed the fixture's lock timeout on a busy machine.
                        while code({ try store.update(a, default: 0) { $0 += 1 } }) != nil {}
                    }
                }
            }
        }
        for store in stores { #expect(try store.read(a) == 600) }
    }

    @Test("a log compacted by another process is adopted without a gap")
    func compactedByAnotherProcess() throws {
        let (first, second) = try fixture.pair()
        let kept = (0..<50).map { KVKey<Int>("kept \($0)") }
        for (index, key) in kept.enumerated() { try first.set(key, value: index) }
        for key in kept { #expect(second.contains(key)) }
        let isDone = Flag()
        let missing = Counter()
        let readers = DispatchGroup()
        // One of them adopts the log while the other continues reading.
        for _ in 0..<2 {
            DispatchQueue.global().async(group: readers) {
                while !isDone.isSet {
                    for (index, key) in kept.enumerated() where second.get(key) != index { _ = missing.next() }
                }
            }
        }
        for value in 0..<60 {
            while code({ try first.set(a, value: value) }) != nil {}
            while code({ try first.compact() }) != nil {}
            if value.isMultiple(of: 5) { while code({ try first.remove(a) }) != nil {} }
        }
        isDone.set()
        readers.wait()
        #expect(missing.next() == 1)
        #expect(second.get(a) == 59)
        try first.remove(a)
        try first.compact()
        #expect(!second.contains(a))
        try second.set(a, value: 100)
        #expect(first.get(a) == 100)
        #expect(try first.integers() == second.integers())
        #expect(try first.snapshot().count == 51)
    }

    private func isMissing(_ name: KeyName, in table: ValueTable) -> Bool {
        do throws(TableView.Interruption) {
            return try table.view.cell(of: name) == nil
        } catch {
            return false
        }
    }

    @Test("a table that is updated to a log never lacks a key that is in both")
    func replacing() {
        let table = ValueTable()
        var writer = TableWriter(table)
        let names = (0..<50).map { KeyName("\($0)") }
        for (index, name) in names.enumerated() { writer.store(EncodedCell([], revision: UInt64(index + 1)), name) }
        let contents = writer.contents
        let hub = ChangeHub()
        let isDone = Flag()
        let missing = Counter()
        let readers = DispatchGroup()
        DispatchQueue.global().async(group: readers) {
            while !isDone.isSet { for name in names where isMissing(name, in: table) { _ = missing.next() } }
        }
        for round in 0..<500 {
            var remoteChanges = RemoteChanges()
            let extra = (name: KeyName("extra"), cell: EncodedCell([], revision: UInt64(100 + round)) as ValueCell)
            remoteChanges.apply(round.isMultiple(of: 2) ? contents + [extra] : contents, to: &writer, reportingTo: hub)
            remoteChanges.collect(from: &writer)
            #expect(writer.count == (round.isMultiple(of: 2) ? 51 : 50))
        }
        isDone.set()
        readers.wait()
        #expect(missing.next() == 1)
    }

    @Test("a table that is updated to a log reports what differs, and nothing else")
    func reportedDifferences() async {
        let table = ValueTable()
        var writer = TableWriter(table)
        for (index, name) in ["same", "changed", "gone"].enumerated() {
            writer.store(EncodedCell([UInt8(index)], revision: UInt64(index + 1)), KeyName(name))
        }
        let hub = ChangeHub()
        let subscription = hub.subscribe(to: .prefix([]))
        let contents: [(name: KeyName, cell: ValueCell)] = [
            (KeyName("same"), EncodedCell([0], revision: 1)), (KeyName("changed"), EncodedCell([7], revision: 9)),
            (KeyName("new"), EncodedCell([8], revision: 10)),
        ]
        var remoteChanges = RemoteChanges()
        remoteChanges.apply(contents, to: &writer, reportingTo: hub)
        remoteChanges.collect(from: &writer)
        let names = Set(writer.names.lazy.map(KeyName.init))
        #expect(names == Set(["same", "changed", "new"].map { KeyName($0) }))
        hub.wake()
        let expected = [
            ChangeHub.Change(KeyName("changed"), [7], 9), ChangeHub.Change(KeyName("new"), [8], 10),
            ChangeHub.Change(KeyName("gone"), nil, 0),
        ]
        #expect(await subscription.next() == .changes(expected))
    }

    @Test("unchanged values keep their revision, and are not decoded again, when the log is compacted")
    func untouched() throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        try first.set(b, value: "x")
        let revision = try second.versioned(b)?.revision
        try first.set(a, value: 2)
        try first.compact()
        #expect(try second.versioned(b)?.revision == revision)
        #expect(try second.compareAndSet(b, revision: revision, value: "y"))
        #expect(first.get(b) == "y")
    }

    @Test("the write that makes compaction worthwhile compacts the log, which stays small for all")
    func compaction() throws {
        let (first, second) = try fixture.pair(compactionFloorInBytes: 2000)
        var largest = 0
        for value in 0..<500 {
            try (value.isMultiple(of: 2) ? first : second).set(a, value: value)
            largest = max(largest, try fixture.bytes("log").count)
        }
        #expect(largest < 2300)
        #expect(first.get(a) == 499 && second.get(a) == 499)
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("a shared store on disk is mapped and shows another object's writes")
    func onDisk() throws {
        let directory = TemporaryDirectory()
        var options = FileKVStore.Options()
        options.sharing = .shared
        let store = try FileKVStore(at: directory.url, options: options)
        try store.set(a, value: 1)
        let same = try FileKVStore(at: directory.url, options: options)
        #expect(same.get(a) == 1)
        let size = try SystemFileSystem().status(POSIXPath(directory.url.path + "/#shared"))
        #expect(size.sizeInBytes == 4096 && size.permissions == .ownerReadWrite)
    }

    @Test("a shared store conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func conformance(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        var options = FileKVStore.Options(compactionFloorInBytes: 1000)
        options.sharing = .shared
        let directory = TemporaryDirectory()
        try await check.run(on: FileKVStore(at: directory.url, options: options))
        try await check.run(on: FileKVStore(at: "/other", fileSystem: fixture.fileSystem, options: options))
        let process = fixture.process(1)
        var patient = fixture.options(process.id)
        // Threads of a check wait for one another, on a busy machine longer than 20 milliseconds.
        patient.lockTimeout = .seconds(60)
        try await check.run(
            on: ReactiveKVStore(FileKVStore(at: fixture.path, fileSystem: process.fileSystem, options: patient)))
    }

    @Test("a shared store keeps its values", arguments: ConformanceChecks.transactionalKeyValueStorePersistence)
    func persistence(_ check: ConformanceCheck<KeyValueStoreLocation<any KVTransactionalStoring>>) async throws {
        let process = fixture.process(1)
        // Opened by two processes in turn, and by one exclusively.
        let turn = Counter()
        try await check.run(
            on: KeyValueStoreLocation { [fixture] in
                let number = turn.next()
                return try fixture.open(process, number.isMultiple(of: 2) ? .shared : .exclusive)
            })
    }

    @Test("an undecodable value is set aside before it is overwritten")
    func settingAside() throws {
        let (first, second) = try fixture.pair()
        try first.set(b, value: "text")
        try second.set(KVKey<Int>("b"), value: 1)
        #expect(try first.damageReports().map(\.key) == ["b"])
        #expect(first.get(KVKey<Int>("b")) == 1)
        #expect(fixture.recorder.damage.count == 1)
    }
}
