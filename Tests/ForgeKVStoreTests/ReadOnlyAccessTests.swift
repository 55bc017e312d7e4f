import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A store opened read-only") struct ReadOnlyAccessTests {
    private let memory = InMemoryFileSystem()
    private let recorder = IssueRecorder()
    private let key = KVKey<Int>("a")

    private func open(
        _ access: FileKVStore.Access, on fileSystem: (any POSIXFileSystem)? = nil
    ) throws -> FileKVStore {
        var options = recorder.options()
        options.access = access
        return try FileKVStore(at: "/store", fileSystem: fileSystem ?? memory, options: options)
    }

    @Test("can be read while another process writes, and has the content at its opening")
    func besideWriter() throws {
        let writer = try open(.readWrite)
        for number in 0..<100 { try writer.set(KVKey<Int>("key.\(number)"), value: number) }
        let process = memory.process()
        for round in 0..<5 {
            try writer.set(key, value: round)
            if round == 3 { try writer.compact() }
            let reader = try open(.readOnly, on: process)
            #expect(reader.get(key) == round)
            #expect(try reader.keys().count == 101)
            #expect(try reader.snapshot().count == 101)
        }
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }

    @Test("makes no call that changes anything")
    func changesNothing() throws {
        do {
            let store = try open(.readWrite)
            try store.set(key, value: 1)
        }
        let watched = FaultingFileSystem(memory)
        do {
            let store = try open(.readOnly, on: watched)
            #expect(store.get(key) == 1)
            #expect(store.contains(key))
            #expect(try store.damageReports().isEmpty)
            try store.synchronize()
        }
        let allowed: Set<FileSystemOperation> = [.open, .close, .read, .status, .list]
        #expect(Set(watched.log.records.map(\.operation)).isSubset(of: allowed))
    }

    @Test("refuses every write with a typed error")
    func refusesWrites() throws {
        do { try open(.readWrite).set(key, value: 1) }
        let store = try open(.readOnly)
        #expect(code { try store.set(key, value: 2) } == .readOnly)
        #expect(code { try store.set(KVKey<String>("a"), value: "x") } == .readOnly)
        #expect(code { try store.remove(key) } == .readOnly)
        #expect(code { try store.removeAll() } == .readOnly)
        #expect(code { try store.compact() } == .readOnly)
        #expect(code { try store.batch { try $0.set(key, value: 3) } } == .readOnly)
        #expect(try store.read(key) == 1)
        #expect(try store.damageReports().isEmpty)
    }

    @Test("reports a missing store, and creates none")
    func noStore() throws {
        #expect(code { _ = try open(.readOnly) } == .noStore)
        #expect(!memory.fileExists(atPath: "/store"))
        try memory.makeDirectories("/store")
        #expect(code { _ = try open(.readOnly) } == .noStore)
        let names = try memory.withDirectory("/store") { directory throws(FileSystemError) in
            try memory.entries(of: directory).map(\.name)
        }
        #expect(names.isEmpty)
    }

    @Test("reports damage, serves the rest, and leaves the log unchanged")
    func damage() throws {
        do {
            let store = try open(.readWrite)
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        var log = try memory.readFile("/store/log")
        log[LogHeader.size + 25] ^= 1
        let file = try memory.open("/store/log", .writeOnly)
        try memory.writeBytes(log, to: file, at: 0)
        try memory.close(file)
        let store = try open(.readOnly)
        #expect(try store.keys().count == 9)
        #expect(recorder.damage.map(\.kind) == [.records])
        #expect(recorder.damage.first?.file == "/store/log")
        #expect(try memory.readFile("/store/log") == log)
    }

    @Test("reports a log that cannot be read, takes a removed one for a missing store, and leaves no file open")
    func unreadable() throws {
        do { try open(.readWrite).set(key, value: 1) }
        // The first calls on the log are those on the open file; the last one looks at its name.
        let unavailable = KVStoreError.Code.unavailable(.inputOutput)
        let cases: [(FileSystemOperation, Int, Errno, KVStoreError.Code)] = [
            (.status, 0, .ioError, unavailable), (.read, 0, .ioError, unavailable), (.read, 1, .ioError, unavailable),
            (.status, 1, .ioError, unavailable), (.status, 1, .noSuchFileOrDirectory, .noStore),
        ]
        for (operation, number, errno, expected) in cases {
            let failing = FailingFileSystem(memory)
            let count = Atomic(0)
            failing.fail { candidate, path in
                guard candidate == operation, path == "log" else { return nil }
                return count.wrappingAdd(1, ordering: .relaxed).oldValue == number ? errno : nil
            }
            #expect(code { _ = try open(.readOnly, on: failing) } == expected, "\(operation) \(number)")
            #expect(memory.openDescriptors.isEmpty, "\(operation) \(number)")
        }
        #expect(try open(.readOnly).get(key) == 1)
    }

    @Test("refuses a log of a later version, and leaves no file open")
    func laterVersion() throws {
        do { try open(.readWrite).set(key, value: 1) }
        var log = try memory.readFile("/store/log")
        log.replace(at: 8, integer: UInt32(9))
        var checksum = CRC32C()
        checksum.update(log.span, 0..<60)
        log.replace(at: 60, integer: checksum.value)
        let file = try memory.open("/store/log", .writeOnly)
        try memory.writeBytes(log, to: file, at: 0)
        try memory.close(file)
        #expect(code { _ = try open(.readOnly) } == .unknownFormat(version: 9))
        #expect(memory.openDescriptors.isEmpty)
    }

    @Test("recognises bytes that were stored during the read")
    func lateBytes() throws {
        do {
            let store = try open(.readWrite)
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        let log = try memory.readFile("/store/log")
        let file = try memory.open("/store/log", .writeOnly)
        // The first scan sees a record that is not stored yet, and a later one that marks it as flushed.
        try memory.writeBytes([log[LogHeader.size + 25] ^ 1], to: file, at: Int64(LogHeader.size) + 25)
        let reads = Atomic(0)
        let racing = InterceptedFileSystem(memory) { call throws(FileSystemError) in
            // The header, the records, and the header again.
            guard call.operation == .read, reads.wrappingAdd(1, ordering: .relaxed).newValue == 3 else { return }
            try memory.writeBytes(log, to: file, at: 0)
        }
        let store = try open(.readOnly, on: racing)
        #expect(try store.keys().count == 10)
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }
}
