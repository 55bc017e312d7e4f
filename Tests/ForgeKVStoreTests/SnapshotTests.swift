import ForgeStorageTesting
import TestDepth
import Testing

@testable import ForgeKVStore

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
