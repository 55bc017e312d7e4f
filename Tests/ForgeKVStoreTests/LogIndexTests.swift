import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("An index of a log") struct LogIndexTests {
    private let memory = InMemoryFileSystem()

    private func index() throws -> KVLogIndex { KVLogIndex(of: "store", in: try ConfinedDirectory("/", on: memory)) }

    private func open(sharing: FileKVStore.Sharing = .exclusive) throws -> FileKVStore {
        try FileKVStore(at: "/store", fileSystem: memory, options: .init(sharing: sharing))
    }

    private func contents(_ index: inout KVLogIndex) throws -> [String: [UInt8]] {
        var contents: [String: [UInt8]] = [:]
        for number in index.names() {
            let entry = try #require(index.entry(numbered: number))
            contents[entry.name] = try index.bytes(of: entry, limit: .max)
        }
        return contents
    }

    private func expectSame(_ index: inout KVLogIndex, as store: FileKVStore) throws {
        let snapshot = try store.snapshot()
        let expected = Dictionary(uniqueKeysWithValues: snapshot.map { ($0.name, $0.entry.bytes) })
        #expect(try contents(&index) == expected)
        for (name, entry) in snapshot { #expect(index.entry(named: name)?.revision == entry.revision) }
        #expect(index.count == snapshot.count)
    }

    @Test("has the names, revisions and values of the store, and follows its changes")
    func follows() throws {
        let store = try open()
        for number in 0..<50 { try store.set(KVKey<Int>("key/\(number)"), value: number) }
        var index = try index()
        #expect(index.version == 0 && index.revision == 0 && index.count == 0)
        #expect(try index.refresh().isEmpty)
        #expect(index.version == 1 && index.revision == 50)
        try expectSame(&index, as: store)
        try store.set(KVKey<String>("key/7"), value: "seven")
        try store.remove(KVKey<Int>("key/8"))
        try store.batch { batch in
            try batch.set(KVKey<Int>("new"), value: 1)
            batch.remove(KVKey<Int>("key/9"))
        }
        let changes = try index.refresh()
        #expect(changes.map(\.operation) == [.set, .remove, .set, .remove])
        #expect(changes.map(\.name) == ["key/7", "key/8", "new", "key/9"])
        #expect(changes.map(\.revision) == [51, 52, 53, 54])
        try expectSame(&index, as: store)
        #expect(try index.refresh().isEmpty)
        #expect(index.version == 2 && index.revision == 54)
    }

    @Test("follows compaction and reports only what has changed")
    func compaction() throws {
        let store = try open()
        for number in 0..<20 { try store.set(KVKey<Int>("key\(number % 4)"), value: number) }
        var index = try index()
        _ = try index.refresh()
        try store.compact()
        try store.set(KVKey<Int>("key1"), value: 100)
        try store.remove(KVKey<Int>("key2"))
        let changes = try index.refresh()
        #expect(Set(changes.map { "\($0.operation) \($0.name ?? "")" }) == ["set key1", "remove key2"])
        try expectSame(&index, as: store)
    }

    @Test("reports the differences to another store that takes the place, whatever its revisions are")
    func otherStore() throws {
        let store = try open()
        try store.set(KVKey<Int>("value"), value: 1)
        try store.set(KVKey<Int>("same"), value: 2)
        try store.set(KVKey<Int>("gone"), value: 3)
        try store.set(KVKey<String>("size"), value: "short")
        try store.set(KVKey<Int>("revision"), value: 5)
        var index = try index()
        _ = try index.refresh()
        try store.close()
        let other = try FileKVStore(at: "/other", fileSystem: memory)
        try other.set(KVKey<Int>("value"), value: 7)
        try other.set(KVKey<Int>("same"), value: 2)
        try other.set(KVKey<Int>("revision"), value: 5)
        try other.set(KVKey<String>("size"), value: "no longer short")
        try other.close()
        try memory.rename("/other/log", to: "/store/log")
        let changes = try index.refresh()
        #expect(changes.map(\.operation) == [.remove, .set, .set, .set])
        #expect(changes.map(\.name) == ["gone", "value", "revision", "size"])
        #expect(changes.dropFirst().map(\.revision) == [1, 3, 4])
        #expect(try index.refresh().isEmpty)
        try expectSame(&index, as: try open())
    }

    @Test("reports the differences to an earlier state of the log that is copied over it")
    func earlierState() throws {
        let store = try open()
        try store.set(KVKey<Int>("a"), value: 1)
        try store.set(KVKey<Int>("b"), value: 2)
        try store.close()
        let earlier = try memory.readFile("/store/log")
        let later = try open()
        try later.set(KVKey<Int>("a"), value: 3)
        try later.set(KVKey<Int>("c"), value: 4)
        try later.close()
        var index = try index()
        _ = try index.refresh()
        let size = try memory.readFile("/store/log").count
        // As long as before: the log of a store that is open ends with reserved space.
        try write(earlier + [UInt8](repeating: 0, count: size - earlier.count), at: 0)
        let changes = try index.refresh()
        #expect(changes.map { "\($0.operation) \($0.name ?? "") \($0.revision)" } == ["remove c 3", "set a 1"])
        #expect(try contents(&index).keys.sorted() == ["a", "b"])
        #expect(try index.refresh().isEmpty)
    }

    @Test("follows the removal of all records, in place on a full device")
    func removeAllInPlace() throws {
        let full = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 1 << 17)))
        let store = try FileKVStore(
            at: "/store", fileSystem: full, options: IssueRecorder().options(compactionFloorInBytes: 1 << 30))
        func fill(_ prefix: String) {
            do {
                for number in 0..<10_000 { try store.set(KVKey<Int>("\(prefix)\(number)"), value: number) }
            } catch {}  // The device is full.
        }
        fill("key")
        var index = KVLogIndex(of: "store", in: try ConfinedDirectory("/", on: full))
        _ = try index.refresh()
        #expect(index.count > 50)
        try store.removeAll()
        fill("new")
        _ = try index.refresh()
        try expectSame(&index, as: store)
    }

    @Test("follows the removal of all records")
    func removeAll() throws {
        let store = try open()
        for number in 0..<20 { try store.set(KVKey<Int>("key\(number)"), value: number) }
        var index = try index()
        _ = try index.refresh()
        try store.removeAll()
        // As long as before.
        for number in 0..<40 { try store.set(KVKey<Int>("other\(number)"), value: number) }
        _ = try index.refresh()
        try expectSame(&index, as: store)
    }

    @Test("leaves out a damaged record, like the store")
    func damage() throws {
        var store: FileKVStore? = try open()
        for number in 0..<20 { try store?.set(KVKey<Int>("key\(number)"), value: number) }
        try store?.close()
        store = nil
        let position = Int64(LogHeader.size + 5 * LogRecord.size(nameCount: 4, valueSize: 3) + 25)
        let file = try memory.open("/store/log", .readWrite)
        let byte = try memory.readBytes(of: file, at: position, count: 1)
        try memory.writeBytes([byte[0] ^ 1], to: file, at: position)
        try memory.close(file)
        var index = try index()
        _ = try index.refresh()
        let map = try #require(index.map(sectionCount: 16))
        #expect(map.damage.count == 1)
        #expect(map.sections.contains { $0.isDamaged })
        let damaged = try FileKVStore(
            at: "/store", fileSystem: memory, options: IssueRecorder().options(access: .readOnly))
        try expectSame(&index, as: damaged)
        #expect(index.count == 19)
    }

    @Test("takes no lock and changes nothing")
    func readsOnly() throws {
        let store = try open()
        try store.set(KVKey<Int>("key"), value: 1)
        let (before, names) = (try memory.readFile("/store/log"), try names())
        var index = try index()
        _ = try index.refresh()
        _ = index.names()
        #expect(try memory.readFile("/store/log") == before)
        #expect(try self.names() == names)
        try store.set(KVKey<Int>("key"), value: 2)
        #expect(try index.refresh().count == 1)
    }

    private func names() throws(FileSystemError) -> [String] {
        try memory.withDirectory("/store") { (directory) throws(FileSystemError) in
            try memory.entries(of: directory).map { String($0.name) }
        }.sorted()
    }

    @Test("throws for a missing store, a damaged log and a log of a later version")
    func failures() throws {
        var index = try index()
        #expect { try index.refresh() } throws: { ($0 as? KVStoreError)?.code == .noStore }
        try open().close()
        var header = Array(try memory.readFile("/store/log").prefix(LogHeader.size))
        try write([UInt8](repeating: 7, count: 64), at: 0)
        #expect { try index.refresh() } throws: { ($0 as? KVStoreError)?.code == .damaged }
        header.replace(at: 8, integer: UInt32(2))
        var checksum = CRC32C()
        checksum.update(header.span, 0..<60)
        header.replace(at: 60, integer: checksum.value)
        try write(header, at: 0)
        var other = try self.index()
        #expect { try other.refresh() } throws: { ($0 as? KVStoreError)?.code == .unknownFormat(version: 2) }
    }

    private func write(_ bytes: [UInt8], at offset: Int64) throws {
        let file = try memory.open("/store/log", .readWrite)
        defer { memory.discard(file) }
        try memory.writeBytes(bytes, to: file, at: offset)
    }

    // MARK: The map

    /// Creates a closed log of three records of 31, 35 and 40 bytes, the last for the name of the first, and the marker
    /// of closing: 194 bytes.
    private func makeSmallLog() throws {
        let store = try open()
        for (name, size) in [("a", 6), ("b", 10), ("a", 15)] {
            try store.setRawValue([UInt8](repeating: 7, count: size), named: name)
        }
        try store.close()
    }

    /// The used and the current bytes of each section of the map, 1 if it is damaged.
    private func sections(_ index: KVLogIndex, _ count: Int) throws -> [[Int64]] {
        try #require(index.map(sectionCount: count)).sections.map {
            [$0.usedBytes, $0.currentBytes, $0.isDamaged ? 1 : 0]
        }
    }

    private func records(_ index: KVLogIndex, from position: Int = 0, limit: Int = 10) -> [String] {
        index.records(from: position, limit: limit).map { "\($0.offset) \($0.sizeInBytes) \($0.operation)" }
    }

    @Test("has a map of sections of equal size, and a list of records")
    func soundMap() throws {
        var index = try index()
        #expect(index.map(sectionCount: 3) == nil && index.records(from: 0, limit: 10).isEmpty)
        try makeSmallLog()
        _ = try index.refresh()
        #expect(try sections(index, 3) == [[1, 0, 0], [65, 35, 0], [64, 40, 0]])
        #expect(try sections(index, 1) == [[130, 75, 0]])
        let used = try sections(index, 194).map { $0[0] }
        #expect(used == Array(repeating: 0, count: 64) + Array(repeating: 1, count: 130))
        let map = try #require(index.map(sectionCount: 3))
        #expect(map.sectionSize == 65 && map.sizeInBytes == 194 && map.end == 194)
        #expect(map.recordCount == 4 && map.currentBytes == 75)
        #expect(map.damage == [] && map.tail == nil && !map.isHeaderDamaged)
        let all = ["64 31 set", "95 35 set", "130 40 set", "170 24 flushed"]
        #expect(records(index) == all)
        #expect(records(index, from: 1, limit: 2) == Array(all[1...2]))
        #expect(records(index, from: 3, limit: 1) == [all[3]])
        #expect(records(index, from: 4) == [] && records(index, from: -1) == [])
    }

    @Test("shows damage, and bytes that are no record, in the sections in which they are")
    func damagedMap() throws {
        try makeSmallLog()
        // The last byte of the second record.
        try write([8], at: 129)
        var index = try index()
        _ = try index.refresh()
        #expect(try sections(index, 3) == [[1, 0, 0], [65, 0, 1], [64, 40, 0]])
        #expect(index.map(sectionCount: 3)?.damage == [95..<130])
        #expect(records(index) == ["64 31 set", "130 40 set", "170 24 flushed"])
        // Sections of 66 bytes.
        try write([7], at: 129)
        try write([1, 2, 3], at: 194)
        var torn = try self.index()
        _ = try torn.refresh()
        #expect(try sections(torn, 3) == [[2, 0, 0], [66, 37, 0], [62, 38, 1]])
        #expect(torn.map(sectionCount: 3)?.tail == 194..<197)
        #expect(torn.map(sectionCount: 3)?.sizeInBytes == 197)
        // The header, of which one copy of the identifier is left.
        try write([try memory.readFile("/store/log")[16] ^ 1], at: 16)
        var broken = try self.index()
        _ = try broken.refresh()
        #expect(broken.map(sectionCount: 3)?.isHeaderDamaged == true)
        #expect(broken.count == 2)
    }

    @Test("reads the beginning of a value up to a limit, and nothing of a value that the log has lost")
    func beginning() throws {
        try makeSmallLog()
        var index = try index()
        _ = try index.refresh()
        let entry = try #require(index.entry(named: "a"))
        #expect(entry.sizeInBytes == 15 && entry.revision == 3)
        #expect(try index.bytes(of: entry, limit: 2) == [7, 7])
        #expect(try index.bytes(of: entry, limit: 16) == [UInt8](repeating: 7, count: 15))
        let file = try memory.open("/store/log", .readWrite)
        try memory.truncate(.descriptor(file), to: 169)
        try memory.close(file)
        #expect(try index.bytes(of: entry, limit: 14) == [UInt8](repeating: 7, count: 14))
        #expect(try index.bytes(of: entry, limit: 15) == nil)
    }
}

@Suite("The lists of an index") struct LogIndexListTests {
    private var index: KVLogIndex

    init() throws {
        let memory = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: memory)
        for name in ["b", "a/x", "a/y/z", "a/y", "a", "é/1", "ab", "c/"] {
            try store.set(KVKey<String>(name), value: String(repeating: "-", count: name.utf8.count * 10))
        }
        index = KVLogIndex(of: "store", in: try ConfinedDirectory("/", on: memory))
        _ = try index.refresh()
        try store.remove(KVKey<String>("b"))
        try store.set(KVKey<String>("aa"), value: "")
        _ = index.names()  // From here on, the order follows the changes.
        _ = try index.refresh()
    }

    private func names(_ numbers: [Int32]) -> [String] { numbers.compactMap { index.entry(numbered: $0)?.name } }

    @Test("are in the order of the names' bytes")
    mutating func byName() {
        #expect(names(index.names()) == ["a", "a/x", "a/y", "a/y/z", "aa", "ab", "c/", "é/1"])
        #expect(names(index.names(prefix: "a/")) == ["a/x", "a/y", "a/y/z"])
        #expect(names(index.names(prefix: "é")) == ["é/1"])
        #expect(index.names(prefix: "zz").isEmpty)
    }

    @Test("contain the names with a text")
    mutating func search() {
        #expect(names(index.names(containing: "y")) == ["a/y", "a/y/z"])
        #expect(names(index.names(containing: "/1")) == ["é/1"])
        #expect(index.names(containing: "missing").isEmpty)
    }

    @Test("contain a text that begins at any place of a name, but none that continues in the next name")
    func searchAtAnyPlace() throws {
        let memory = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: memory)
        for name in ["aab", "xa", "b", "ab", "aaxb"] { try store.set(KVKey<Int>(name), value: 1) }
        var index = KVLogIndex(of: "store", in: try ConfinedDirectory("/", on: memory))
        _ = try index.refresh()
        func found(_ prefix: String, _ text: String) -> [String] {
            index.names(prefix: prefix, containing: text).compactMap { index.entry(numbered: $0)?.name }
        }
        #expect(found("", "ab") == ["aab", "ab"])
        #expect(found("", "axb") == ["aaxb"])
        #expect(found("a", "b") == ["aab", "aaxb", "ab"])
        #expect(found("", "a") == ["aab", "aaxb", "ab", "xa"])
        #expect(found("aa", "ab") == ["aab"])
    }

    @Test("begin with the largest value, by size")
    mutating func bySize() {
        #expect(names(index.names(by: .size)) == ["a/y/z", "é/1", "a/x", "a/y", "ab", "c/", "a", "aa"])
    }

    @Test("show one level of the tree of a delimiter")
    mutating func levels() {
        #expect(lines("") == ["a", "a/ 3", "aa", "ab", "c/ 1", "é/ 1"])
        #expect(lines("a/") == ["a/x", "a/y", "a/y/ 1"])
        #expect(lines("c/") == ["c/"])
    }

    private mutating func lines(_ prefix: String) -> [String] {
        index.level(below: prefix, delimiter: "/").map { line in
            switch line {
            case .name(let number): names([number])[0]
            case .group(let first, let count):
                (names([first])[0].dropFirst(prefix.count).firstIndex(of: "/").map { String(names([first])[0][...$0]) }
                    ?? "?") + " \(count)"
            }
        }
    }
}
