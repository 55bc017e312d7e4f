import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("A list of a table that is collected beside its writer")
struct TableScanTests {
    /// A change between two pieces.
    typealias Change = @Sendable (inout TableWriter) -> Void

    private static func name(_ number: Int) -> KeyName { KeyName("name \(number)") }

    private static func cell(_ number: Int, revision: Int) -> EncodedCell {
        EncodedCell([UInt8(truncatingIfNeeded: number)], revision: UInt64(revision))
    }

    /// All that a writer does to a table, with revisions that say nothing, as those of a remote store.
    private static let changes: [(String, Change)] = [
        ("replaces", { for number in 0..<3_000 { $0.store(cell(number + 7, revision: 5), name(number)) } }),
        ("removes", { for number in 0..<3_000 { $0.remove(name(number)) } }),
        ("removes all", { $0.removeAll() }),
        ("adds", { for number in 3_000..<9_000 { $0.store(cell(number, revision: 5), name(number)) } }),
        (
            "removes all and stores again",
            {
                $0.removeAll()
                for number in 0..<4_000 { $0.store(cell(number + 9, revision: 5), name(number)) }
            }
        ),
        (
            "removes and adds until entries are used again",
            {
                for round in 0..<5 {
                    for number in 0..<3_000 { $0.remove(name(number)) }
                    for number in 0..<6_000 { $0.store(cell(round, revision: 5), name(number + 3_000 * round)) }
                    _ = $0.collectGarbage()
                }
            }
        ),
    ]

    @Test(
        "is that of the moment when it began, whatever the writer does between two pieces",
        arguments: TestDepth.pairs(Array(0..<6), [1, 3, 2, 4]))
    func oneMoment(_ change: Int, _ piece: Int) {
        let table = ValueTable()
        var writer = TableWriter(table)
        var expected: [String: [UInt8]] = [:]
        for number in 0..<3_000 {
            writer.store(Self.cell(number, revision: 5), Self.name(number))
            expected[Self.name(number).string] = [UInt8(truncatingIfNeeded: number)]
        }
        for number in 100..<200 {
            writer.remove(Self.name(number))
            expected[Self.name(number).string] = nil
        }
        for withValues in [true, false] {
            var pieces = 0
            let scan = TableScan.collect(withValues: withValues) { body in
                pieces += 1
                if pieces > 1, (pieces - 1).isMultiple(of: piece), pieces < 12 {
                    Self.changes[change].1(&writer)
                }
                return body(&writer)
            }
            if withValues { #expect(pieces >= 2) }
            #expect(scan.names.sorted() == expected.keys.sorted(), "\(Self.changes[change].0)")
            guard withValues else { continue }
            let snapshot = scan.takeSnapshot()
            #expect(snapshot.count == expected.count)
            for (name, bytes) in expected { #expect(snapshot[name]?.bytes == bytes) }
            // The next one begins with the table as it is now.
            expected = [:]
            for (name, cell) in writer.contents { expected[name.string] = cell.bytes }
        }
    }

    @Test("comes in slices, each name once and in the order of the bytes", arguments: [1, 7, 100, 1_500, 5_000])
    func slices(limit: Int) throws {
        let store = try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem(options: .init(seed: 1)))
        let count = limit == 1 ? 30 : 2_000
        try store.batch { batch in
            for number in 0..<count { try batch.set(KVKey<Int>("\(number % 7)/\(number)"), value: number) }
            for name in ["e\u{301}", "\u{e9}", "", "\u{600}", "\u{10ffff}"] {
                try batch.set(KVKey<Int>(name), value: 0)
            }
        }
        var listed: [String] = []
        repeat {
            let names = try store.names(after: listed.last, limit: limit)
            #expect(names.count == min(limit, count + 5 - listed.count))
            listed += names
        } while listed.count < count + 5
        #expect(try store.names(after: listed.last, limit: limit).isEmpty)
        let expected = try store.keys().map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
        #expect(listed.map { Array($0.utf8) } == expected)
    }

    @Test("of a slice is that of the moment when it began", arguments: TestDepth.pairs(Array(0..<6), [1, 2, 3, 4]))
    func sliceBesideWriter(change: Int, piece: Int) {
        var table = TableWriter(ValueTable())
        for number in 0..<3_000 { table.store(Self.cell(number, revision: number + 1), Self.name(number)) }
        let all = (0..<3_000).map { Self.name($0).string }.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        var pieces = 0
        let scan = TableScan.collect(withValues: false, slice: NameSlice(after: all[99], limit: 200)) { look in
            pieces += 1
            if pieces == piece + 1 { Self.changes[change].1(&table) }
            return look(&table)
        }
        #expect(scan.sortedNames == Array(all[100..<300]))
    }

    @Test("is one state between two batches, in each kind of store", arguments: 0..<3)
    func betweenBatches(_ kind: Int) throws {
        let store: any KVTransactionalStoring
        switch kind {
        case 0: store = InMemoryKVStore()
        case 1: store = try LogFixture().open()
        default:
            let fixture = SharedFixture()
            store = try fixture.open(fixture.process(1))
        }
        let names = (0..<1_000).map { "\($0)" }
        let isDone = Flag()
        try store.batch { batch in for name in names { try batch.set(KVKey<Int>(name), value: 0) } }
        let group = DispatchGroup()
        group.enter()
        Thread.detachNewThread {
            defer { group.leave() }
            var round = 0
            while !isDone.isSet {
                round += 1
                let value = round
                do {
                    try store.batch { batch in
                        for name in names { try batch.set(KVKey<Int>(name), value: value) }
                        if value.isMultiple(of: 2) {
                            try batch.set(KVKey<Int>("even"), value: value)
                        } else {
                            batch.remove(KVKey<Int>("even"))
                        }
                    }
                } catch { Issue.record(error) }
            }
        }
        var seen: Set<Int> = []
        var lists = 0
        while lists < TestDepth.limit(20, deep: 2_000) || seen.count < 2 {
            lists += 1
            let snapshot = try store.snapshot()
            let value = try #require(try snapshot.read(KVKey<Int>("0")))
            seen.insert(value)
            let others = try names.filter { try snapshot.read(KVKey<Int>($0)) != value }
            try #require(others.isEmpty)
            let isEven = value > 0 && value.isMultiple(of: 2)
            try #require(try snapshot.read(KVKey<Int>("even")) == (isEven ? value : nil))
            try #require(snapshot.count == names.count + (isEven ? 1 : 0))
            try #require(Set(try store.keys()).isSuperset(of: names))
        }
        isDone.set()
        group.wait()
    }
}

@Suite("Names in a table")
struct TableNameTests {
    /// A name for every length up to 40 bytes, and names that differ from it in one byte.
    private static let names = (0...40).flatMap { length -> [String] in
        let plain = [UInt8](repeating: UInt8(ascii: "a"), count: length)
        let others = plain.indices.map { index in
            var other = plain
            other[index] = UInt8(ascii: "b")
            return other
        }
        return ([plain] + others).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("of every length that differ in a single byte are distinct keys")
    func oneByte() throws {
        let fileSystem = InMemoryFileSystem()
        func check(_ store: FileKVStore) throws {
            for (number, name) in Self.names.enumerated() {
                #expect(store.get(KVKey<Int>(name)) == number, "\(name)")
            }
            #expect(Set(try store.keys()) == Set(Self.names))
            #expect(store.get(KVKey<Int>(String(repeating: "c", count: 24))) == nil)
        }
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            for (number, name) in Self.names.enumerated() { try store.set(KVKey(name), value: number) }
            try check(store)
            try store.compact()
            try check(store)
        }
        try check(try FileKVStore(at: "/store", fileSystem: fileSystem))
    }

    @Test("are distinguished by their bytes")
    func comparison() {
        for name in Self.names {
            let bytes = Array(name.utf8) + [UInt8](repeating: 0, count: 8)
            bytes.withUnsafeBytes { bytes in
                guard let address = bytes.baseAddress else { return }
                for other in Self.names where other.utf8.count == name.utf8.count {
                    #expect(KeyName(other).isEqual(to: address, count: name.utf8.count) == (other == name))
                }
            }
        }
    }

    @Test("are equal and keep their bytes, whether they are long or short")
    func bytes() {
        for name in Self.names {
            let keyName = KeyName(name)
            #expect(keyName == KeyName(String(decoding: Array(name.utf8), as: UTF8.self)))
            #expect(keyName.withBytes { Array($0) } == Array(name.utf8))
        }
        #expect(Set(Self.names.map { KeyName($0) }).count == Self.names.count)
    }
}

@Suite("A snapshot")
struct SnapshotTests {
    /// Entries of which many have a name that others have too, in order.
    private func entries(_ count: Int, seed: UInt64) -> [(name: String, entry: KVEntry)] {
        var random = SplitMix64(seed: seed)
        return (0..<count).map { number in
            let length = [0, 1, 7, 8, 9, 24, 25, 1_024, 3_000].randomElement(using: &random) ?? 0
            let letter = ["a", "é", "e\u{301}", "\0"].randomElement(using: &random) ?? ""
            let size = [0, 1, 100, 1_024, 1_025, 5_000].randomElement(using: &random) ?? 0
            return (
                String(repeating: letter, count: length) + "\(Int.random(in: 0..<count / 3, using: &random))",
                KVEntry(
                    bytes: Array(repeating: UInt8(truncatingIfNeeded: number), count: size), revision: UInt64(number))
            )
        }
    }

    @Test("has the last entry of each name, however it is read", arguments: TestDepth.seeds([1, 2], random: 20))
    func lastEntries(seed: UInt64) {
        let entries = entries(3_000, seed: seed)
        var expected: [[UInt8]: KVEntry] = [:]
        for (name, entry) in entries { expected[Array(name.utf8)] = entry }
        let snapshot = KVSnapshot(entries)
        #expect(snapshot.count == expected.count && !snapshot.isEmpty)
        for (name, _) in entries { #expect(snapshot[name] == expected[Array(name.utf8)], "seed \(seed)") }
        #expect(Set(snapshot.names.map { Array($0.utf8) }) == Set(expected.keys))
        #expect(snapshot.names.count == expected.count)
        var found: [[UInt8]: KVEntry] = [:]
        for (name, entry) in snapshot {
            #expect(found.updateValue(entry, forKey: Array(name.utf8)) == nil, "seed \(seed)")
        }
        #expect(found == expected)
        #expect(snapshot["absent"] == nil)
    }

    @Test("of nothing has no names")
    func empty() {
        let snapshot = KVSnapshot([])
        #expect(snapshot.isEmpty && snapshot.names.isEmpty && snapshot[""] == nil)
        var iterator = snapshot.makeIterator()
        #expect(iterator.next() == nil)
    }

    @Test("has a name longer than a block of its memory, between short ones")
    func longName() {
        let names = ["a", String(repeating: "b", count: 3 << 20), "c"]
        let snapshot = KVSnapshot(names.map { ($0, KVEntry(bytes: [UInt8($0.utf8.first ?? 0)], revision: 1)) })
        for name in names { #expect(snapshot[name]?.bytes == [UInt8(name.utf8.first ?? 0)]) }
        #expect(snapshot.map(\.name) == names)
    }
}

@Suite("What a table has given up")
struct TableReclamationTests {
    private static let name = KeyName("a")

    private let table = ValueTable()

    /// Stores a value of one kilobyte that only the table and this reference refer to.
    private func store(in writer: inout TableWriter) -> Weak {
        let cell = EncodedCell([UInt8](repeating: 7, count: 1024), revision: 1)
        writer.store(cell, Self.name)
        return Weak(cell)
    }

    private final class Weak {
        weak var cell: EncodedCell?

        init(_ cell: EncodedCell) { self.cell = cell }
    }

    /// Retires memory and collects it, in so many rounds at most, while a value is kept; returns whether it is then.
    private func isKept(_ value: Weak, by writer: inout TableWriter, rounds: Int = 10_000) -> Bool {
        for _ in 0..<rounds where value.cell != nil {
            writer.removeAll()
            _ = writer.collectGarbage()
            // Readers of other tables, which share the grace periods, go on.
            sched_yield()
        }
        return value.cell != nil
    }

    @Test("is freed, whichever change has given it up")
    func changes() {
        let changes: [(inout TableWriter) -> Void] = [
            { $0.store(EncodedCell([1], revision: 2), Self.name) }, { $0.remove(Self.name) }, { $0.removeAll() },
        ]
        for change in changes {
            var writer = TableWriter(ValueTable())
            let value = store(in: &writer)
            #expect(value.cell != nil)
            change(&writer)
            let isKept = isKept(value, by: &writer)
            #expect(!isKept)
        }
        func storeInOther() -> Weak {
            var writer = TableWriter(ValueTable())
            return store(in: &writer)
        }
        #expect(storeInOther().cell == nil)
    }

    @Test("is kept until every reader has left that may have found it")
    func reader() {
        var writer = TableWriter(table)
        let value = store(in: &writer)
        let section = table.view.domain.enter()
        writer.remove(Self.name)
        let isKeptInside = isKept(value, by: &writer, rounds: 5)
        section.leave()
        let isKeptAfterwards = isKept(value, by: &writer)
        #expect(isKeptInside && !isKeptAfterwards)
    }

    @Test("is collected once it is 512 values or a mebibyte")
    func amount() {
        let contents: [(Int) -> EntryContent] = [
            { EntryContent(EncodedCell([1], revision: UInt64($0))) },
            { EntryContent("text", revision: UInt64($0), encodedSize: 7) },
        ]
        for content in contents {
            var writer = TableWriter(ValueTable())
            var due: [Int] = []
            for number in 0...512 {
                if writer.hasGarbage { due.append(number) }
                writer.store(content(number), Self.name, in: writer.entry(of: Self.name))
            }
            // The first one has replaced none.
            if writer.hasGarbage { due.append(513) }
            #expect(due == [513])
        }
        let large = [
            EntryContent(EncodedCell([UInt8](repeating: 0, count: 1 << 20), revision: 1)),
            EntryContent("text", revision: 1, encodedSize: 1 << 20),
        ]
        for content in large {
            var writer = TableWriter(ValueTable())
            writer.store(content, Self.name, in: nil)
            writer.remove(Self.name)
            let isDue = writer.hasGarbage
            _ = writer.collectGarbage()
            let isStillDue = writer.hasGarbage
            #expect(isDue && !isStillDue)
        }
    }

    /// Whether no thread stays inside a section, as seen by a writer.
    private func isLeft() -> Bool {
        guard var period = GracePeriod.begin() else { return true }
        for _ in 0..<1_000_000 {
            if period.isOver() { return true }
            sched_yield()
        }
        return false
    }

    @Test("can be freed after each read, whatever it finds")
    func reads() throws {
        var writer = TableWriter(table)
        let key = KVKey<Int>("a")
        let bytes = try key.encode(5)
        let source = EncodedCell(try KVKey<[Int]>("a").encode([5]), revision: 1)
        let changes: [(inout TableWriter) -> Void] = [
            { _ in }, { $0.store(EncodedCell(bytes, revision: 1), Self.name) },
            { $0.store(EntryContent(5, revision: 2, encodedSize: 3), Self.name, in: $0.entry(of: Self.name)) },
            { $0.store(EntryContent("text", revision: 3, encodedSize: 7), Self.name, in: $0.entry(of: Self.name)) },
            { $0.store(TypedCell([5], from: source, KVKey<[Int]>("a")), Self.name) },
            { $0.store(bytes, revision: 4, named: "a") }, { $0.remove(Self.name) },
        ]
        let view = table.view
        let reads: [() throws -> Void] = [
            { _ = try view.value(of: key) }, { _ = try view.value(of: KVKey<String>("a")) },
            { _ = try view.value(of: KVKey<[Int]>("a")) }, { _ = try view.cell(of: Self.name) },
            { _ = view.report(1, of: Self.name) },
        ]
        for (number, change) in changes.enumerated() {
            change(&writer)
            for (place, read) in reads.enumerated() {
                do { try read() } catch is TableView.Interruption {}
                try #require(isLeft(), "content \(number), read \(place)")
            }
        }
    }
}
