import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Damage and crashes in a shared store")
struct SharedDamageTests {
    private let fixture = SharedFixture()
    private let a = KVKey<Int>("a")
    private let b = KVKey<Int>("b")

    @Test("an unpublished record of a killed process is valid, and the next one follows it")
    func killedBeforeTelling() throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        let page = try fixture.bytes("#shared")
        try first.set(a, value: 2)
        // As if it had not been published.
        try fixture.overwrite("#shared", page, at: 0)
        #expect(second.get(a) == 1)
        try second.set(b, value: 3)
        #expect(second.get(a) == 2)
        #expect(try first.integers() == ["a": 2, "b": 3])
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("after a process is killed between compaction and publication, writes go to the new log")
    func killedAfterRewriting() throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        for _ in 0..<2 { try first.compact() }
        #expect(second.get(a) == 1)
        let page = try fixture.bytes("#shared")
        let length = try fixture.bytes("log").count
        try first.compact()
        // So that only the file's identity shows that it is another one.
        #expect(try fixture.bytes("log").count == length)
        try fixture.overwrite("#shared", page, at: 0)
        try second.set(b, value: 2)
        #expect(try first.integers() == ["a": 1, "b": 2])
        #expect(try fixture.open(fixture.process(3)).integers() == ["a": 1, "b": 2])
    }

    @Test(
        "the next writer truncates the torn record of a killed process", arguments: [1, 19, 27])
    func tornTail(_ size: Int) throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        let end = try fixture.bytes("log").count
        try second.set(a, value: 2)
        let record = Array(try fixture.bytes("log")[end...])
        try fixture.overwrite("log", Array(record.prefix(size)), at: Int64(end + record.count))
        #expect(first.get(a) == 2)
        try first.set(b, value: 3)
        #expect(try second.integers() == ["a": 2, "b": 3])
        #expect(try fixture.open(fixture.process(3)).integers() == ["a": 2, "b": 3])
        #expect(
            fixture.recorder.descriptions == ["the log ended in \(size) bytes of an unfinished record, now removed"])
    }

    @Test("no content of the shared page loses data, and the next write repairs it")
    func flippedBits() throws {
        let (first, second) = try fixture.pair()
        var expected: [String: Int] = [:]
        let header = TestDepth.sample(0..<800, every: 13)
        let rest = TestDepth.sample((100..<SharedPageContent.size).map { $0 * 8 + $0 % 8 }, every: 13)
        func flip(_ bit: Int) throws {
            let byte = try fixture.byte(of: "#shared", at: bit / 8)
            try fixture.overwrite("#shared", [byte ^ 1 << (bit % 8)], at: Int64(bit / 8))
        }
        for bit in header + rest {
            try flip(bit)
            let (writer, reader) = bit.isMultiple(of: 2) ? (first, second) : (second, first)
            let key = KVKey<Int>("\(bit / 8 % 5)")
            expected[key.name] = bit
            try writer.set(key, value: bit)
            try #require(reader.get(key) == bit, "bit \(bit)")
            if bit < 800 { try #require(try reader.integers() == expected, "bit \(bit)") }
        }
        // Between writes.
        for bit in header {
            try flip(bit)
            try #require(try second.integers() == expected, "bit \(bit)")
            try #require(try first.integers() == expected, "bit \(bit)")
            try #require(try fixture.open(fixture.process(3)).integers() == expected, "bit \(bit)")
        }
        #expect(try fixture.open(fixture.process(3)).integers() == expected)
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("a process removed from the page is registered again by its next write")
    func registering() throws {
        let process = fixture.process(1)
        let store = try fixture.open(process)
        try fixture.overwrite("#shared", [UInt8](repeating: 0, count: 4096), at: 0)
        try store.set(a, value: 1)
        #expect(code { _ = try fixture.open(fixture.process(2), .exclusive) } == .unavailable(.inUse(processID: 1)))
        try expectWholePage()
    }

    @Test("a process for which the page has no room keeps its writes and reports that, until a slot is free")
    func noRoom() throws {
        let store = try fixture.open(fixture.process(1))
        let others = (0..<SharedPageContent.slotCount).map { fixture.process(Int32(1_000 + $0)) }
        let slots = others.flatMap { SharedPageContent.slot(ProcessIdentity(id: $0.id, boot: 1, start: 2)) }
        try fixture.overwrite("#shared", slots, at: 64)
        try store.set(a, value: 1)
        #expect(store.get(a) == 1)
        guard case .sharing(let error) = try #require(fixture.recorder.issues.first) else {
            Issue.record("another issue")
            return
        }
        #expect((error.underlying as? FileSystemError)?.errno == .noLocks)
        fixture.kill(others[5])
        try store.set(a, value: 2)
        #expect(fixture.recorder.issues.count == 1)
        let page = SharedPageContent(try fixture.bytes("#shared"), inode: try inode())
        #expect((0..<8).map { page.process(inSlot: $0)?.id } == [1_000, 1_001, 1_002, 1_003, 1_004, 1, 1_006, 1_007])
        try expectWholePage()
    }

    @Test(
        "a page whose beginning was overwritten is repaired in place, and the store is free once it is closed",
        arguments: [0, 15, 24, 64, 68, 72])
    func repairedInPlace(_ offset: Int) throws {
        let store = try fixture.open(fixture.process(1))
        try store.set(a, value: 1)
        let byte = try fixture.byte(of: "#shared", at: offset)
        try fixture.overwrite("#shared", [~byte], at: Int64(offset))
        try store.set(a, value: 2)
        try expectWholePage()
        let page = SharedPageContent(try fixture.bytes("#shared"), inode: try inode())
        #expect((0..<SharedPageContent.slotCount).compactMap { page.process(inSlot: $0)?.id } == [1])
        #expect(page.bytes.starts(with: SharedPageContent.signature))
        try store.close()
        #expect(try fixture.open(fixture.process(2), .exclusive).get(a) == 2)
    }

    @Test("a process that repairs the page stays in its slot, and takes no slot of another one", arguments: [0, 24])
    func repairedBySecond(_ offset: Int) throws {
        func processes() throws -> [Int32] {
            let page = SharedPageContent(try fixture.bytes("#shared"), inode: try inode())
            return (0..<SharedPageContent.slotCount).compactMap { page.process(inSlot: $0)?.id }
        }
        let first = try fixture.open(fixture.process(1))
        let second = try fixture.open(fixture.process(2))
        try first.set(a, value: 1)
        let byte = try fixture.byte(of: "#shared", at: offset)
        try fixture.overwrite("#shared", [~byte], at: Int64(offset))
        try second.set(a, value: 2)
        #expect(try processes() == [1, 2])
        try second.close()
        #expect(try processes() == [1])
        #expect(first.get(a) == 2)
    }

    @Test("a page in memory of the system is repaired as well", arguments: [0, 15, 24, 64, 72])
    func repairedMapping(_ offset: Int) throws {
        let directory = TemporaryDirectory()
        let system = SystemFileSystem()
        var options = FileKVStore.Options()
        options.sharing = .shared
        let store = try FileKVStore(at: directory.url, options: options)
        try store.set(a, value: 1)
        let path = POSIXPath(directory.url.path + "/#shared")
        let before = try system.readFile(path)
        let file = try system.open(path, .writeOnly)
        try system.writeBytes([~before[offset]], to: file, at: Int64(offset))
        try system.close(file)
        try store.set(a, value: 2)
        let after = try system.readFile(path)
        // The word, and all that follows the slot, is that of the second write.
        #expect(after[..<16] == before[..<16] && after[24..<32] == before[24..<32] && after[64..<80] == before[64..<80])
        try store.close()
        #expect(try FileKVStore(at: directory.url).get(a) == 2)
    }

    @Test("the page has the layout that every process expects")
    func layout() {
        typealias Page = SharedPageContent
        #expect(Page.signature == Array("FORGESH\n".utf8) + [1, 0, 0, 0, 0, 16, 0, 0])
        let offsets = [Page.wordOffset, Page.inodeOffset, Page.replacementOffset, Page.compactorOffset]
        #expect(offsets == [16, 24, 32, 56])
        let last = [Page.observersOffset, Page.observersSize, Page.signalOffset, Page.shiftOffset]
        #expect(last == [4_048, 32, 4_080, 4_088])
        var page = Page(inode: 0x0102)
        page.put(ProcessIdentity(id: 3, boot: 4, start: 5), inSlot: 248)
        var expected = [UInt8](repeating: 0, count: 4_096)
        expected.replaceSubrange(0..<16, with: Page.signature)
        expected.replaceSubrange(24..<26, with: [2, 1])
        (expected[4_032], expected[4_036], expected[4_040]) = (3, 4, 5)
        #expect(page.bytes == expected)
        // The slot, plus 1, of the process that compacts the log.
        for (number, slot) in [(0, nil), (1, 0), (249, 248), (250, nil), (.max, nil)] as [(UInt64, Int?)] {
            var bytes: [UInt8] = []
            bytes.append(integer: number)
            expected.replaceSubrange(56..<64, with: bytes)
            #expect(Page(expected, inode: 0x0102).compactor == slot)
            if slot != nil || number == 0 { #expect(Page.compactor(slot) == bytes) }
        }
        let table = ProcessTable(own: ProcessIdentity(id: 1)) { $0.id == 3 }
        #expect(page.running(table).map(\.id) == [3] && page.running(table, without: 248).isEmpty)
        #expect(page.freeSlot(table) == 0)
        for slot in 0..<Page.slotCount { page.put(ProcessIdentity(id: 3), inSlot: slot) }
        #expect(page.freeSlot(table) == nil)
        for (slot, id) in [(9, 0), (8, -1), (7, 2)] as [(Int, Int32)] {
            page.put(ProcessIdentity(id: id), inSlot: slot)
            #expect(page.process(inSlot: slot)?.id == (id > 0 ? id : nil))
            #expect(page.freeSlot(table) == slot)
        }
    }

    @Test("the new records of a log begin after those that a process knows, or after the values")
    func starts() {
        let replacement = SharedPageContent.Replacement(newLog: 1, oldLog: 2, retainedEnd: 100, shift: 10)
        for (end, starts) in [
            (80, [100]), (90, [100]), (91, [101, 100]), (.max, [100]), (.min, [100]),
        ] as [(Int64, [Int64])] {
            #expect(replacement.starts(after: end) == starts)
        }
    }

    @Test("a page overwritten by another store's page is repaired by the next write")
    func foreignPage() throws {
        let other = try FileKVStore(
            at: "/other", fileSystem: fixture.fileSystem.process(), options: fixture.options(3))
        let store = try fixture.open(fixture.process(1))
        try withExtendedLifetime(other) {
            try fixture.overwrite("#shared", try fixture.fileSystem.readFile("/other/#shared"), at: 0)
        }
        try store.set(a, value: 1)
        try expectWholePage()
        let slots = SharedPageContent(try fixture.bytes("#shared"), inode: try inode())
        #expect((0..<SharedPageContent.slotCount).contains { slots.process(inSlot: $0)?.id == 1 })
    }

    private func inode() throws -> UInt64 { try fixture.fileSystem.status("/store/#shared").inode }

    /// Expects that a page that belongs to another file, or to none, is read as empty.
    private func expectWholePage() throws {
        let bytes = try fixture.bytes("#shared")
        #expect(SharedPageContent(bytes, inode: try inode()).bytes == bytes)
        #expect(bytes[24..<32].elementsEqual(SharedPageContent.inodeBytes(try inode())))
    }

    @Test("a page in a copied directory contains no process of the copy")
    func copiedPage() throws {
        let store = try fixture.open(fixture.process(1))
        try store.set(a, value: 1)
        try fixture.fileSystem.copyTree("/store", to: "/copy")
        let process = fixture.process(2)
        let copy = try FileKVStore(
            at: "/copy", fileSystem: process.fileSystem, options: fixture.options(2, .exclusive))
        #expect(copy.get(a) == 1)
        #expect(code { _ = try fixture.open(process, .exclusive) } == .unavailable(.inUse(processID: 1)))
    }

    @Test("a page that is garbage or too short is recreated", arguments: [0, 1, 63, 4095, 4096, 9000])
    func garbage(_ size: Int) throws {
        try fixture.fileSystem.makeDirectories("/store")
        try fixture.fileSystem.write(
            Data((0..<size).map { UInt8(truncatingIfNeeded: $0 * 7 + 3) | 0x80 }), to: URL(filePath: "/store/#shared"))
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        #expect(try fixture.bytes("#shared").starts(with: SharedPageContent.signature))
    }

    @Test("a file that does not belong to the store is not used as the shared page")
    func notAPage() throws {
        try fixture.fileSystem.makeDirectories("/store/#shared")
        #expect(code { _ = try fixture.open(fixture.process(1)) } == .unavailable(.inputOutput))
        try fixture.fileSystem.removeDirectory("/store/#shared")
        try fixture.fileSystem.write(Data(), to: URL(filePath: "/mine"))
        try fixture.fileSystem.link("/mine", to: "/store/#shared")
        #expect(code { _ = try fixture.open(fixture.process(1)) } == .unavailable(.inputOutput))
        try fixture.fileSystem.unlink("/store/#shared")
        try fixture.fileSystem.createSymbolicLink("/store/#shared", to: "/mine")
        #expect(code { _ = try fixture.open(fixture.process(1)) } == .unavailable(.inputOutput))
        #expect(code { _ = try fixture.open(fixture.process(1), .exclusive) } == .unavailable(.inputOutput))
        #expect(try fixture.fileSystem.readFile("/mine").isEmpty)
    }

    @Test("damage that a process finds when it reopens the log is set aside, and the rest is served to all")
    func damage() throws {
        let (first, second) = try fixture.pair()
        for value in 0..<20 { try first.set(KVKey<Int>("\(value)"), value: value) }
        try first.synchronize()
        try first.set(a, value: 1)
        try first.compact()
        // In the first record of the new log, which the second process has not read yet.
        try fixture.overwrite("log", [0xFF, 0xFF], at: 64 + 22)
        #expect(try second.keys().count == 20)
        #expect(fixture.recorder.damage.count == 1)
        try second.set(b, value: 2)
        #expect(try first.read(b) == 2)
        #expect(try first.integers() == second.integers())
    }

    @Test(
        "a read that cannot load remote changes throws, or returns the known value and reports that once")
    func failingReads() throws {
        let plan = FaultPlan()
        let faulting = FaultingFileSystem(fixture.fileSystem.process(), plan: plan)
        let store = try FileKVStore(at: "/store", fileSystem: faulting, options: fixture.options(1))
        let other = try fixture.open(fixture.process(2))
        try other.set(a, value: 1)
        #expect(store.get(a) == 1)
        try other.set(a, value: 2)
        plan.add(.fail(.read, name: "broken", with: .ioError))
        for _ in 0..<3 {
            #expect(store.get(a) == 1)
            #expect(store.contains(a))
            #expect(code { _ = try store.read(a) } == .unavailable(.inputOutput))
            #expect(code { _ = try store.keys() } == .unavailable(.inputOutput))
            #expect(code { _ = try store.snapshot() } == .unavailable(.inputOutput))
            #expect(code { _ = try store.entry(named: "a") } == .unavailable(.inputOutput))
            #expect(code { _ = try store.rawValue(named: "a") } == .unavailable(.inputOutput))
            #expect(code { try store.set(a, value: 3) } == .unavailable(.inputOutput))
        }
        #expect(fixture.recorder.issues.count == 1)
        #expect(fixture.recorder.descriptions.first?.hasPrefix("sharing with other processes: get \"a\"") == true)
        plan.lift("broken")
        #expect(store.get(a) == 2)
        #expect(other.get(a) == 2)
        // After a success a failure is reported again.
        try other.set(a, value: 3)
        plan.add(.fail(.read, name: "broken", with: .ioError))
        for _ in 0..<2 { #expect(store.get(a) == 2) }
        #expect(fixture.recorder.issues.count == 2)
        plan.lift("broken")
    }

    @Test("a failed flush ends the writes of one process, and the others continue")
    func poison() throws {
        let plan = FaultPlan()
        let faulting = FaultingFileSystem(fixture.fileSystem.process(), plan: plan)
        let store = try FileKVStore(at: "/store", fileSystem: faulting, options: fixture.options(1))
        let other = try fixture.open(fixture.process(2))
        try store.set(a, value: 1)
        plan.add(.fail(.synchronize, name: "broken", with: .ioError))
        #expect(code { try store.synchronize() } == .durabilityUnknown)
        plan.lift("broken")
        #expect(code { try store.set(a, value: 2) } == .unavailable(.poisoned))
        try other.set(a, value: 3)
        #expect(store.get(a) == 3)
        try other.compact()
        try other.set(a, value: 4)
        #expect(store.get(a) == 4)
        #expect(code { try store.set(a, value: 5) } == .unavailable(.poisoned))
        try other.synchronize()
    }

    // MARK: Failing calls

    /// Two processes, and their operations.
    struct Pair {
        var first: FileKVStore
        var second: FileKVStore
    }

    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let new: [String: Int]
        let run: @Sendable (Pair) throws -> Void
    }

    static let changes: [Change] = [
        Change(testDescription: "both set", new: ["a": 2, "b": 3]) { pair in
            try pair.first.batch { batch in
                try batch.set(KVKey<Int>("a"), value: 2)
                try batch.set(KVKey<Int>("b"), value: 3)
            }
            _ = try pair.second.read(KVKey<Int>("a"))
        },
        Change(testDescription: "the other compacts", new: ["a": 2, "b": 0]) { pair in
            try pair.second.compact()
            try pair.first.set(KVKey<Int>("a"), value: 2)
            try pair.first.synchronize()
        },
        Change(testDescription: "remove all", new: [:]) { pair in try pair.first.removeAll() },
    ]

    @Test("with each call failing in turn, both processes have the old state or the new", arguments: changes)
    func failingCalls(_ change: Change) throws {
        _ = fixture.process(1)
        var options = fixture.options(1)
        options.lockTimeout = .milliseconds(2)
        let start = FailingCall.testedStart(Self.changes.firstIndex { $0.testDescription == change.testDescription })
        let report = try forEachFailingCall(
            errnos: FailingCall.testedErrnos, every: FailingCall.testedStep, from: start, on: { InMemoryFileSystem() }
        ) {
            fileSystem in
            let memory = try #require(fileSystem.base as? InMemoryFileSystem)
            let second = FaultingFileSystem(memory.process(), plan: fileSystem.plan)
            return Pair(
                first: try FileKVStore(at: "/store", fileSystem: fileSystem, options: options),
                second: try FileKVStore(at: "/store", fileSystem: second, options: options))
        } prepare: { pair in
            try pair.first.set(KVKey<Int>("a"), value: 1)
            try pair.second.set(KVKey<Int>("b"), value: 0)
        } change: { pair in
            try change.run(pair)
        } verify: { pair, error in
            let state = try pair.first.integers()
            try expectOldOrNew(state, old: ["a": 1, "b": 0], new: change.new, after: error)
            #expect(try pair.second.integers() == state)
            try pair.second.set(KVKey<Int>("after"), value: 1)
            #expect(try pair.first.read(KVKey<Int>("after")) == 1)
        }
        #expect(report.runCount == report.testedRunCount(from: start))
    }
}
