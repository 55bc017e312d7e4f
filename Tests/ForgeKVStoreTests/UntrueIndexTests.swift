import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

/// An index beside a log that is not the one any more which it was made of.
@Suite("An index that its log does not bear out") struct UntrueIndexTests {
    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()

    private func open(on fileSystem: (any POSIXFileSystem)? = nil, usesIndex: Bool = true) throws -> FileKVStore {
        var options = recorder.options()
        options.indexedFromBytes = 1
        options.usesIndex = usesIndex
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

    /// Where the records of a log begin.
    private func records(_ log: [UInt8]) -> [Range<Int>] {
        var records: [Range<Int>] = []
        var offset = LogHeader.size
        while offset < log.count {
            let size = log.withUnsafeBytes { bytes in
                LogRecord.frameSize + LogRecord.frame(UnsafeRawBufferPointer(rebasing: bytes[offset...])).payloadSize
            }
            records.append(offset..<offset + size)
            offset += size
        }
        return records
    }

    @Test(
        "of a log that has become shorter than its index knows, nothing is lost that is written then",
        arguments: [true, false])
    func shorterLog(usesIndex: Bool) throws {
        try fill(0..<30)
        let full = try log()
        try replace(.logName, Array(full[..<records(full)[10].lowerBound]))
        do {
            let store = try open(usesIndex: usesIndex)
            #expect(try store.keys().count == 10)
            // More than was cut off, in fewer records: the index would end within what is written now.
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

    @Test("while such an index cannot be removed, the store is read-only")
    func indexThatStays() throws {
        try fill(0..<30)
        let full = try log()
        try replace(.logName, Array(full[..<records(full)[10].lowerBound]))
        let failing = FailingFileSystem(fileSystem)
        failing.fail(.unlink, .ioError)
        do {
            let store = try open(on: failing)
            #expect(store.get(key(9)) == 9)
            #expect(throws: KVStoreError.self) { try store.set(key(9), value: 0) }
        }
        #expect(recorder.descriptions.count == 1 && recorder.descriptions[0].hasPrefix("read-only: "))
        failing.fail(nil)
        let store = try open(on: failing)
        try store.set(key(9), value: 0)
        #expect(try store.keys().count == 10)
    }

    @Test("a batch that would begin below number zero is no record, wherever the index leads")
    func batchBelowZero() throws {
        do {
            let store = try open()
            try store.set(key(0), value: 0)
            try store.batch { batch in for number in 1..<5 { try batch.set(key(number), value: number) } }
            try store.set(key(9), value: 9)
        }
        var bytes = try log()
        let batch = records(bytes)[1]
        let checksum = LogFileID(UnsafeRawBufferPointer(rebasing: bytes.withUnsafeBytes { $0 }[16..<32])).checksum
        bytes.withUnsafeMutableBytes { bytes in
            let record = UnsafeMutableRawBufferPointer(rebasing: bytes[batch])
            record.store(UInt64(2), at: 4)
            LogRecord.sign(record, unflushedCount: 1, checksum: checksum)
        }
        try replace(.logName, bytes)
        let store = try open()
        #expect(store.get(key(1)) == nil)
        #expect(store.get(key(0)) == 0)
        #expect(store.get(key(9)) == 9)
        #expect(recorder.damage.map(\.kind) == [.records])
        #expect(recorder.damage.map(\.offset) == [Int64(batch.lowerBound)])
    }

    @Test("a record with a higher number than the index knows is there when the store is opened again")
    func movedRecord() throws {
        try fill(10..<20)
        let early = try log()
        let index = try fileSystem.readFile("/store/index")
        do {
            let store = try open()
            for number in 20..<29 { try store.set(key(number), value: number) }
            try store.synchronize()
            // It vouches for all before it.
            try store.set(key(29), value: 9)
        }
        let late = try log()
        // It is as long as the one that it takes the place of.
        var moved = early
        let last = records(late)[records(late).count - 2]
        moved.replaceSubrange(records(early)[3], with: late[last])
        try replace(.logName, moved)
        try replace(.indexName, index)
        let expected: [String: Int]
        do {
            let store = try open()
            #expect(store.get(key(12)) == 12)
            expected = try store.integers()
            try store.set(key(50), value: 50)
        }
        #expect(expected["key.29"] == 9)
        #expect(try open().integers() == expected.merging(["key.50": 50]) { $1 })
    }
}
