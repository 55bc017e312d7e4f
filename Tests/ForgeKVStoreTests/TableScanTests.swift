import Dispatch
import ForgeFileSystem
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

    @Test("is that of the moment when it began, whatever the writer does between two pieces", arguments: 0..<6, 1...4)
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
            for name in names { try #require(try snapshot.read(KVKey<Int>(name)) == value) }
            let isEven = value > 0 && value.isMultiple(of: 2)
            try #require(try snapshot.read(KVKey<Int>("even")) == (isEven ? value : nil))
            try #require(snapshot.count == names.count + (isEven ? 1 : 0))
            try #require(Set(try store.keys()).isSuperset(of: names))
        }
        isDone.set()
        group.wait()
    }
}
