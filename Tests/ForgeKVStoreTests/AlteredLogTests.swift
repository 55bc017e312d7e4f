import ForgeFileSystem
import Foundation
import SystemPackage
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
