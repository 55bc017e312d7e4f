import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A log with a second hard link, as in a backup made of hard links")
struct LinkedLogTests {
    private let memory = InMemoryFileSystem()
    private let key = KVKey<Int>("a")

    private func open(_ access: FileKVStore.Access) throws -> FileKVStore {
        var options = FileKVStore.Options()
        options.access = access
        return try FileKVStore(at: "/backup", fileSystem: memory, options: options)
    }

    init() throws {
        do { try FileKVStore(at: "/store", fileSystem: memory).set(key, value: 1) }
        try memory.createDirectory("/backup")
        try memory.link("/store/log", to: "/backup/log")
    }

    @Test("is read")
    func reading() throws {
        #expect(try open(.readOnly).read(key) == 1)
        let inspection = try #require(try KVInspection(of: URL(filePath: "/backup"), fileSystem: memory))
        #expect(inspection.keyCount == 1)
        #expect(inspection.problems.isEmpty)
    }

    @Test("is not written to")
    func writing() throws {
        let log = try memory.readFile("/store/log")
        let error = #expect(throws: KVStoreError.self) { try open(.readWrite) }
        #expect((error?.underlying as? FileSystemError)?.errno == .tooManyLinks)
        #expect(try memory.readFile("/store/log") == log)
    }
}
