import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("An export")
struct ExportTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/store")
    private let destination = URL(filePath: "/out/file")

    init() throws {
        try memory.createDirectory("/out")
    }

    private func names() throws -> [String] {
        try memory.contentsOfDirectory(at: URL(filePath: "/out")).map(\.lastPathComponent).sorted()
    }

    @Test("of any failing call leaves the old file or the new one, and nothing else", arguments: Durability.allCases)
    func everyFailingCall(_ durability: Durability) async throws {
        try await DiskFileStore(root: root, fileSystem: memory).save(Data("new".utf8), to: "d/f")
        for errno in [Errno.ioError, .noSpace, .permissionDenied] {
            var number = 0
            while true {
                try memory.write(Data("old".utf8), to: destination)
                let counter = CallCounter(failing: number..<(number + 1))
                let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                    // A file that cannot be removed stays.
                    guard call.operation != .unlink else { return }
                    try counter.countOrFail(call.operation, call.path, errno)
                }
                let store = DiskFileStore(
                    root: root, fileSystem: fileSystem, options: FileStoreOptions(durability: durability))
                var possible = ["new"]
                do {
                    try await store.export("d/f", to: destination, overwrite: true)
                } catch let error as FileStoreError {
                    #expect(error.operation == .export && error.key == "d/f")
                    if error.code != .durabilityUnknown { possible = ["old"] }
                }
                let content = String(decoding: try memory.read(from: destination), as: UTF8.self)
                #expect(possible.contains(content), "call \(number) with \(errno)")
                #expect(try names() == ["file"], "call \(number) with \(errno)")
                number += 1
                guard counter.didFail else { break }
            }
            #expect(number > 12)
        }
    }

    @Test("replaces no FIFO, socket or device")
    func notRegular() async throws {
        let store = DiskFileStore(root: root, fileSystem: memory)
        try await store.save(Data("x".utf8), to: "f")
        try memory.createNode(
            "/out/file", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        await #expect(
            performing: { try await store.export("f", to: destination, overwrite: true) },
            throws: hasCode(.invalidDestination(.notRegular)))
        #expect(try memory.status("/out/file").type != .regular)
    }

    @Test("names the destination alone in the underlying error", arguments: [FileSystemOperation.write, .rename])
    func path(operation: FileSystemOperation) async throws {
        let store = DiskFileStore(root: root, fileSystem: memory)
        try await store.save(Data(count: 1 << 20), to: "f")
        let full = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == operation else { return }
            throw FileSystemError(operation, .noSpace, path: call.path, destination: call.destination)
        }
        let error = await #expect(throws: FileStoreError.self) {
            try await DiskFileStore(root: root, fileSystem: full).export("f", to: destination)
        }
        #expect(error?.code == .noSpace)
        let cause = try #require(error?.underlying as? FileSystemError)
        #expect(cause.path == "/out/file")
        #expect(cause.destination == nil)
        #expect(try names() == [])
    }

    @Test("flushes as the durability of the store says", arguments: [(Durability.full, 2), (.barrier, 1), (.none, 0)])
    func flushes(_ durability: Durability, count: Int) async throws {
        try await DiskFileStore(root: root, fileSystem: memory).save(Data("x".utf8), to: "f")
        let flushes = Atomic(0)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { flushes.add(1, ordering: .relaxed) }
        }
        let store = DiskFileStore(root: root, fileSystem: fileSystem, options: .init(durability: durability))
        try await store.export("f", to: destination)
        #expect(flushes.load(ordering: .relaxed) == count)
        #expect(try memory.status("/out/file").permissions == [.ownerReadWrite])
    }

    @Test("of a file that another program writes to meanwhile is refused")
    func changes() async throws {
        try await DiskFileStore(root: root, fileSystem: memory).save(Data(count: 3 << 20), to: "f")
        let count = Atomic(0)
        let memory = memory
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .write, count.add(1, ordering: .relaxed).newValue == 2 else { return }
            try memory.truncate(.path("/store/f"), to: 100)
        }
        let store = DiskFileStore(root: root, fileSystem: fileSystem)
        await #expect(
            performing: { try await store.export("f", to: destination) }, throws: hasCode(.conflict))
        #expect(try names() == [])
    }

    @Test("of a file that is replaced and deleted meanwhile has its old content")
    func replaced() async throws {
        let plain = DiskFileStore(root: root, fileSystem: memory)
        try await plain.save(Data(repeating: 7, count: 3 << 20), to: "f")
        let count = Atomic(0)
        let memory = memory
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .write, count.add(1, ordering: .relaxed).newValue == 2 else { return }
            try memory.unlink("/store/f", at: .workingDirectory)
        }
        try await DiskFileStore(root: root, fileSystem: fileSystem).export("f", to: destination)
        #expect(try memory.read(from: destination) == Data(repeating: 7, count: 3 << 20))
        #expect(!plain.exists("f"))
    }

    @Test("is cancelled in the middle by its task or its progress", arguments: [true, false])
    func cancelled(byTask: Bool) async throws {
        try await DiskFileStore(root: root, fileSystem: memory).save(Data(count: 5 << 20), to: "f")
        let progress = Progress(totalUnitCount: 0)
        let task = Mutex<Task<Void, any Error>?>(nil)
        let count = Atomic(0)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .write, count.add(1, ordering: .relaxed).newValue == 2 else { return }
            if byTask { task.withLock { $0?.cancel() } } else { progress.cancel() }
        }
        let store = DiskFileStore(root: root, fileSystem: fileSystem)
        let destination = destination
        let export = task.withLock { task in
            let export = Task { try await store.export("f", to: destination, progress: progress) }
            task = export
            return export
        }
        await #expect(throws: CancellationError.self) { try await export.value }
        #expect(progress.totalUnitCount == 5 << 20)
        #expect(progress.completedUnitCount == 2 << 20)
        #expect(try names() == [])
    }

    @Test("of a large file on the disk is made by the kernel")
    func onDisk() async throws {
        let directory = try TemporaryDirectory()
        let calls = Mutex<[FileSystemOperation: Int]>([:])
        let store = DiskFileStore(
            root: directory.url("store"),
            fileSystem: InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
                calls.withLock { $0[call.operation, default: 0] += 1 }
            })
        let content = Data(repeating: 5, count: 20 << 20)
        try await store.save(content, to: "f")
        calls.withLock { $0 = [:] }
        let progress = Progress(totalUnitCount: 0)
        try await store.export("f", to: directory.url("out"), progress: progress)
        #expect(try Data(contentsOf: directory.url("out")) == content)
        #expect(progress.completedUnitCount == 20 << 20)
        #if os(Linux)
        #expect(calls.withLock { $0[.write] } == nil)
        #expect(calls.withLock { $0[.copyRange] ?? 0 } >= 2)
        #endif
    }
}

@Suite("A move within a device")
struct RenamingMoveTests {
    @Test(
        "flushes the content before the file gets its key, as the durability of the store says",
        arguments: [(Durability.full, true), (.barrier, true), (.none, false)])
    func flushes(_ durability: Durability, isFlushed expected: Bool) async throws {
        let memory = InMemoryFileSystem()
        try memory.write(Data("x".utf8), to: URL(filePath: "/source"))
        let inode = try memory.status("/source").inode
        let isFlushed = Atomic(false)
        let wasFlushed = Mutex<Bool?>(nil)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize, let file = call.descriptor,
                try memory.status(of: .descriptor(file)).inode == inode
            {
                isFlushed.store(true, ordering: .relaxed)
            }
            guard call.operation == .rename, call.destination == "f" else { return }
            let value = isFlushed.load(ordering: .relaxed)
            wasFlushed.withLock { $0 = value }
        }
        let store = DiskFileStore(
            root: URL(filePath: "/store"), fileSystem: fileSystem, options: .init(durability: durability))
        try await store.move(from: URL(filePath: "/source"), to: "f")
        #expect(wasFlushed.withLock { $0 } == expected)
        #expect(try memory.status("/store/f").inode == inode)
    }
}
