import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("An inspection of a log") struct InspectionTests {
    private let memory = InMemoryFileSystem()
    private let directory = URL(filePath: "/store")

    /// Creates a log of ten keys; returns it and the offset of a byte in its first record.
    private func makeLog() throws -> (content: [UInt8], position: Int) {
        let store = try FileKVStore(at: "/store", fileSystem: memory)
        for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        withExtendedLifetime(store) {}
        return (try memory.readFile("/store/log"), LogHeader.size + 25)
    }

    private func write(_ bytes: [UInt8], at offset: Int) throws(FileSystemError) {
        let file = try memory.open("/store/log", .writeOnly)
        try memory.writeBytes(bytes, to: file, at: Int64(offset))
        try memory.close(file)
    }

    @Test("does not report bytes stored during the read")
    func lateBytes() throws {
        let (content, position) = try makeLog()
        try write([content[position] ^ 1], at: position)
        let reads = Atomic(0)
        let racing = InterceptedFileSystem(memory) { call throws(FileSystemError) in
            // The header, the records, and the header again.
            guard call.operation == .read, reads.wrappingAdd(1, ordering: .relaxed).newValue == 3 else { return }
            try write(content, at: 0)
        }
        let inspection = try #require(try KVInspection(of: directory, fileSystem: racing))
        #expect(inspection.problems.isEmpty, "\(inspection.problems)")
        #expect(inspection.keyCount == 10)
    }

    @Test("reports a log that ends within its first record", arguments: [1, 19, 20, 30, 200])
    func cutWithinFirstRecord(_ size: Int) throws {
        do {
            let store = try FileKVStore(at: "/store", fileSystem: memory)
            try store.batch { batch in
                for number in 0..<100 { try batch.set(KVKey<Int>("key.\(number)"), value: number) }
            }
        }
        let file = try memory.open("/store/log", .readWrite)
        try memory.truncate(.descriptor(file), to: Int64(LogHeader.size + size))
        try memory.close(file)
        let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
        #expect(inspection.problems.count == 1 && inspection.notes.isEmpty, "\(inspection)")
        #expect(inspection.keyCount == 0)
    }

    @Test("finds nothing wrong with a log without records")
    func noRecord() throws {
        try withExtendedLifetime(try FileKVStore(at: "/store", fileSystem: memory)) {
            let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
            #expect(inspection.problems.isEmpty && inspection.notes.isEmpty, "\(inspection)")
        }
    }

    @Test("reports bytes that stay damaged")
    func damage() throws {
        let (content, position) = try makeLog()
        try write([content[position] ^ 1], at: position)
        let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
        #expect(inspection.problems.count == 1)
        #expect(inspection.keyCount == 9)
    }
}
