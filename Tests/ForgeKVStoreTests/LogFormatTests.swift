import ForgeFileSystem
import Foundation
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
