import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

/// Logs whose end is torn, unfinished or forged, as another process may leave them.
@Suite("An index of a log with an end that is not a record") struct LogIndexForgeryTests {
    private let memory = InMemoryFileSystem()
    private let reads = CallCounter()
    private let header: LogHeader

    /// The end of the records of the store.
    private let end: Int64

    init() throws {
        let store = try FileKVStore(at: "/store", fileSystem: memory, options: .init(sharing: .shared))
        for number in 0..<3 { try store.set(KVKey<Int>("key\(number)"), value: number) }
        try store.close()
        let content = try memory.readFile("/store/log")
        guard case .valid(let header) = LogHeader.read(content) else { fatalError("no header") }
        self.header = header
        end = Int64(content.count)
    }

    private func index() throws -> KVLogIndex {
        let counting = InterceptedFileSystem(memory) { [reads] (call) throws(FileSystemError) in
            if call.operation == .read { try reads.countOrFail(.read, nil, .ioError) }
        }
        return KVLogIndex(of: "store", in: try ConfinedDirectory("/", on: counting))
    }

    private func change(_ body: (Descriptor) throws -> Void) throws {
        let file = try memory.open("/store/log", .readWrite)
        defer { memory.discard(file) }
        try body(file)
    }

    private func write(_ bytes: [UInt8], at offset: Int64) throws {
        try change { try memory.writeBytes(bytes, to: $0, at: offset) }
    }

    /// An intact record that follows the store's records: three values and the marker of closing.
    private func record(
        _ code: LogRecord.Code, flags: UInt8 = 0, name: String = "", value: [UInt8] = [], sequence: UInt64 = 5
    ) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: LogRecord.size(nameCount: name.utf8.count, valueSize: value.count))
        let name = Array(name.utf8)
        bytes.withUnsafeMutableBytes { record in
            name.withUnsafeBytes { name in
                value.withUnsafeBytes { value in
                    LogRecord.write(
                        code, flags: flags, name, value, sequence: sequence, unflushedCount: 0,
                        checksum: header.fileID.checksum, to: record)
                }
            }
        }
        return bytes
    }

    /// The number of reads of so many refreshes.
    private func reads(
        of count: Int, _ index: inout KVLogIndex, _ body: (Int) throws -> Void = { _ in }
    ) throws -> Int {
        let before = reads.count
        for number in 0..<count {
            try body(number)
            #expect(try index.refresh().isEmpty)
        }
        return reads.count - before
    }

    @Test("does not read a torn record again by every refresh")
    func torn() throws {
        var bytes = record(.set, name: "large", value: [UInt8](repeating: 7, count: 2 << 20))
        bytes[bytes.count - 1] ^= 1
        try write(bytes, at: end)
        var index = try index()
        _ = try index.refresh()
        // A refresh reads the header and two frames; the record is read eight times, in three steps.
        #expect(try reads(of: 100, &index) < 400)
        #expect(index.count == 3)
        #expect(index.map(sectionCount: 4)?.tail == end..<end + Int64(bytes.count))
        bytes[bytes.count - 1] ^= 1
        try write(bytes, at: end)
        #expect(try index.refresh().map(\.name) == ["large"])
        let map = try #require(index.map(sectionCount: 4))
        #expect(map.tail == nil && map.end == end + Int64(bytes.count) && map.recordCount == 5)
    }

    @Test("reads a torn record again when it is completed, even if no time of the file tells it")
    func completed() throws {
        let bytes = record(.set, name: "new", value: [1, 2, 3])
        var index = try index()
        _ = try index.refresh()
        try write(Array(bytes.dropLast(2)) + [0, 0], at: end)
        #expect(try reads(of: 100, &index) < 400)
        try write(bytes, at: end)
        #expect(try index.refresh().map(\.name) == ["new"])
        // As a store into mapped memory: the status is the same as before.
        let status = try memory.status("/store/log")
        let next = record(.set, name: "next", value: [1, 2, 3], sequence: 6)
        let nextEnd = end + Int64(bytes.count)
        try write(Array(next.dropLast(1)) + [0], at: nextEnd)
        try setTimes(status)
        #expect(try index.refresh().isEmpty)
        try write(next, at: nextEnd)
        try setTimes(status)
        var found: [KVLogIndex.Change] = []
        for _ in 0...ReadingPause.limit where found.isEmpty { found = try index.refresh() }
        #expect(found.map(\.name) == ["next"])
    }

    private func setTimes(_ status: FileStatus) throws {
        try change {
            try memory.setTimes(accessed: status.accessed, modified: status.modified, of: .descriptor($0))
        }
    }

    @Test("does not read a large forged record at every change of its file")
    func changing() throws {
        var frame = record(.set, name: "large").prefix(LogRecord.frameSize + 9)
        frame.withUnsafeMutableBytes { $0.store(UInt32(48 << 20), at: 0) }
        try write(Array(frame), at: end)
        try change { try memory.truncate(.descriptor($0), to: 64 << 20) }
        var index = try index()
        _ = try index.refresh()
        let count = try reads(of: 12, &index) { number in try write([UInt8(number)], at: 60 << 20) }
        // It is read by every fourth call, in 49 steps.
        #expect(count < 350)
    }

    @Test("reads no more of a record than shows that it is none", arguments: [0, 6, 255])
    func implausible(code: UInt8) throws {
        var bytes = [UInt8](repeating: 0, count: 24)
        bytes.withUnsafeMutableBytes { buffer in
            buffer.store(UInt32(900 << 20), at: 0)
            buffer.store(UInt64(5), at: 4)
        }
        bytes[LogRecord.frameSize] = code
        var index = try index()
        _ = try index.refresh()
        try write(bytes, at: end)
        try change { try memory.truncate(.descriptor($0), to: 1 << 30) }
        #expect(try reads(of: 100, &index) < 400)
    }

    @Test("verifies a record of many steps as a whole", arguments: [-1, 0, 1])
    func steps(difference: Int) throws {
        let bytes = record(.set, name: "n", value: Array(repeating: 9, count: 2 * LogReader.step - 25 + difference))
        try write(bytes, at: end)
        var index = try index()
        _ = try index.refresh()
        #expect(index.count == 4)
        // Damage to the first bytes makes an index search the whole record for the next one.
        let searched = TestDepth.isDeep ? bytes : record(.set, name: "n", value: Array(repeating: 9, count: 9000))
        let (first, last) = (LogReader.step, bytes.count - 1)
        let verified = TestDepth.isDeep ? [first, last] : [difference < 0 ? first : last]
        let cases = [0, 16, 21].map { ($0, searched) } + verified.map { ($0, bytes) }
        for (position, bytes) in cases {
            var broken = bytes
            broken[position] ^= 1
            try change { try memory.truncate(.descriptor($0), to: end) }
            try write(broken, at: end)
            var other = try self.index()
            _ = try other.refresh()
            #expect(other.count == 3, "\(position)")
        }
    }

    @Test(
        "has what an opening of the store has, whatever the flags of a record",
        arguments: [LogRecord.Code.set, .remove, .removeAll, .flushed, .batch], [0, 1, 2, 255] as [UInt8])
    func flags(code: LogRecord.Code, flags: UInt8) throws {
        // An opening accepts a gap before a record that was kept, so both are tried.
        for sequence in [5, 9] as [UInt64] {
            let bytes: [UInt8]
            switch code {
            case .set: bytes = record(code, flags: flags, name: "key1", value: [1], sequence: sequence)
            case .remove: bytes = record(code, flags: flags, name: "key1", sequence: sequence)
            case .removeAll, .flushed: bytes = record(code, flags: flags, sequence: sequence)
            case .batch:
                var content: [UInt8] = []
                LogRecord.appendToBatch(.remove, KeyName("key1"), [], &content)
                bytes = record(code, flags: flags, value: content, sequence: sequence)
            }
            var following = try index()
            _ = try following.refresh()
            try write(bytes, at: end)
            let changes = try following.refresh()
            let store = try FileKVStore(
                at: "/store", fileSystem: memory, options: IssueRecorder().options(access: .readOnly))
            let expected = try store.keys().sorted()
            var loaded = try index()
            _ = try loaded.refresh()
            // One that follows the log takes no record after a gap; a store does not write one.
            for index in sequence == 5 ? [following, loaded] : [loaded] {
                var index = index
                let names = index.names()
                #expect(names.compactMap { index.entry(numbered: $0)?.name } == expected, "sequence \(sequence)")
            }
            #expect(
                changes.contains { $0.operation == .removeAll } == (code == .removeAll && flags == 0 && sequence == 5))
            try write([UInt8](repeating: 0, count: bytes.count), at: end)
        }
    }

    @Test("does not read a log that cannot be read again by every refresh, but when it has changed")
    func failedLoad() throws {
        let original = try memory.readFile("/store/log")
        try write([UInt8](repeating: 7, count: 64), at: 0)
        try change { try memory.truncate(.descriptor($0), to: 4 << 20) }
        var index = try index()
        for _ in 0..<100 {
            #expect { try index.refresh() } throws: { ($0 as? KVStoreError)?.code == .damaged }
        }
        #expect(reads.count < 200)
        try change { try memory.truncate(.descriptor($0), to: Int64(original.count)) }
        try write(original, at: 0)
        // The old length has no effect on the pause after the change.
        var count = 0
        while index.count == 0, count < 4 {
            do { _ = try index.refresh() } catch {}
            count += 1
        }
        #expect(index.count == 3)
    }
}

@Suite("The pause before bytes that could not be read are read again") struct ReadingPauseTests {
    private let status: FileStatus

    init() throws { status = try InMemoryFileSystem().status("/") }

    private func evidence(_ beginning: UInt8) -> ReadingPause.Evidence { .init(status, beginning: [beginning]) }

    /// The pauses after so many failures in succession, in calls.
    private func pauses(_ count: Int, sizeInBytes: Int64, isChanged: Bool) -> [Int] {
        var last: ReadingPause?
        return (0..<count).map { _ in
            var pause = ReadingPause(evidence(0), sizeInBytes: sizeInBytes, after: last)
            last = pause
            var calls = 1
            while !pause.isOver(evidence(isChanged ? 1 : 0)) { calls += 1 }
            return calls
        }
    }

    @Test("doubles with each failure up to a limit, as long as the bytes are the same")
    func unchanged() {
        let doubled = [1, 2, 4, 8, 16, 32, 64]
        #expect(
            pauses(100, sizeInBytes: 1 << 40, isChanged: false) == doubled + Array(repeating: 64, count: 93))
    }

    @Test("is short after a change, and longer the more bytes are read")
    func changed() {
        let step = ReadingPause.bytesPerCall
        #expect(pauses(9, sizeInBytes: step - 1, isChanged: true) == Array(repeating: 1, count: 9))
        #expect(pauses(9, sizeInBytes: step, isChanged: true) == [1] + Array(repeating: 2, count: 8))
        #expect(pauses(9, sizeInBytes: 4 * step - 1, isChanged: true) == [1, 2, 4, 4, 4, 4, 4, 4, 4])
        #expect(pauses(9, sizeInBytes: .max, isChanged: true) == [1, 2, 4, 8, 16, 32, 64, 64, 64])
    }
}
