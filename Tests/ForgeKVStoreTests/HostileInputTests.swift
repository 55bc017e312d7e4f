import ForgeCoding
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("A key-value store with input from other programs")
struct HostileInputTests {
    private let fileSystem = InMemoryFileSystem()
    private let key = KVKey<Int>("a")

    private func open(on directory: TemporaryDirectory, _ sharing: FileKVStore.Sharing = .exclusive) throws
        -> FileKVStore
    {
        var options = FileKVStore.Options()
        options.sharing = sharing
        return try FileKVStore(at: directory.url, options: options)
    }

    // MARK: Logs

    @Test("a log that is a hole except for one record opens without memory for the hole")
    func sparseLog() throws {
        do { try FileKVStore(at: "/store", fileSystem: fileSystem).set(key, value: 1) }
        let record = try fileSystem.status("/store/log").sizeInBytes
        try fileSystem.truncate(.path("/store/log"), to: record + (64 << 20))
        let file = try fileSystem.open("/store/log", .readOnly)
        let bytes = try fileSystem.readBytes(of: file, at: 0, count: LogHeader.size)
        guard case .valid(let header) = LogHeader.read(bytes) else {
            Issue.record("no header")
            return
        }
        let table = ValueTable()
        var writer = TableWriter(table)
        var scan = LogScan(file, size: record + (64 << 20), fileID: header.fileID, on: fileSystem)
        #expect(try scan.run(into: &writer).recordCount >= 1)
        #expect(table.view.array.count < 10_000)
    }

    @Test("a foreign file of at most the size of a header is set aside", arguments: [1, 63, 64])
    func shortForeignLog(_ size: Int) throws {
        let foreign = Array("not a log, but something of another program that somebody may miss".utf8.prefix(size))
        let directory = TemporaryDirectory()
        try FileManager.default.createDirectory(at: directory.url, withIntermediateDirectories: true)
        try Data(foreign).write(to: directory.url.appending(path: "log"))
        let store = try open(on: directory)
        try store.set(key, value: 1)
        let kept = try FileManager.default.contentsOfDirectory(at: directory.url, includingPropertiesForKeys: nil)
            .filter { $0.lastPathComponent.hasPrefix("quarantine") }
        #expect(try kept.map { Array(try Data(contentsOf: $0)) } == [foreign])
    }

    // MARK: Locks

    @Test("a file of the store with another hard link is not written to", arguments: ["#lock", "#shared"])
    func hardLink(_ name: String) throws {
        let directory = TemporaryDirectory()
        try FileManager.default.createDirectory(at: directory.url, withIntermediateDirectories: true)
        let other = directory.url.appending(path: "other")
        try Data("PRECIOUS".utf8).write(to: other)
        try FileManager.default.linkItem(at: other, to: directory.url.appending(path: name))
        #expect(throws: KVStoreError.self) { try open(on: directory, name == "#lock" ? .exclusive : .shared) }
        #expect(try Data(contentsOf: other) == Data("PRECIOUS".utf8))
    }

    @Test("a store stays locked when another program removes its lock", arguments: FileKVStore.Sharing.allCases)
    func removedLock(_ sharing: FileKVStore.Sharing) throws {
        let fixture = SharedFixture()
        let store = try fixture.open(fixture.process(1), sharing)
        try store.set(key, value: 1)
        try fixture.fileSystem.unlink("/store/#lock")
        let error = #expect(throws: KVStoreError.self) { try fixture.open(fixture.process(2), .exclusive) }
        #expect(error.map { "\($0)" }?.contains("in use") == true)
        try store.set(key, value: 2)
        #expect(try store.read(key) == 2)
    }

    // MARK: Options and limits

    @Test("an infinite polling interval is one of a day")
    func endlessInterval() throws {
        var options = FileKVStore.Options()
        options.sharing = .shared
        options.pollingInterval = Duration(secondsComponent: .max, attosecondsComponent: 0)
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        let changes = store.subscribe(to: .prefix(""))
        #expect(changes != nil)
    }

    @Test("the limit on values applies to each value of a batch")
    func batchOfLargeValues() throws {
        let options = FileKVStore.Options(maximumValueSizeInBytes: 1000)
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        let texts = (0..<4).map { KVKey<String>("text.\($0)") }
        try store.batch { batch in for text in texts { try batch.set(text, value: String(repeating: "x", count: 900)) }
        }
        #expect(try store.keys().count == 4)
        let error = #expect(throws: KVStoreError.self) {
            try store.batch { batch in try batch.set(texts[0], value: String(repeating: "x", count: 1000)) }
        }
        #expect(error?.code == .valueTooLarge)
    }

    @Test("the size limit of values is the store's, not the codec's default")
    func largeValue() throws {
        #expect(ValueTable.coder.maximumSize > FileKVStore.Options.formatLimit)
    }

    // MARK: Reading

    @Test("an integer is read as a float only if the float is exact")
    func integerAsFloat() throws {
        let store = InMemoryKVStore()
        try store.set(key, value: 1 << 24)
        #expect(try store.read(KVKey<Float>("a")) == 16_777_216)
        try store.set(key, value: 1 << 24 + 1)
        #expect(throws: KVStoreError.self) { try store.read(KVKey<Float>("a")) }
    }

    @Test("an error contains no dictionary key")
    func dictionaryKey() throws {
        let store = InMemoryKVStore()
        try store.set(KVKey<[String: String]>("a"), value: ["s3cret": "x"])
        let error = #expect(throws: KVStoreError.self) { try store.read(KVKey<[String: Int]>("a")) }
        #expect(error.map { "\($0)" }?.contains("s3cret") == false)
    }

    @Test("a date outside all calendars can be described")
    func endlessDate() {
        #expect("\(CodedValue.date(Date(timeIntervalSince1970: .infinity)))" == "date(inf)")
    }

    // MARK: Property lists

    /// A binary property list of these objects, the first of which is its root. `order` has the place of each number's
    /// object.
    private func list(_ objects: [[UInt8]], order: [Int]? = nil) -> Data {
        var bytes = Array("bplist00".utf8)
        var places: [UInt8] = []
        for object in objects {
            places.append(UInt8(bytes.count))
            bytes += object
        }
        let table = bytes.count
        let offsets = order?.map { places[$0] } ?? places
        bytes += offsets + [0, 0, 0, 0, 0, 0, 1, 1]
        for number in [offsets.count, 0, table] { bytes += withUnsafeBytes(of: UInt64(number).bigEndian) { Array($0) } }
        return Data(bytes)
    }

    @Test("a set, which property lists do not support, is refused")
    func set() {
        let data = list([[0xD1, 1, 2], [0x51, 0x61], [0xC1, 3], [0x10, 1]])
        #expect(throws: KVStoreError.self) { try KVImportSource.propertyList(data) }
    }

    @Test(
        "a list that expands exponentially or infinitely is refused", .timeLimit(.minutes(TestDepth.hangLimitInMinutes))
    )
    func growingLists() {
        let doubling = (0..<30).map { [0xA2, UInt8($0 + 3), UInt8($0 + 3)] }
        let data = list([[0xD1, 1, 2], [0x51, 0x61]] + doubling + [[0x10, 1]])
        #expect(throws: KVStoreError.self) { try KVImportSource.propertyList(data) }
        #expect(throws: KVStoreError.self) {
            try KVImportSource.propertyList(list([[0xD1, 1, 2], [0x51, 0x61], [0xA1, 2]]))
        }
    }

    @Test("a list whose many keys are the same long string is refused")
    func sharedString() {
        // 2,000 keys of 100,000 bytes each in a list of 110 KB.
        let length = 100_000
        var bytes = Array("bplist00".utf8)
        let text = bytes.count
        bytes += [0x5F, 0x12] + withUnsafeBytes(of: UInt32(length).bigEndian) { Array($0) }
        bytes += Array(repeating: 0x61, count: length)
        let number = bytes.count
        bytes += [0x10, 1]
        let root = bytes.count
        bytes += [0xDF, 0x11, 0x07, 0xD0] + Array(repeating: 0, count: 2000) + Array(repeating: 1, count: 2000)
        let table = bytes.count
        for offset in [text, number, root] { bytes += withUnsafeBytes(of: UInt32(offset).bigEndian) { Array($0) } }
        bytes += [0, 0, 0, 0, 0, 0, 4, 1]
        for number in [3, 2, table] { bytes += withUnsafeBytes(of: UInt64(number).bigEndian) { Array($0) } }
        #expect(throws: CodingFailure.self) { try BinaryPropertyList.check(Data(bytes)) }
    }

    /// What the check finds wrong with a list; nil for nothing.
    private func problem(_ data: Data) -> String? {
        do throws(CodingFailure) {
            try BinaryPropertyList.check(data)
            return nil
        } catch {
            return "\(error)"
        }
    }

    private static let malformed = "decode: corrupted: the property list is malformed"
    private static let repeating = "decode: corrupted: the property list repeats its objects too often"

    @Test("a list whose trailer or offsets do not fit it is malformed")
    func trailer() {
        let sound = list([[0xD1, 1, 2], [0x51, 0x61], [0x10, 1]])
        #expect(problem(sound) == nil)
        let (table, trailer) = (15, 18)
        // The size of an offset and of a reference, the number of objects, the root, and the table, each with its last
        // byte and its first.
        let changes: [(Int, UInt8)] = [
            (6, 0), (6, 2), (6, 9), (7, 0), (7, 9), (15, 0), (15, 4), (15, 51), (8, 0x80),
            (23, 3), (16, 0x80), (31, 16), (31, 19), (24, 0x80),
        ]
        for (offset, byte) in changes {
            var data = sound
            data[trailer + offset] = byte
            #expect(problem(data) == Self.malformed, "\(offset): \(byte)")
        }
        var data = sound
        data[table + 2] = UInt8(table)
        #expect(problem(data) == Self.malformed)
    }

    @Test("a list whose containers refer to no object, to themselves or past the end is malformed")
    func references() {
        #expect(problem(list([[0xA1, 1], [0x10, 1]])) == nil)
        for object: [UInt8] in [
            [0xA1, 1], [0xA1, 0], [0xD1, 1, 0], [0xAF, 0x10, 44], [0xAF, 0x10, 45], [0x5F, 0x10, 45], [0x07], [0x70],
        ] {
            #expect(problem(list([object])) == Self.malformed, "\(object)")
        }
    }

    @Test("a length is an integer of up to eight bytes")
    func lengths() {
        for (size, code) in [(1, 0x10), (2, 0x11), (4, 0x12), (8, 0x13), (16, 0x14), (1, 0x20)] as [(Int, UInt8)] {
            let length = [UInt8](repeating: 0, count: size - 1) + [1]
            let problem = problem(list([[0xAF, code] + length + [1], [0x10, 1]]))
            #expect(problem == (size <= 8 && code < 0x20 ? nil : Self.malformed), "\(code)")
        }
    }

    @Test("a list has up to four values for each of its bytes, and no more references than bytes")
    func limits() {
        func values(_ count: UInt8) -> Data {
            list([
                [0xAD] + [UInt8](repeating: 1, count: 13),
                [0xAF, 0x10, count] + [UInt8](repeating: 2, count: Int(count)), [0x10, 1],
            ])
        }
        // 352 values in 88 bytes, and 365 in 89.
        #expect(problem(values(26)) == nil)
        #expect(problem(values(27)) == Self.repeating)

        // Two arrays share their references.
        func references(_ count: UInt8) -> Data {
            list(
                [[0xA2, 1, 2], [0xAF, 0x10, count] + [UInt8](repeating: 3, count: Int(count)), [0x10, 1]],
                order: [0, 1, 1, 2])
        }
        // 102 references in 102 bytes, and 104 in 103.
        #expect(problem(references(50)) == nil)
        #expect(problem(references(51)) == Self.malformed)
    }

    @Test("the texts of a list have up to 64 MiB, and sixteen bytes for each of the list's")
    func textLimit() {
        /// An array of one text, many times.
        func repeated(_ count: UInt16, length: Int) -> Data {
            var bytes = Array("bplist00".utf8)
            bytes += [0x5F, 0x12] + withUnsafeBytes(of: UInt32(length).bigEndian) { Array($0) }
            bytes += [UInt8](repeating: 0x61, count: length)
            let root = bytes.count
            bytes += [0xAF, 0x11] + withUnsafeBytes(of: count.bigEndian) { Array($0) }
            bytes += [UInt8](repeating: 0, count: Int(count))
            let table = bytes.count
            for offset in [8, root] { bytes += withUnsafeBytes(of: UInt32(offset).bigEndian) { Array($0) } }
            bytes += [0, 0, 0, 0, 0, 0, 4, 1]
            for number in [2, 1, table] { bytes += withUnsafeBytes(of: UInt64(number).bigEndian) { Array($0) } }
            return Data(bytes)
        }
        #expect(repeated(304, length: 233_037).count == (304 * 233_037 - (64 << 20)) / 16)
        #expect(problem(repeated(304, length: 233_037)) == nil)
        #expect(problem(repeated(305, length: 233_037)) == Self.repeating)
    }

    @Test("a list nests up to 512 levels deep")
    func depth() throws {
        for (depth, expected) in [(512, nil), (513, "decode: more than 512 levels of nesting")] as [(Int, String?)] {
            let nested = (0..<depth).reduce("x" as Any) { value, _ in [value] }
            let data = try PropertyListSerialization.data(fromPropertyList: nested, format: .binary, options: 0)
            #expect(problem(data) == expected)
        }
    }

    @Test("a list written by Foundation is accepted")
    func soundList() throws {
        let object: [String: Any] = [
            "a": 1, "b": [1.5, "text", Data([1]), Date(timeIntervalSince1970: 0)], "c": ["d": true],
        ]
        let data = try PropertyListSerialization.data(fromPropertyList: object, format: .binary, options: 0)
        #expect(throws: Never.self) { try BinaryPropertyList.check(data) }
        #expect(try store(from: data).keys().sorted() == ["a", "b", "c"])
    }

    private func store(from data: Data) throws -> InMemoryKVStore {
        let store = InMemoryKVStore()
        try store.importValues(from: .propertyList(data))
        return store
    }
}
