import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite struct LogFormatTests {
    @Test(
        "CRC-32C is that of RFC 3720",
        arguments: [
            ([UInt8](repeating: 0, count: 32), 0x8A91_36AA),
            ([UInt8](repeating: 0xFF, count: 32), 0x62A8_AB43),
            ([UInt8](0..<32), 0x46DD_794E),
            (Array("123456789".utf8), 0xE306_9283),
            ([], 0),
        ] as [([UInt8], UInt32)])
    func checksum(_ bytes: [UInt8], _ expected: UInt32) {
        var checksum = CRC32C()
        bytes.withUnsafeBytes { checksum.update($0) }
        #expect(checksum.value == expected)
        #expect(~bytes.withUnsafeBytes { CRC32C.portable(.max, $0) } == expected)
    }

    @Test("the checksum does not depend on the chunks or the implementation")
    func checksumInPieces() {
        let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0 &* 7919 >> 4) }
        let whole = bytes.withUnsafeBytes { ~CRC32C.portable(.max, $0) }
        for step in [1, 3, 7, 8, 9, 64, 999] {
            var checksum = CRC32C()
            for start in stride(from: 0, to: bytes.count, by: step) {
                bytes[start..<min(bytes.count, start + step)].withUnsafeBytes { checksum.update($0) }
            }
            #expect(checksum.value == whole)
        }
    }

    private static let header = LogHeader(
        fileID: LogFileID(random: { 0x0706_0504_0302_0100 }), generation: 5)

    @Test("a header and a record have the documented bytes")
    func goldenBytes() {
        var bytes = Self.header.encoded()
        let checksum = Self.header.fileID.checksum
        LogRecord.append(
            .set(KeyName("a"), [0x11, 0x01, 0x01]), sequence: 1, unflushedCount: 0, checksum: checksum, to: &bytes)
        LogRecord.append(
            .set(KeyName("é"), [0x11, 0x01, 0x63, 0x74, 0x77, 0x6F]), sequence: 2, unflushedCount: 1,
            checksum: checksum,
            to: &bytes)
        LogRecord.append(.remove(KeyName("a")), sequence: 3, unflushedCount: 2, checksum: checksum, to: &bytes)
        LogRecord.append(.removeAll, sequence: 4, unflushedCount: 3, checksum: checksum, to: &bytes)
        LogRecord.append(.flushed, sequence: 5, unflushedCount: 0, checksum: checksum, to: &bytes)
        #expect(hexadecimal(bytes) == Self.goldenLog)
    }

    @Test("a log of version 1 is read")
    func goldenLogIsRead() throws {
        let fixture = LogFixture()
        var bytes = bytes(of: Self.goldenLog)
        // Without the record that removes everything, more keys are visible.
        bytes.removeLast(48)
        try fixture.replace(bytes)
        let store = try fixture.open()
        #expect(try store.keys() == ["é"])
        #expect(store.get(KVKey<String>("é")) == "two")
        #expect(try fixture.bytes() == bytes)
    }

    /// A hand-made log of version 1: a set, é set, a removed, all removed, a flush.
    private static let goldenLog = """
        464f5247454b560a01000000400000000001020304050607000102030405060705000000000000000001020304050607\
        0001020304050607000000008e78fd7a08000000010000000000000000000000015a991e01000100611101010c000000\
        020000000000000001000000173ece1c01000200c3a911016374776f05000000030000000000000002000000afbd2919\
        020001006104000000040000000000000003000000066c2c6e03000000040000000500000000000000000000005b5e64\
        5e04000000
        """

    private func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private func bytes(of text: String) -> [UInt8] {
        let digits = Array(text.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
        }
    }

    @Test("an unknown payload is not a record")
    func unknownPayloads() {
        let payloads: [[UInt8]] = [
            [], [1, 0, 0], [0, 0, 0, 0], [9, 0, 0, 0], [1, 2, 0, 0], [2, 1, 0, 0], [1, 0, 5, 0, 0x61],
            [2, 0, 1, 0, 0x61, 0x62],
            [3, 0, 0, 0, 1], [4, 0, 0, 0, 1], [1, 0, 1, 0, 0xFF],
            [1, 0, 0xFF, 0xFF] + [UInt8](repeating: 0x61, count: 65535),
        ]
        for payload in payloads {
            let record = [UInt8](repeating: 0, count: LogRecord.frameSize) + payload
            #expect(LogRecord.forEachChange(in: record.span) == nil)
        }
    }
}

@Suite("A record of a log") struct LogRecordTests {
    private func content(_ payload: [UInt8], _ body: (LogRecord.Change) -> Void = { _ in }) -> LogRecord.Content? {
        let record = [UInt8](repeating: 0, count: LogRecord.frameSize) + payload
        return LogRecord.forEachChange(in: record.span, body)
    }

    @Test("has a name of at most 1,024 bytes, in UTF-8")
    func names() {
        let longest = [UInt8](repeating: 0x61, count: 1024)
        for code in [1, 2] as [UInt8] {
            #expect(content([code, 0, 0, 4] + longest) != nil)
            #expect(content([code, 0, 1, 4] + longest + [0x61]) == nil)
            #expect(content([code, 0, 0, 0]) != nil)
            for position in 0..<20 {
                var name = Array(longest.prefix(20))
                name[position] = 0xE9
                #expect(content([code, 0, 20, 0] + name) == nil, "\(position)")
                name.replaceSubrange(position...position, with: "\u{E9}".utf8)
                #expect(content([code, 0, 21, 0] + name) != nil, "\(position)")
            }
        }
    }

    @Test("that is a batch consists of whole changes of names, at least one")
    func batches() {
        var valid: [UInt8] = []
        LogRecord.appendToBatch(.set, KeyName("a"), [1, 2], &valid)
        LogRecord.appendToBatch(.remove, KeyName("bc"), [], &valid)
        var places: [Range<Int>?] = []
        let batch = content([5, 0, 0, 0] + valid) { change in places += [change.name, change.value] }
        #expect(batch?.code == .batch && batch?.count == 2 && batch?.isRetained == false)
        #expect(places == [32..<33, 33..<35, 43..<45, nil])

        #expect(content([5, 0, 0, 0]) == nil && content([5, 0, 1, 0] + valid) == nil)
        let tooLong: [UInt8] = [1, 0, 1, 4, 0, 0, 0, 0] + [UInt8](repeating: 0x61, count: 1025)
        for change: [UInt8] in [
            [1], [1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0],
            [4, 0, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0, 0, 0], [1, 0, 2, 0, 0, 0, 0, 0, 0x61],
            [1, 0, 1, 0, 1, 0, 0, 0, 0x61], [1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF], [2, 0, 1, 0, 1, 0, 0, 0, 0x61, 0x62],
            [1, 0, 1, 0, 0, 0, 0, 0, 0xFF], tooLong,
        ] {
            var count = 0
            let batch = content([5, 0, 0, 0] + valid + change) { _ in count += 1 }
            #expect(batch == nil && count == 2, "\(change.prefix(10))")
        }
        for change: [UInt8] in [[1, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]] {
            #expect(content([5, 0, 0, 0] + valid + change)?.count == 3)
        }
    }

    /// A frame and the prefix of a payload.
    private func beginning(
        payload: UInt32 = 4, sequence: UInt64 = 1, unflushed: UInt32 = 0, code: UInt8 = 1, flags: UInt8 = 0,
        name: UInt16 = 0
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(integer: payload)
        bytes.append(integer: sequence)
        bytes.append(integer: unflushed)
        bytes.append(integer: UInt32(0))
        bytes += [code, flags]
        bytes.append(integer: name)
        return bytes
    }

    @Test("has a frame that is possible after the one before")
    func frames() {
        let most = LogRecord.maximumSequence
        for (bytes, last, isPossible) in [
            (beginning(), 0, true), (beginning(payload: 3), 0, false), (beginning(), 1, false),
            (beginning(sequence: 9), 1, true), (beginning(sequence: 0), 0, false),
            (beginning(sequence: most), most - 1, true), (beginning(sequence: most + 1), most, false),
            (beginning(sequence: 5, unflushed: 4), 4, true), (beginning(sequence: 5, unflushed: 5), 4, false),
        ] as [([UInt8], UInt64, Bool)] {
            #expect((LogRecord.frame(bytes.span, after: last) != nil) == isPossible, "\(bytes) after \(last)")
        }
        for (bytes, isPlausible) in [
            (beginning(), true), (beginning(code: 0), false), (beginning(code: 5), true), (beginning(code: 6), false),
            (beginning(flags: 1), true), (beginning(flags: 2), false), (beginning(name: 1), false),
            (beginning(payload: 5, name: 1), true), (beginning(payload: 5, name: 2), false),
            (beginning(payload: 9999, name: 1024), true), (beginning(payload: 9999, name: 1025), false),
        ] as [([UInt8], Bool)] {
            #expect(LogRecord.isPlausible(bytes.span, LogRecord.frame(bytes.span)) == isPlausible, "\(bytes)")
        }
    }

    @Test("has bytes that are compared at every place")
    func comparison() {
        for count in 0...20 {
            let bytes = (0..<count).map { UInt8($0) }
            func isEqual(_ other: [UInt8]) -> Bool {
                bytes.withUnsafeBytes { bytes in other.withUnsafeBytes { bytes.isEqual(to: $0) } }
            }
            #expect(isEqual(bytes) && !isEqual(bytes + [0]), "\(count)")
            for position in bytes.indices {
                var other = bytes
                other[position] ^= 0x80
                #expect(!isEqual(other), "\(position) of \(count)")
            }
        }
    }
}

@Suite("The header of a log") struct LogHeaderTests {
    private let header = LogHeader(fileID: LogFileID(UInt8(1)...16), generation: 5)

    /// The header with changed bytes, and the checksum of these bytes if that is wanted.
    private func changed(_ offsets: [Int], isChecked: Bool) -> [UInt8] {
        var bytes = header.encoded()
        for offset in offsets { bytes[offset] ^= 0x40 }
        guard isChecked else { return bytes }
        var checksum = CRC32C()
        checksum.update(bytes.span, 0..<60)
        bytes.replace(at: 60, integer: checksum.value)
        return bytes
    }

    @Test("is valid as a whole; a damaged one tells the identifiers that the log may have")
    func reading() {
        let bytes = header.encoded()
        #expect(LogHeader.read(bytes) == .valid(header))
        #expect(LogHeader.read(bytes + [1]) == .valid(header))
        #expect(LogHeader.read(Array(bytes.dropLast())) == .damaged(candidates: []))
        for offset in [0, 7, 8, 12, 32, 60, 63] {
            #expect(LogHeader.read(changed([offset], isChecked: false)) == .damaged(candidates: [header.fileID]))
        }
        let other = LogFileID([0x41] + Array(UInt8(2)...16))
        #expect(LogHeader.read(changed([16], isChecked: false)) == .damaged(candidates: [other, header.fileID]))
        #expect(LogHeader.read(changed([40], isChecked: false)) == .damaged(candidates: [header.fileID, other]))
        #expect(LogHeader.read(changed([0], isChecked: true)) == .damaged(candidates: [header.fileID]))
        #expect(LogHeader.read(changed([8], isChecked: true)) == .unknownVersion(0x41))
        #expect(LogHeader.read(changed([16], isChecked: true)) == .unknownVersion(1))
    }

    @Test("is that of an interrupted creation if it is the beginning of one, or zeros, and nothing follows")
    func interrupted() {
        let (bytes, zeros) = (header.encoded(), [UInt8](repeating: 0, count: 64))
        for count in [0, 1, 7, 8, 9, 63, 64] {
            #expect(LogHeader.isInterruptedCreation(Array(bytes.prefix(count)), fileSize: Int64(count)), "\(count)")
            #expect(LogHeader.isInterruptedCreation(Array(zeros.prefix(count)), fileSize: Int64(count)), "\(count)")
        }
        for bytes in [bytes, zeros] { #expect(!LogHeader.isInterruptedCreation(bytes, fileSize: 65)) }
        for bytes in [[0x47], [0x46, 0x4f, 0], Array(bytes.dropFirst()), zeros.dropLast() + [1]] as [[UInt8]] {
            #expect(!LogHeader.isInterruptedCreation(bytes, fileSize: Int64(bytes.count)))
        }
    }
}

@Suite("The sequence numbers of a log") struct SequenceNumberTests {
    private let memory = InMemoryFileSystem()
    private let flushes = CallCounter()

    private func makeLog(
        sequence: UInt64, flushedSequence: UInt64, _ counter: CallCounter? = nil
    ) throws -> AppendLog {
        let flushes = counter ?? flushes
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { try flushes.countOrFail(.synchronize, nil, .ioError) }
        }
        let file = try memory.open("/log", .readWrite, options: [.create])
        let header = LogHeader(fileID: LogFileID(UInt8(1)...16), generation: 1)
        return AppendLog(
            LogFile(file, header: header, on: fileSystem), end: Int64(LogHeader.size), sequence: sequence,
            flushedSequence: flushedSequence, endsFlushed: false, space: LogSpace(LogSpace.Options(isMapped: false)))
    }

    @Test("the log is flushed before a record that could not state the number of unflushed ones")
    func unflushed() throws {
        let most = UInt64(UInt32.max)
        var log = try makeLog(sequence: most - 2, flushedSequence: 0)
        let first = try log.append(.removeAll)
        let (flushedBefore, countBefore) = (log.flushedSequence, flushes.count)
        #expect(first == most - 1 && flushedBefore == 0 && countBefore == 0)
        let second = try log.append(.removeAll)
        let (flushedAfter, countAfter) = (log.flushedSequence, flushes.count)
        #expect(second == most && flushedAfter == most - 1 && countAfter == 1)
        let content = try memory.readFile("/log")
        #expect(content.count == 64 + 2 * 24)
        let frames = [64, 88].map { offset in
            let frame = Array(content[offset...])
            return LogRecord.frame(frame.span)
        }
        #expect(frames.map(\.sequence) == [most - 1, most])
        #expect(frames.map(\.unflushedCount) == [UInt32.max - 2, 0])
        #expect(frames.map(\.flushedSequence) == [0, most - 1])
    }

    @Test("a removal of all records in place leaves one, which is flushed and has the next number")
    func removal() throws {
        var log = try makeLog(sequence: 0, flushedSequence: 0)
        for _ in 0..<3 { _ = try log.append(.removeAll) }
        try log.removeRecords()
        let (end, sequence, flushed, restarts) = (log.end, log.sequence, log.flushedSequence, log.restartCount)
        let endsFlushed = log.endsFlushed
        #expect(end == 64 + 24 && sequence == 4 && flushed == 4 && restarts == 1)
        #expect(endsFlushed && flushes.count == 1)
        let record = Array(try memory.readFile("/log")[64...])
        #expect(record.count == 24 && LogRecord.isRetained(record.span))
        #expect(LogRecord.forEachChange(in: record.span)?.code == .flushed)
        let frame = LogRecord.frame(record.span)
        #expect(frame.sequence == 4 && frame.unflushedCount == 0)
        let next = try log.append(.removeAll)
        #expect(next == 5)
    }

    @Test("nothing is appended after a flush that failed, whichever call made it", arguments: 0..<3)
    func failedFlush(_ call: Int) throws {
        let most = UInt64(UInt32.max)
        var log = try makeLog(
            sequence: call == 0 ? most - 1 : 3, flushedSequence: 0, CallCounter(failing: 0..<1))
        if call > 0 { _ = try log.append(.removeAll) }
        var failure: FileSystemError?
        do throws(FileSystemError) {
            switch call {
            case 0: _ = try log.append(.removeAll)
            case 1: try log.removeRecords()
            default: try log.dropTail()
            }
        } catch {
            failure = error
        }
        let (isPoisoned, flushed) = (log.isPoisoned, log.flushedSequence)
        #expect(failure?.errno == .ioError && isPoisoned && flushed == 0)
    }

    @Test("what a locked device keeps of a failed record is truncated before the next one, once that is possible")
    func locked() throws {
        let failure = Mutex<FileSystemError?>(nil)
        let isWriteFailing = Atomic(false)
        let fileSystem = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            if call.operation == .write, isWriteFailing.exchange(false, ordering: .relaxed), let file = call.descriptor
            {
                try memory.writeBytes([UInt8](repeating: 1, count: 100), to: file, at: 64)
                throw FileSystemError(.write, .ioError)
            }
            if call.operation == .truncate, let failure = failure.withLock({ $0 }) { throw failure }
        }
        let header = LogHeader(fileID: LogFileID(UInt8(1)...16), generation: 1)
        var log = AppendLog(
            LogFile(try memory.open("/log", .readWrite, options: [.create]), header: header, on: fileSystem),
            end: 64, sequence: 0, flushedSequence: 0, endsFlushed: true,
            space: LogSpace(LogSpace.Options(isMapped: false)))
        func errno(_ log: inout AppendLog) -> Errno? {
            do throws(FileSystemError) { _ = try log.append(.removeAll) } catch { return error.errno }
            return nil
        }
        let isLocked = FileSystemError(.truncate, .notPermitted, underlying: ProtectedDataUnavailable())
        failure.withLock { $0 = isLocked }
        isWriteFailing.store(true, ordering: .relaxed)
        var errnos = [errno(&log), errno(&log)]
        var isPoisoned = log.isPoisoned
        #expect(errnos == [.ioError, .notPermitted] && !isPoisoned)
        #expect(try memory.status("/log").sizeInBytes == 164)
        failure.withLock { $0 = nil }
        errnos = [errno(&log)]
        #expect(errnos == [nil])
        #expect(try memory.status("/log").sizeInBytes == 64 + 24)

        // Any other failure to truncate is final.
        errnos = [errno(&log)]
        isPoisoned = log.isPoisoned
        #expect(errnos == [nil] && !isPoisoned)
        failure.withLock { $0 = isLocked }
        isWriteFailing.store(true, ordering: .relaxed)
        errnos = [errno(&log)]
        failure.withLock { $0 = FileSystemError(.truncate, .ioError) }
        errnos.append(errno(&log))
        isPoisoned = log.isPoisoned
        #expect(errnos == [.ioError, .ioError] && isPoisoned)
    }

    @Test("none follows the largest")
    func largest() throws {
        let largest = LogRecord.maximumSequence - 1
        var log = try makeLog(sequence: largest - 1, flushedSequence: largest - 1)
        let last = try log.append(.removeAll)
        #expect(last == largest)
        var failure: FileSystemError?
        do throws(FileSystemError) { _ = try log.append(.removeAll) } catch { failure = error }
        #expect(failure?.errno == .overflow)
        let sequence = log.sequence
        #expect(sequence == largest)
        #expect(try memory.status("/log").sizeInBytes == 64 + 24)
    }
}

@Suite("A file of an open store on disk that another program has truncated")
struct TruncatedFilesTests {
    private let directory = TemporaryDirectory()
    private let key = KVKey<Int>("a")

    private func truncate(_ name: String, to size: Int64) throws {
        try SystemFileSystem().truncate(.path(POSIXPath(directory.url.path + "/" + name)), to: size)
    }

    @Test(
        "the shared page loses nothing, and contains the process again",
        arguments: [0, SharedPageContent.wordOffset + 4, SharedPageContent.offset(ofSlot: 0)])
    func sharedPage(_ size: Int) throws {
        var options = FileKVStore.Options()
        options.sharing = .shared
        let store = try FileKVStore(at: directory.url, options: options)
        try store.set(key, value: 1)
        try truncate("#shared", to: Int64(size))
        #expect(try store.read(key) == 1)
        try store.set(key, value: 2)
        #expect(try store.read(key) == 2)
        // The process is in its slot again.
        let file = try SystemFileSystem().open(POSIXPath(directory.url.path), .readOnly, options: [.directory])
        defer { SystemFileSystem().discard(file) }
        #expect(try SharedPage.user(at: file, on: SystemFileSystem(), options.processes) != nil)
    }

    @Test("the log refuses writes that it cannot keep, and continues to serve its content")
    func log() throws {
        let store = try FileKVStore(at: directory.url)
        try store.set(key, value: 1)
        try truncate("log", to: 0)
        let error = try #require(throws: KVStoreError.self) { try store.set(key, value: 2) }
        #expect(error.key == "a")
        #expect(try store.read(key) == 1)
        #expect(throws: KVStoreError.self) { try store.set(key, value: 3) }
        #expect(throws: KVStoreError.self) { try store.synchronize() }
    }
}
