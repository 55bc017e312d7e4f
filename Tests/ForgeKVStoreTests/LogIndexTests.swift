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
        #expect(try index.refresh().isEmpty)
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

    @Test("throws for a missing store and for a log of a later version")
    func failures() throws {
        var index = try index()
        #expect { try index.refresh() } throws: { ($0 as? KVStoreError)?.code == .noStore }
        try open().close()
        let file = try memory.open("/store/log", .readWrite)
        try memory.writeBytes([UInt8](repeating: 7, count: 64), to: file, at: 0)
        try memory.close(file)
        #expect { try index.refresh() } throws: { ($0 as? KVStoreError)?.code == .damaged }
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
