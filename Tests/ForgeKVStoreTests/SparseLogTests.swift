import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

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
