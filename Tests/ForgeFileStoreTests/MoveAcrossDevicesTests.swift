import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

/// Other programs write to a file while it is moved to a store on another device.
@Suite("A move from another device")
struct MoveAcrossDevicesTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/data/store")
    private let source = URL(filePath: "/other/source")

    init() throws {
        try memory.createDirectory("/other")
        try memory.mount(at: "/other")
        try memory.write(Data("first,".utf8), to: source)
    }

    /// A store on a file system that calls `action` once, before the first read of the source.
    private static func store(
        at root: URL, on base: some POSIXFileSystem, action: @escaping @Sendable () throws(FileSystemError) -> Void
    ) async throws -> DiskFileStore {
        let isDone = Atomic(true)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(base) { (call) throws(FileSystemError) in
                guard call.operation == .read, !isDone.exchange(true, ordering: .relaxed) else { return }
                try action()
            })
        // The first write reads the record of temporary names.
        try await store.save(Data(), to: "opened")
        isDone.store(false, ordering: .relaxed)
        return store
    }

    /// Appends like a program that opens the file by its name, which creates a missing file.
    private static func append(
        _ text: String, to path: POSIXPath, on fileSystem: some POSIXFileSystem
    ) throws(FileSystemError) {
        let file = try fileSystem.open(path, .writeOnly, options: [.create, .append])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.writeBytes(Array(text.utf8), to: file)
        }
    }

    private func names() throws -> [String] {
        try memory.contentsOfDirectory(at: URL(filePath: "/other")).map(\.lastPathComponent).sorted()
    }

    @Test("data appended by name during the move is in a new file of that name")
    func appendByName() async throws {
        let store = try await Self.store(at: root, on: memory) { [memory] () throws(FileSystemError) in
            try Self.append("second", to: "/other/source", on: memory)
        }
        try await store.move(from: source, to: "file")
        #expect(try await store.load("file") == Data("first,".utf8))
        #expect(try memory.read(from: source) == Data("second".utf8))
        #expect(try names() == ["source"])
    }

    @Test("a write through an open descriptor fails the move and restores the source", arguments: [true, false])
    func writeThroughDescriptor(appends: Bool) async throws {
        let file = try memory.open("/other/source", .writeOnly)
        let store = try await Self.store(at: root, on: memory) { [memory] () throws(FileSystemError) in
            try memory.writeBytes(Array("SECOND".utf8), to: file, at: appends ? 6 : 0)
        }
        await #expect(
            performing: { try await store.move(from: self.source, to: "file") },
            throws: hasCode(.invalidSource(.changed)))
        #expect(try memory.read(from: source) == Data((appends ? "first,SECOND" : "SECOND").utf8))
        #expect(try names() == ["source"])
        #expect(!store.exists("file"))
    }

    @Test("a full store keeps nothing, and the source gets its name back")
    func full() async throws {
        try memory.write(Data(count: 1 << 20), to: source)
        let store = DiskFileStore(root: root, fileSystem: memory)
        try await store.save(Data("old".utf8), to: "file")
        try memory.setQuota(.init(sizeInBytes: 64 << 10))
        await #expect(
            performing: { try await store.move(from: self.source, to: "file") }, throws: hasCode(.noSpace))
        #expect(try await store.load("file") == Data("old".utf8))
        #expect(try memory.read(from: source).count == 1 << 20)
        #expect(try names() == ["source"])
    }

    @Test("a file that takes the name of a source whose move fails is kept, and the error names the source's own")
    func nameTaken() async throws {
        let file = try memory.open("/other/source", .writeOnly)
        let store = try await Self.store(at: root, on: memory) { [memory] () throws(FileSystemError) in
            try memory.writeBytes(Array("changed".utf8), to: file, at: 6)
            try Self.append("second", to: "/other/source", on: memory)
        }
        let error = await #expect(throws: FileStoreError.self) { try await store.move(from: source, to: "file") }
        #expect(error?.code == .invalidSource(.notRestored))
        #expect(try memory.read(from: source) == Data("second".utf8))
        let cause = try #require(error?.underlying as? FileSystemError)
        let privateName = try #require(cause.path)
        #expect("\(privateName)".hasPrefix("/other/.forge-move-"))
        #expect(try memory.readFile(privateName) == Array("first,changed".utf8))
    }

    @Test(
        "between two devices of this machine, data appended by name is kept",
        .enabled(if: FileManager.default.isWritableFile(atPath: "/dev/shm")))
    func realDevices() async throws {
        let name = "forge-move-\(UUID().uuidString)"
        let here = FileManager.default.temporaryDirectory.appending(component: name)
        let there = URL(filePath: "/dev/shm").appending(component: name)
        for directory in [here, there] {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        }
        defer { for directory in [here, there] { do { try FileManager.default.removeItem(at: directory) } catch {} } }
        let disk = SystemFileSystem()
        guard try disk.status(POSIXPath(here)).device != disk.status(POSIXPath(there)).device else { return }
        let path = try POSIXPath(there).appending("source")
        try disk.write(Data("first,".utf8), to: URL(path))
        let store = try await Self.store(at: here, on: disk) { () throws(FileSystemError) in
            try Self.append("second", to: path, on: SystemFileSystem())
        }
        try await store.move(from: URL(path), to: "file")
        #expect(try await store.load("file") == Data("first,".utf8))
        #expect(try disk.read(from: URL(path)) == Data("second".utf8))
        #expect(try FileManager.default.contentsOfDirectory(atPath: there.path) == ["source"])
    }

    @Test("a store that only saves and loads keeps data appended by name")
    func savingStore() async throws {
        let scratch = FileManager.default.temporaryDirectory.appending(component: "forge-move-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: scratch, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: scratch) } catch {} }
        let file = scratch.appending(component: "source")
        try Data("first,".utf8).write(to: file)
        let path = try POSIXPath(file)
        let store = AppendingStore(path: path)
        try await store.move(from: file, to: "file", overwrite: true)
        #expect(try await store.base.load("file") == Data("first,".utf8))
        #expect(try Data(contentsOf: file) == Data("second".utf8))
    }

    /// A store with only the required calls, during whose saves another program appends to a file.
    private struct AppendingStore: FileStoring {
        let base = InMemoryFileStore()
        let path: POSIXPath

        func save(_ data: Data, to key: String, overwrite: Bool) async throws {
            try MoveAcrossDevicesTests.append("second", to: path, on: SystemFileSystem())
            try await base.save(data, to: key, overwrite: overwrite)
        }
        func load(_ key: String) async throws -> Data { try await base.load(key) }
        func exists(_ key: String) async -> Bool { base.exists(key) }
        func delete(_ key: String) async throws { try await base.delete(key) }
        func list(in directory: String) async throws -> [StoredFile] { try await base.list(in: directory) }
        func deleteAll() async throws { try await base.deleteAll() }
    }
}
