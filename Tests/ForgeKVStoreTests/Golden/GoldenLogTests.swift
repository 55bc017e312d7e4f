import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing
@testable import ForgeKVStore

@Suite("Golden log") struct GoldenLogTests {
    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()

    private func open() throws -> FileKVStore {
        try FileKVStore(at: "/store", fileSystem: fileSystem, options: recorder.options())
    }

    /// The operations of the golden log, from the creation of the store to its closing.
    private func operate() throws {
        let store = try open()
        try store.set(KVKey<Int>("a"), value: 1)
        try store.set(KVKey<String>("é"), value: "two")
        try store.set(KVKey<Int>("a"), value: 3)
        try store.compact()
        try store.set(KVKey<Bool>("b"), value: true)
        try store.remove(KVKey<Int>("a"))
        try store.removeAll()
        try store.synchronize()
        try store.batch { batch in
            try batch.set(KVKey<Int>("c"), value: -70_000)
            batch.remove(KVKey<String>("é"))
            try batch.set(KVKey<[Int]>("list"), value: [1, 500])
        }
        try store.set(KVKey<Int>("a"), value: 5)
    }

    private func replace(_ name: POSIXPath, _ bytes: [UInt8]) throws {
        try fileSystem.makeDirectories("/store", permissions: .privateDirectory)
        try fileSystem.withDirectory("/store") { directory throws(FileSystemError) in
            try fileSystem.replaceFile(
                name, at: directory, .replacing, permissions: .privateFile, durability: .none
            ) { descriptor throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: descriptor) }
        }
    }

    private func check(_ store: FileKVStore) throws {
        #expect(try store.entry(named: "a")?.revision == 11)
        #expect(store.get(KVKey<Int>("a")) == 5)
        #expect(store.get(KVKey<Int>("c")) == -70_000)
        #expect(store.get(KVKey<[Int]>("list")) == [1, 500])
        #expect(try store.entry(named: "list")?.revision == 10)
        #expect(store.get(KVKey<String>("é")) == nil)
        #expect(store.get(KVKey<Bool>("b")) == nil)
        #expect(try store.keys().sorted() == ["a", "c", "list"])
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }

    @Test("a log of version 1 is read correctly, and left unchanged")
    func log() throws {
        try replace("log", GoldenLog.log)
        do { try check(open()) }
        #expect(try fileSystem.readFile("/store/log") == GoldenLog.log)
    }

    @Test("a log is written as version 1, byte for byte")
    func writing() throws {
        try operate()
        let log = try fileSystem.readFile("/store/log")
        #expect(log == GoldenLog.log, "\(GoldenLog.text(of: log))")
    }

    @Test("the golden log contains every record of the format")
    func completeness() throws {
        try replace("log", GoldenLog.log)
        var found: Set<String> = []
        var offset = LogHeader.size
        let log = GoldenLog.log
        while offset < log.count {
            found.insert("\(log[offset + LogRecord.frameSize]), \(log[offset + LogRecord.frameSize + 1])")
            offset += LogRecord.frameSize + LogRecord.frame(log.span.extracting(offset..<log.count)).payloadSize
        }
        #expect(found == ["1, 0", "1, 1", "2, 0", "3, 0", "4, 0", "4, 1", "5, 0"])
    }
}

/// A log written by version 1, with a comment on each field; must never be changed.
enum GoldenLog {
    static let log = bytes(of: logText)

    private static let logText = """
        464f5247454b560a                    FORGEKV and a line feed
        01000000                            version 1
        40000000                            length of the header, 64
        4f450980185dc406ec814c72a8b88bf8    number of the log
        0200000000000000                    generation 2: it was rewritten once
        4f450980185dc406ec814c72a8b88bf8    the number again
        00000000                            zero
        bbe6c0ca                            checksum of what stands before
        0c000000                            byte 64: a payload of 12 bytes
        0200000000000000                      sequence number 2
        00000000                              no record before it was unflushed
        2958143a                              checksum
        01                                    set
        01                                    carried over by compaction
        0200                                  length of the name, 2
        c3a9                                  the name, é
        1101                                    envelope: version 1, binary, schema version 1
        6374776f                                the value in CBOR
        08000000                            byte 96: a payload of 8 bytes
        0300000000000000                      sequence number 3
        00000000                              no record before it was unflushed
        985dfca1                              checksum
        01                                    set
        01                                    carried over by compaction
        0100                                  length of the name, 1
        61                                    the name, a
        1101                                    envelope: version 1, binary, schema version 1
        03                                      the value in CBOR
        04000000                            byte 124: a payload of 4 bytes
        0400000000000000                      sequence number 4
        00000000                              no record before it was unflushed
        80a7f195                              checksum
        04                                    flushed
        01                                    carried over by compaction
        0000                                  length of the name, 0
        08000000                            byte 148: a payload of 8 bytes
        0500000000000000                      sequence number 5
        00000000                              no record before it was unflushed
        7a419acd                              checksum
        01                                    set
        00                                    no flags
        0100                                  length of the name, 1
        62                                    the name, b
        1101                                    envelope: version 1, binary, schema version 1
        f5                                      the value in CBOR
        05000000                            byte 176: a payload of 5 bytes
        0600000000000000                      sequence number 6
        01000000                              1 record before it unflushed
        dac32ded                              checksum
        02                                    remove
        00                                    no flags
        0100                                  length of the name, 1
        61                                    the name, a
        04000000                            byte 201: a payload of 4 bytes
        0700000000000000                      sequence number 7
        02000000                              2 records before it unflushed
        891730a8                              checksum
        03                                    remove everything
        00                                    no flags
        0000                                  length of the name, 0
        31000000                            byte 225: a payload of 49 bytes
        0a00000000000000                      sequence number 10
        02000000                              2 records before it unflushed
        153f1338                              checksum
        05                                    batch
        00                                    no flags
        0000                                  length of the name, 0
        01                                    set
        00                                    zero
        0100                                  length of the name, 1
        07000000                              length of the value, 7
        63                                    the name, c
        1101                                    envelope: version 1, binary, schema version 1
        3a0001116f                              the value in CBOR
        02                                    remove
        00                                    zero
        0200                                  length of the name, 2
        00000000                              length of the value, 0
        c3a9                                  the name, é
        01                                    set
        00                                    zero
        0400                                  length of the name, 4
        07000000                              length of the value, 7
        6c697374                              the name, list
        1101                                    envelope: version 1, binary, schema version 1
        82011901f4                              the value in CBOR
        08000000                            byte 294: a payload of 8 bytes
        0b00000000000000                      sequence number 11
        03000000                              3 records before it unflushed
        f1213f03                              checksum
        01                                    set
        00                                    no flags
        0100                                  length of the name, 1
        61                                    the name, a
        1101                                    envelope: version 1, binary, schema version 1
        05                                      the value in CBOR
        04000000                            byte 322: a payload of 4 bytes
        0c00000000000000                      sequence number 12
        00000000                              no record before it was unflushed
        d91a55b9                              checksum
        04                                    flushed
        00                                    no flags
        0000                                  length of the name, 0
        """

    /// The bytes of a text: hexadecimal digits before the comment of each line, or `00*12` for a repeated byte.
    private static func bytes(of text: String) -> [UInt8] {
        text.split(separator: "\n").flatMap { line -> [UInt8] in
            let digits = line.prefix { $0 != " " }.split(separator: "*")
            let single = Array((digits.first ?? "").utf8)
            let bytes = stride(from: 0, to: single.count - 1, by: 2).compactMap {
                UInt8(String(decoding: single[$0...($0 + 1)], as: UTF8.self), radix: 16)
            }
            let count = digits.count > 1 ? Int(digits[1]) ?? 0 : 1
            return Array(repeatElement(bytes, count: count).joined())
        }
    }

    /// The bytes as hexadecimal digits, for failure messages.
    static func text(of bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
