import ChildProcesses
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("A mapping of a file in memory")
struct FileMappingTests {
    private static func mapped(
        _ fileSystem: some POSIXFileSystem, size: Int64, count: Int, reserving: Bool = false
    ) throws -> (mapping: FileMapping, descriptor: Descriptor) {
        let descriptor = try fileSystem.open("/f", .readWrite, options: [.create])
        if reserving {
            try fileSystem.allocate(descriptor, at: 0, length: size)
        } else {
            try fileSystem.truncate(.descriptor(descriptor), to: size)
        }
        return (try fileSystem.map(descriptor, at: 0, count: count), descriptor)
    }

    private static func store(_ text: String, at offset: Int, in mapping: FileMapping) {
        Array(text.utf8).withUnsafeBytes { mapping.store($0, at: offset) }
    }

    private static func load(_ range: Range<Int>, of mapping: FileMapping) -> String {
        mapping.withUnsafeBytes(range) { String(decoding: $0, as: UTF8.self) }
    }

    @Test("storing into a hole of a full device faults, and changes nothing")
    func storesIntoHole() throws {
        let fileSystem = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 8192)))
        let (mapping, descriptor) = try Self.mapped(fileSystem, size: 12_288, count: 12_288)
        for page in 0..<2 { Self.store("x", at: page * 4096, in: mapping) }
        #expect(!mapping.hasFaulted)
        Self.store("x", at: 8192, in: mapping)
        #expect(mapping.hasFaulted)
        #expect(try fileSystem.readBytes(of: descriptor, at: 8192, count: 1) == [0])
    }

    @Test("a signal outside all mappings goes to the handler installed before", .onOwnThreads)
    func foreignSignal() async throws {
        await #expect(processExitsWith: .signal(SIGBUS)) {
            let (mapping, _) = try Self.mapped(SystemFileSystem(), size: 100, count: 65_536)
            Self.store("fine", at: 0, in: mapping)
            raise(SIGBUS)
        }
    }

    @Test("an access outside a mapping traps, in memory and on disk", .onOwnThreads, arguments: [true, false])
    func keepsBounds(_ isInMemory: Bool) async throws {
        await #expect(processExitsWith: .failure) { [isInMemory] in
            let fileSystem: any POSIXFileSystem = isInMemory ? InMemoryFileSystem() : SystemFileSystem()
            let path: POSIXPath = isInMemory ? "/f" : "/tmp/forge-mapping-bounds"
            let descriptor = try fileSystem.open(path, .readWrite, options: [.create])
            try fileSystem.unlink(path)
            try fileSystem.truncate(.descriptor(descriptor), to: 65_536)
            let mapping = try fileSystem.map(descriptor, at: 0, count: 100)
            Self.store("fine", at: 96, in: mapping)
            Self.store("x", at: 100, in: mapping)
        }
    }

    @Test("stores do not allocate reserved space again")
    func reserves() throws {
        let fileSystem = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 16_384)))
        let (mapping, descriptor) = try Self.mapped(fileSystem, size: 12_288, count: 12_288, reserving: true)
        let used = try fileSystem.usage()
        for page in 0..<3 { Self.store("page", at: page * 4096, in: mapping) }
        #expect(try fileSystem.usage() == used)
        let error = #expect(throws: FileSystemError.self) {
            try fileSystem.allocate(descriptor, at: 0, length: 32_768)
        }
        #expect(error?.errno == .noSpace)
        #expect(Self.load(8192..<8196, of: mapping) == "page")
    }

    @Test("the end of a process removes its mappings and keeps stored bytes")
    func ends() throws {
        let disk = InMemoryFileSystem()
        let process = disk.process()
        let (mapping, _) = try Self.mapped(process, size: 8192, count: 8192)
        Self.store("kept", at: 4094, in: mapping)
        process.endProcess()
        Self.store("lost", at: 0, in: mapping)
        let error = #expect(throws: FileSystemError.self) { try mapping.writeBack() }
        #expect(error?.operation == .writeBack)
        #expect(error?.errno == .noMemory)
        let content = try disk.readFile("/f")
        #expect(content[4094..<4098].elementsEqual("kept".utf8))
        #expect(content[..<4].allSatisfy { $0 == 0 })
    }

    @Test("a file is deleted with the last of its names, descriptors and mappings")
    func holdsInode() throws {
        let fileSystem = InMemoryFileSystem()
        var mapping: FileMapping?
        do {
            let (made, descriptor) = try Self.mapped(fileSystem, size: 8192, count: 8192)
            try fileSystem.close(descriptor)
            mapping = made
        }
        try fileSystem.unlink("/f")
        Self.store("held", at: 0, in: try #require(mapping))
        #expect(try fileSystem.usage().inodeCount == 2)
        mapping = nil
        #expect(try fileSystem.usage() == .init(sizeInBytes: 0, inodeCount: 1))
    }

    @Test("bytes stored beyond the end of a file are not part of it")
    func tail() throws {
        let fileSystem = InMemoryFileSystem()
        let (mapping, descriptor) = try Self.mapped(fileSystem, size: 10, count: 4096)
        let other = try fileSystem.map(descriptor, at: 0, count: 4096)
        Self.store("across the end", at: 4, in: mapping)
        #expect(Self.load(4..<18, of: other) == "across the end")
        #expect(try fileSystem.status("/f").sizeInBytes == 10)
        try fileSystem.truncate(.descriptor(descriptor), to: 20)
        #expect(Self.load(4..<20, of: mapping) == "across" + String(repeating: "\0", count: 10))
        #expect(try fileSystem.readFile("/f") == Array("\0\0\0\0across".utf8) + [UInt8](repeating: 0, count: 10))
    }

    @Test("an injected write failure makes writing back fail")
    func failsToWriteBack() throws {
        let fileSystem = InMemoryFileSystem()
        let (mapping, _) = try Self.mapped(fileSystem, size: 10, count: 10)
        Self.store("stored", at: 0, in: mapping)
        fileSystem.writeError = FileSystemError(.write, .diskQuotaExceeded)
        let error = #expect(throws: FileSystemError.self) { try mapping.writeBack() }
        #expect(error?.errno == .ioError)
        #expect(error?.underlying != nil)
        fileSystem.writeError = nil
        try mapping.writeBack()
    }

    @Test("a store is a modification at first, and again once it was written back")
    func times() throws {
        let fileSystem = InMemoryFileSystem()
        let (mapping, _) = try Self.mapped(fileSystem, size: 10, count: 10)
        func modified() throws -> FileTime { try fileSystem.status("/f").modified }
        let start = try modified()
        Self.store("a", at: 0, in: mapping)
        let first = try modified()
        Self.store("b", at: 0, in: mapping)
        #expect(try modified() == first)
        try mapping.writeBack()
        Self.store("c", at: 0, in: mapping)
        #expect(start < first)
        #expect(try first < modified())
    }
}
