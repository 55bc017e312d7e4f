import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing
@testable import ForgeKVStore

/// A log of which a part was replaced by older bytes, or forged.
@Suite("A log that was altered between two openings") struct AlteredLogTests {
    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()

    private func open(on fileSystem: (any POSIXFileSystem)? = nil) throws -> FileKVStore {
        var options = recorder.options()
        options.reserveLittle()
        return try FileKVStore(at: "/store", fileSystem: fileSystem ?? self.fileSystem, options: options)
    }

    private func key(_ number: Int) -> KVKey<Int> { KVKey("key.\(number)") }

    private func fill(_ numbers: Range<Int>) throws {
        let store = try open()
        for number in numbers { try store.set(key(number), value: number) }
    }

    private func log() throws -> [UInt8] { try fileSystem.readFile("/store/log") }

    private func replace(_ name: POSIXPath, _ bytes: [UInt8]) throws {
        try fileSystem.withDirectory("/store") { directory throws(FileSystemError) in
            try fileSystem.replaceFile(
                name, at: directory, .replacing, permissions: .privateFile, durability: .none
            ) { descriptor throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: descriptor) }
        }
    }

    /// The ranges of the records in a log.
    private func records(_ log: [UInt8]) -> [Range<Int>] {
        var records: [Range<Int>] = []
        var offset = LogHeader.size
        while offset < log.count {
            let size = LogRecord.frameSize + LogRecord.frame(log.span.extracting(offset..<log.count)).payloadSize
            records.append(offset..<offset + size)
            offset += size
        }
        return records
    }

    /// Values whose bytes resemble the beginnings of records.
    private enum Deceptive: String, CaseIterable {
        case samples, smallNumbers, largeNumbers, pairs, frames

        func bytes(_ count: Int) -> [UInt8] {
            let unit = unit(count)
            return (0..<count / unit.count).flatMap { number in
                var bytes = unit
                bytes[0] &+= UInt8(truncatingIfNeeded: number)
                return self == .frames ? unit : bytes
            }
        }

        private func unit(_ count: Int) -> [UInt8] {
            switch self {
            case .samples: return [0, 0]
            case .smallNumbers: return [0, 0, 0, 0]
            case .largeNumbers: return [0, 1, 0, 0, 0, 0, 0, 0]
            case .pairs: return [1, 0]
            case .frames:
                // A set with an empty name whose frame claims half of the value as its payload.
                let size = [0, UInt8(count >> 9 & 0xFF), UInt8(count >> 17 & 0xFF), 0]
                let sequence: [UInt8] = [9, 0, 0, 0, 0, 0, 0, 0]
                return size + sequence + [UInt8](repeating: 0, count: 8) + [1, 0, 0, 0]
            }
        }
    }

    private func writeDeceptive(_ value: [UInt8]) throws {
        let store = try open()
        try store.set(key(0), value: 0)
        try store.setRawValue(value, named: "deceptive")
        for number in 1...6 { try store.set(key(number), value: number) }
        try store.synchronize()
        try store.set(key(7), value: 7)
    }

    /// Flips a bit of the length of the second record.
    private func damageLength(_ byte: Int) throws {
        var log = try log()
        log[records(log)[1].lowerBound + byte] ^= 1
        try replace(.logName, log)
    }

    @Test(
        "a flipped bit in a length loses only that record, whatever the value contains",
        arguments: Deceptive.allCases, [0, 1])
    private func deceptiveValue(_ value: Deceptive, byte: Int) throws {
        try writeDeceptive(value.bytes(1 << 16))
        try damageLength(byte)
        let store = try open()
        for number in 0...7 { #expect(try store.read(key(number)) == number, "\(number)") }
        #expect(try store.damageReports().map(\.kind) == [.records])
    }

    @Test("if the search for intact records is abandoned, everything after the damage is set aside and reported")
    func hopelessSearch() throws {
        try writeDeceptive(Deceptive.frames.bytes(1 << 20))
        try damageLength(0)
        let size = try log().count
        let inspection = try KVInspection(of: URL(fileURLWithPath: "/store"), fileSystem: fileSystem)
        #expect(inspection?.problems.count == 1)
        let store = try open()
        #expect(try store.keys() == ["key.0"])
        let report = try #require(try store.damageReports().first)
        #expect(report.kind == .tail)
        #expect(report.sizeInBytes == Int64(size) - report.offset)
        #expect(recorder.damage.map(\.kind) == [.tail])
    }

    @Test("a truncated log loses no later write")
    func shorterLog() throws {
        try fill(0..<30)
        let full = try log()
        try replace(.logName, Array(full[..<records(full)[10].lowerBound]))
        do {
            let store = try open()
            #expect(try store.keys().count == 10)
            try store.set(KVKey<String>("long"), value: String(repeating: "x", count: 2000))
            try store.set(key(100), value: 100)
        }
        let store = try open()
        #expect(try store.keys().count == 12)
        #expect(store.get(KVKey<String>("long"))?.utf8.count == 2000)
        #expect(store.get(key(100)) == 100)
        #expect(store.get(key(20)) == nil)
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }

    @Test("a batch is applied completely or not at all")
    func batchWithUnknownChange() throws {
        do {
            let store = try open()
            try store.batch { batch in for number in 0..<100 { try batch.set(key(number), value: number) } }
            try store.set(key(100), value: 100)
        }
        var bytes = try log()
        let batch = records(bytes)[0]
        let last = LogRecord.batchPrefixSize + "key.99".utf8.count + (try ValueTable.encode(99, for: key(99))).count
        let checksum = LogFileID(bytes[16..<32]).checksum
        bytes.withUnsafeMutableBytes { bytes in
            bytes[batch.upperBound - last] = LogRecord.Code.flushed.rawValue
            LogRecord.addChecksum(
                UnsafeMutableRawBufferPointer(rebasing: bytes[batch]), unflushedCount: 0, checksum: checksum)
        }
        try replace(.logName, bytes)
        let store = try open()
        #expect(try store.keys().filter { $0 != key(100).name } == [])
        #expect(recorder.issues.count == 1, "\(recorder.descriptions)")
    }

    @Test("batches of any size are read again with their revisions")
    func batchesOfAllSizes() throws {
        var expected: [String: KVEntry?] = [:]
        do {
            let store = try open()
            var batches = 0
            for count in [1, 31, 32, 33, 20_000, 7] {
                batches += 1
                try store.batch { batch in
                    for number in 0..<count {
                        try batch.set(KVKey("key.\(number)"), value: String(repeating: "\(batches)", count: 40))
                    }
                    if count > 7 { batch.remove(key(count - 1)) }
                }
            }
            for name in try store.keys() { expected[name] = try store.entry(named: name) }
        }
        #expect(try log().count > 1 << 20)
        let store = try open()
        for (name, entry) in expected { #expect(try store.entry(named: name) == entry) }
        #expect(try store.keys().count == expected.count)
        #expect(expected.count == 19_999)
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }

    @Test("a batch with a sequence number below zero is not a record")
    func batchBelowZero() throws {
        do {
            let store = try open()
            try store.set(key(0), value: 0)
            try store.batch { batch in for number in 1..<5 { try batch.set(key(number), value: number) } }
            try store.set(key(9), value: 9)
        }
        var bytes = try log()
        let batch = records(bytes)[1]
        let checksum = LogFileID(bytes[16..<32]).checksum
        bytes.withUnsafeMutableBytes { bytes in
            let record = UnsafeMutableRawBufferPointer(rebasing: bytes[batch])
            record.store(UInt64(2), at: 4)
            LogRecord.addChecksum(record, unflushedCount: 1, checksum: checksum)
        }
        try replace(.logName, bytes)
        let store = try open()
        #expect(store.get(key(1)) == nil)
        #expect(store.get(key(0)) == 0)
        #expect(store.get(key(9)) == 9)
        #expect(recorder.damage.map(\.kind) == [.records])
        #expect(recorder.damage.map(\.offset) == [Int64(batch.lowerBound)])
    }
}

/// Logs that another program has extended by a hole.
@Suite("A sparse log")
struct SparseLogTests {
    private let memory = InMemoryFileSystem()
    private let key = KVKey<Int>("a")
    private static let size: Int64 = 1 << 40

    /// A file system that fails if more is read than a sparse log contains.
    private func limited() -> InterceptedFileSystem<InMemoryFileSystem> {
        let reads = Atomic(0)
        return InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .read else { return }
            if reads.wrappingAdd(1, ordering: .relaxed).newValue > 100 { throw FileSystemError(.read, .ioError) }
        }
    }

    private func open(_ access: FileKVStore.Access = .readWrite) throws -> FileKVStore {
        var options = FileKVStore.Options()
        options.access = access
        return try FileKVStore(at: "/store", fileSystem: limited(), options: options)
    }

    @Test("opens in time proportional to its data, not its holes")
    func opening() throws {
        do { try FileKVStore(at: "/store", fileSystem: memory).set(key, value: 1) }
        try memory.truncate(.path("/store/log"), to: Self.size)
        #expect(try open(.readOnly).read(key) == 1)
        #expect(try KVInspection(of: URL(filePath: "/store"), fileSystem: limited())?.problems == [])
        do {
            let store = try open()
            #expect(try store.read(key) == 1)
            try store.set(key, value: 2)
        }
        #expect(try open().read(key) == 2)
        #expect(try memory.status("/store/log").sizeInBytes < Self.size)
    }

    @Test("is set aside if only the beginning of a header remains")
    func beginningOfHeader() throws {
        try memory.createDirectory("/store")
        let file = try memory.open("/store/log", .writeOnly, options: [.create])
        try memory.writeBytes(Array("FORGEKV\n".utf8), to: file)
        try memory.truncate(.descriptor(file), to: Self.size)
        try memory.close(file)
        let problems = try KVInspection(of: URL(filePath: "/store"), fileSystem: limited())?.problems
        #expect(problems == ["the header of the log is damaged"])
        let store = try open()
        #expect(try store.keys().isEmpty)
        #expect(try store.damageReports().map(\.kind) == [.log])
    }

    @Test("is read to the last data after holes")
    func dataBehindHoles() throws {
        let file = try memory.open("/log", .readWrite, options: [.create])
        let offsets: [Int64] = [0, 5 << 20, (1 << 30) + 1, 1 << 39]
        for offset in offsets { try memory.writeBytes([1], to: file, at: offset) }
        try memory.truncate(.descriptor(file), to: Self.size)
        var reader = LogReader(file, size: Self.size, on: limited())
        #expect(try reader.contentEnd(from: 0) == 1 << 39 + 1)
        #expect(try reader.contentEnd(from: 1 << 39 + 1) == 1 << 39 + 1)
    }

    @Test("is read to the end on a file system that does not report holes")
    func withoutHoles() throws {
        let file = try memory.open("/log", .readWrite, options: [.create])
        for offset in [0, 5 << 20] as [Int64] { try memory.writeBytes([1], to: file, at: offset) }
        try memory.truncate(.descriptor(file), to: 8 << 20)
        let unaware = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .seek { throw FileSystemError(.seek, .invalidArgument) }
        }
        var reader = LogReader(file, size: 8 << 20, on: unaware)
        #expect(try reader.contentEnd(from: 0) == 5 << 20 + 1)
    }

    @Test("ends with the last byte that is not zero, at any place of any number of bytes")
    func lastByte() {
        for count in 0...100 {
            #expect([UInt8](repeating: 0, count: count).span.lastNonZeroIndex == nil)
            for index in 0..<count {
                var bytes = [UInt8](repeating: 0, count: count)
                bytes[0] = 1
                bytes[index] = 0x80
                #expect(bytes.span.lastNonZeroIndex == index, "of \(count)")
            }
        }
    }

    @Test("on the disk opens at once", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func onDisk() throws {
        let directory = TemporaryDirectory()
        do { try FileKVStore(at: directory.url).set(key, value: 1) }
        let log = try POSIXPath(directory.url).appending("log")
        do {
            try SystemFileSystem().truncate(.path(log), to: Self.size)
        } catch  where error.errno == .fileTooLarge {
            return  // The file system does not support this size.
        }
        #expect(try FileKVStore(at: directory.url).read(key) == 1)
    }
}

@Suite("A log with a second hard link, as in a backup made of hard links")
struct LinkedLogTests {
    private let memory = InMemoryFileSystem()
    private let key = KVKey<Int>("a")

    private func open(_ access: FileKVStore.Access) throws -> FileKVStore {
        var options = FileKVStore.Options()
        options.access = access
        return try FileKVStore(at: "/backup", fileSystem: memory, options: options)
    }

    init() throws {
        do { try FileKVStore(at: "/store", fileSystem: memory).set(key, value: 1) }
        try memory.createDirectory("/backup")
        try memory.link("/store/log", to: "/backup/log")
    }

    @Test("is read")
    func reading() throws {
        #expect(try open(.readOnly).read(key) == 1)
        let inspection = try #require(try KVInspection(of: URL(filePath: "/backup"), fileSystem: memory))
        #expect(inspection.keyCount == 1)
        #expect(inspection.problems.isEmpty)
    }

    @Test("is not written to")
    func writing() throws {
        let log = try memory.readFile("/store/log")
        let error = #expect(throws: KVStoreError.self) { try open(.readWrite) }
        #expect((error?.underlying as? FileSystemError)?.errno == .tooManyLinks)
        #expect(try memory.readFile("/store/log") == log)
    }
}

/// Copies as left by backups and synchronisation tools: files of two histories of one store side by side.
@Suite("A diverged copy of a store") struct DivergedCopyTests {
    private let fileSystem = InMemoryFileSystem()

    private func open(_ path: POSIXPath) throws -> FileKVStore {
        var options = IssueRecorder().options()
        options.reserveLittle()
        // A shared store has additional files beside its log.
        options.sharing = .shared
        return try FileKVStore(at: path, fileSystem: fileSystem, options: options)
    }

    private func copy(_ name: POSIXPath, from source: POSIXPath, to target: POSIXPath) throws {
        let bytes = try fileSystem.readFile(source.appending(name))
        let file = try fileSystem.open(
            target.appending(name), .writeOnly, options: [.create, .truncate], permissions: .privateFile)
        try fileSystem.closing(file) { () throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: file) }
    }

    @Test("has the content of its log, whatever other files of the original are beside it")
    func foreignFiles() throws {
        do {
            let store = try open("/a")
            for number in 0..<100 { try store.set(KVKey<Int>("common.\(1000 + number)"), value: number) }
        }
        try fileSystem.makeDirectories("/b")
        try copy("log", from: "/a", to: "/b")
        for (path, name) in [("/a", "original"), ("/b", "diverged")] as [(POSIXPath, String)] {
            let store = try open(path)
            for number in 0..<2500 { try store.set(KVKey<Int>("\(name).\(1000 + number)"), value: number) }
        }
        let entries = try fileSystem.withDirectory("/a") { directory throws(FileSystemError) in
            try fileSystem.entries(of: directory)
        }
        let others = entries.map(\.name).filter { $0 != "log" && !$0.isStoreMarker }
        #expect(Set(others) == ["#shared", "#reserve"])
        for name in others { try copy(name, from: "/a", to: "/b") }
        let store = try open("/b")
        for number in 0..<2500 {
            let key = KVKey<Int>("diverged.\(1000 + number)")
            #expect(try store.read(key) == number)
            #expect(try !store.createIfAbsent(key, value: -1))
        }
        #expect(try store.keys().count == 2600)
    }
}
