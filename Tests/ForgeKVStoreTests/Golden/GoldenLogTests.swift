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
