import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Opening by the stored index") struct IndexTests {
    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()

    private func open(
        on fileSystem: (any POSIXFileSystem)? = nil, compactionFloorInBytes: Int = 1 << 20, usesIndex: Bool = true
    ) throws -> FileKVStore {
        var options = recorder.options(compactionFloorInBytes: compactionFloorInBytes)
        options.indexedFromBytes = 1
        options.usesIndex = usesIndex
        options.reserveLittle()
        return try FileKVStore(at: "/store", fileSystem: fileSystem ?? self.fileSystem, options: options)
    }

    private func key(_ number: Int) -> KVKey<Int> { KVKey("key.\(number)") }

    private func fill(_ count: Int) throws {
        let store = try open()
        for number in 0..<count { try store.set(key(number), value: number) }
    }

    @Test("a store is opened without its log being read, and a value is read with two calls")
    func constantTime() throws {
        try fill(1000)
        let counted = FaultingFileSystem(fileSystem)
        let store = try open(on: counted)
        // The header of the log, that of the index, and the record that closing appended.
        #expect(reads(counted) == [64, 4096, 24])
        #expect(store.get(key(500)) == 500)
        #expect(reads(counted) == [4096, 512], "a block of the index and the record")
        #expect(store.get(key(500)) == 500)
        #expect(store.get(key(1000)) == nil)
        #expect(reads(counted) == [4096], "what was found is not read again, and what is not there costs a block")
    }

    /// How long the reads were since the last call.
    private func reads(_ fileSystem: FaultingFileSystem) -> [Int] {
        defer { fileSystem.log.removeAll() }
        return fileSystem.log.records.filter { $0.operation == .read }.compactMap(\.transferredCount)
    }

    @Test(
        "a store opened by its index equals one that replayed its log",
        arguments: TestDepth.seeds(Array(0..<UInt64(TestDepth.limit(6, deep: 40))), random: 5))
    func sameAsTheLog(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var expected: [String: Int] = [:]
        for _ in 0..<12 {
            let store = try open(compactionFloorInBytes: Int.random(in: 200...20_000, using: &random))
            for _ in 0..<Int.random(in: 0...60, using: &random) {
                let name = "key.\(Int.random(in: 0..<40, using: &random))"
                let value = Int.random(in: 0..<1000, using: &random)
                switch Int.random(in: 0..<20, using: &random) {
                case 0..<9:
                    try store.set(KVKey<Int>(name), value: value)
                    expected[name] = value
                case 9..<12:
                    try store.remove(KVKey<Int>(name))
                    expected[name] = nil
                case 12:
                    try store.batch { batch in
                        for number in 0..<value % 90 { try batch.set(KVKey<Int>("key.\(number)"), value: value) }
                        batch.remove(KVKey<Int>(name))
                    }
                    for number in 0..<value % 90 { expected["key.\(number)"] = value }
                    expected[name] = nil
                case 13:
                    #expect(try store.update(KVKey<Int>(name), default: 0) { $0 += 1 } == (expected[name] ?? 0) + 1)
                    expected[name, default: 0] += 1
                case 14: #expect(Set(try store.keys()) == Set(expected.keys))
                case 15 where value < 200:
                    try store.removeAll()
                    expected = [:]
                case 16: #expect(store.contains(KVKey<Int>(name)) == (expected[name] != nil))
                case 17: #expect(try store.snapshot().read(KVKey<Int>(name)) == expected[name])
                default: #expect(store.get(KVKey<Int>(name)) == expected[name])
                }
            }
        }
        let indexed = try open()
        for name in (0..<91).map({ "key.\($0)" }) { #expect(indexed.get(KVKey<Int>(name)) == expected[name]) }
        #expect(try indexed.integers() == expected)
        #expect(recorder.issues.isEmpty)
    }

    @Test("revisions are the same by the index as by the log")
    func revisions() throws {
        try fill(50)
        do {
            let store = try open()
            try store.batch { batch in
                for number in 10..<20 { try batch.set(key(number), value: -number) }
            }
        }
        let byIndex = try (0..<50).map { try #require(try open().entry(named: "key.\($0)")) }
        let store = try open(usesIndex: false)
        #expect(try (0..<50).map { try #require(try store.entry(named: "key.\($0)")) } == byIndex)
    }

    @Test("whichever bit of the index flips, every value is right")
    func bitFlips() throws {
        try fill(30)
        let index = try fileSystem.readFile("/store/index")
        let log = try fileSystem.readFile("/store/log")
        // Behind the entries of the one block everything is zero, and so is most of the header.
        let bytes = Array(0..<90) + [4000, 4092, 4095] + Array(4096..<4096 + 16 + 30 * 16) + [8000, 8191]
        for bit in TestDepth.sample(bytes.flatMap { byte in (0..<8).map { byte * 8 + $0 } }, every: 13) {
            var flipped = index
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            try replace("index", flipped)
            try replace("log", log)
            let store = try open()
            #expect(store.get(key(7)) == 7, "bit \(bit)")
            #expect(store.get(key(30)) == nil, "bit \(bit)")
            #expect(try store.keys().count == 30, "bit \(bit)")
        }
        #expect(recorder.issues.isEmpty)
    }

    @Test("a record that is damaged is found when it is read: it is set aside, and everything else is served")
    func lazyDamage() throws {
        try fill(30)
        let log = try fileSystem.readFile("/store/log")
        let place = try #require(log.firstRange(of: Array("key.7".utf8))?.lowerBound)
        var damaged = log
        damaged[place + 2] ^= 1
        try replace("log", damaged)
        do {
            let store = try open()
            #expect(store.get(key(8)) == 8)
            #expect(recorder.issues.isEmpty)
            #expect(store.get(key(7)) == nil)
            #expect(recorder.damage.map(\.kind) == [.records])
            let report = try #require(recorder.damage.first)
            #expect(report.offset <= Int64(place) && report.offset + report.sizeInBytes > Int64(place))
            #expect(try fileSystem.readFile(POSIXPath(report.file)).count == Int(report.sizeInBytes))
            for number in 0..<30 where number != 7 { #expect(store.get(key(number)) == number) }
            try store.set(key(7), value: 70)
        }
        let store = try open()
        #expect(try store.keys().count == 30)
        #expect(store.get(key(7)) == 70)
        #expect(recorder.issues.count == 1)
    }

    @Test("an unreadable value is unavailable and cannot be overwritten")
    func unreadable() throws {
        try fill(30)
        let failing = FailingFileSystem(fileSystem)
        do {
            let store = try open(on: failing)
            failing.fail(.read, .ioError)
            #expect(throws: KVStoreError.self) { try store.read(key(3)) }
            #expect(store.get(key(3)) == nil)
            #expect(!store.contains(key(3)))
            #expect(throws: KVStoreError.self) { try store.set(key(3), value: 4) }
            #expect(throws: KVStoreError.self) { try store.keys() }
            #expect(throws: KVStoreError.self) { try store.compact() }
            #expect(
                recorder.descriptions.allSatisfy { $0.hasPrefix("unavailable: ") } && recorder.issues.count == 2,
                "\(recorder.descriptions)")
            failing.fail(nil)
            #expect(store.get(key(3)) == 3)
            try store.set(key(3), value: 5)
        }
        let store = try open()
        #expect(store.get(key(3)) == 5)
        #expect(try store.keys().count == 30)
    }

    @Test("an index of another log, or of a log that is shorter now, is no index")
    func foreign() throws {
        try fill(30)
        let index = try fileSystem.readFile("/store/index")
        do {
            let store = try open()
            for number in 0..<30 { try store.set(key(number), value: -number) }
            try store.compact()
        }
        try replace("index", index)
        #expect(try open().get(key(9)) == -9)
        fileSystem.reset()
        try fill(3)
        try replace("index", index)
        #expect(try open().integers() == ["key.0": 0, "key.1": 1, "key.2": 2])
        #expect(recorder.issues.isEmpty)
    }

    @Test("names with equal hashes and full blocks are handled")
    func collisions() throws {
        // Every name in one block of an index that was made for few.
        let header = LogIndexHeader(
            fileID: LogFileID { 1 }, seed: .init(first: 1, second: 2), end: 4096, sequence: 1, liveBytes: 0,
            blockCount: 1)
        let entries = (0..<600).map { LogIndexBlock.Entry(hash: UInt64($0 / 2), offset: Int64($0)) }
        let bytes = LogIndexBlocks(entries, header).flatMap { $0 }
        try replace("index", header.encoded() + bytes)
        try fileSystem.withDirectory("/store") { directory throws(FileSystemError) in
            let index = LogIndex.open(at: directory, of: header.fileID, logSize: 4096, on: fileSystem)
            do throws(LogIndex.Unreliable) {
                #expect(try index?.entries().sorted { $0.offset < $1.offset } == entries)
                #expect(try index?.offsets(hash: 299) == [599, 598])
                #expect(try index?.offsets(hash: 0) == [1, 0])
                #expect(try index?.offsets(hash: 400) == [])
            } catch {
                Issue.record("the index is unreliable")
            }
        }
    }

    private func replace(_ name: POSIXPath, _ bytes: [UInt8]) throws {
        try fileSystem.makeDirectories("/store")
        try fileSystem.withDirectory("/store") { directory throws(FileSystemError) in
            try fileSystem.replaceFile(
                name, at: directory, .replacing, permissions: .ownerReadWrite, durability: .none
            ) { descriptor throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: descriptor) }
        }
    }
}
