import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

/// Copies between two files of the system, of which the kernel makes those that it can.
@Suite("A copy on the disk")
struct KernelCopyTests {
    private let directory: TemporaryDirectory
    private let root: URL

    init() throws {
        directory = try TemporaryDirectory()
        root = directory.url("store")
    }

    private typealias Call = InterceptedFileSystem<SystemFileSystem>.Call

    /// A store that calls `intercept` before every call once it is open.
    private func store(
        _ intercept: @escaping @Sendable (Call) throws(FileSystemError) -> Void
    ) async throws -> DiskFileStore {
        let isOpen = Atomic(false)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
                if isOpen.load(ordering: .relaxed) { try intercept(call) }
            })
        try await store.save(Data(), to: "opened")
        isOpen.store(true, ordering: .relaxed)
        return store
    }

    private func write(_ content: Data, to name: String = "source") throws -> URL {
        let url = directory.url(name)
        try content.write(to: url)
        return url
    }

    /// The names in the store's root, without its own files.
    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: root.path).filter { !$0.hasPrefix("#") }.sorted()
    }

    @Test(
        "keeps the holes of the source", arguments: [[1 << 20], [0, 700 << 20], [(1 << 30) - 1], [], [5000, 9000]])
    func sparse(data: [Int64]) async throws {
        let system = SystemFileSystem()
        let source = try write(Data())
        let file = try system.open(POSIXPath(source), .readWrite)
        for offset in data { try system.writeBytes([1], to: file, at: offset) }
        try system.truncate(.descriptor(file), to: 1 << 30)
        try system.close(file)
        let store = DiskFileStore(root: root)
        try await store.copy(from: source, to: "file")
        let status = try system.status(directory.path("store/file"))
        #expect(status.sizeInBytes == 1 << 30)
        #expect(status.allocatedSizeInBytes <= 1 << 20)
        let reader = try await store.reader(for: "file")
        var found: [Int64] = []
        for offset in Set(data + [0, 4096, 300 << 20, (1 << 30) - 2]).sorted() {
            if try await reader.read(offset..<offset + 1) == Data([1]) { found.append(offset) }
        }
        #expect(found == data)
    }

    @Test(
        "goes on through a buffer where the kernel stops copying",
        arguments: TestDepth.pairs(
            [Errno.notSupported, .improperLink, .invalidArgument, .noFunction, .notPermitted, .ioError], [1, 2]))
    func continues(errno: Errno, number: Int) async throws {
        let count = Atomic(0)
        let store = try await store { (call) throws(FileSystemError) in
            guard call.operation == .copyRange else { return }
            if count.add(1, ordering: .relaxed).newValue == number { throw FileSystemError(.copyRange, errno) }
        }
        let content = patterned(20 << 20 + 3)
        try await store.copy(from: write(content), to: "file")
        #expect(try await store.load("file") == content)
        #expect(count.load(ordering: .relaxed) > 0)
    }

    @Test(
        "that fails in the middle stores nothing, and the error says on which side",
        arguments: [
            (FileSystemOperation.write, Errno.noSpace, FileStoreError.Code.noSpace),
            (.write, .ioError, .unavailable(.inputOutput)), (.read, .ioError, .invalidSource(.unreadable)),
        ])
    func fails(_ operation: FileSystemOperation, _ errno: Errno, _ code: FileStoreError.Code) async throws {
        let count = Atomic(0)
        let store = try await store { (call) throws(FileSystemError) in
            if call.operation == .copyRange { throw FileSystemError(.copyRange, .notSupported) }
            guard call.operation == operation else { return }
            if count.add(1, ordering: .relaxed).newValue == 3 { throw FileSystemError(operation, errno) }
        }
        let content = patterned(5 << 20)
        let source = try write(content)
        await #expect(performing: { try await store.copy(from: source, to: "file") }, throws: hasCode(code))
        #expect(try names() == ["opened"])
        #expect(try Data(contentsOf: source) == content)
    }

    #if os(Linux)
    @Test("is made by the kernel, without writing from memory", arguments: [0, 1, 4095, 3 << 20, 40 << 20 + 7])
    func inKernel(size: Int) async throws {
        let calls = Mutex<[FileSystemOperation: Int]>([:])
        let store = try await store { (call) throws(FileSystemError) in
            calls.withLock { $0[call.operation, default: 0] += 1 }
        }
        let content = patterned(size)
        let source = try write(content)
        try await store.copy(from: source, to: "file")
        #expect(try await store.load("file") == content)
        #expect(calls.withLock { $0[.copyRange] ?? 0 } >= size / (16 << 20) + 1)
        #expect(calls.withLock { $0[.write] } == nil)
    }

    @Test("of a file whose content is generated when it is read has all of it")
    func generated() async throws {
        let store = DiskFileStore(root: root)
        let source = URL(filePath: "/proc/version")
        try await store.copy(from: source, to: "file")
        let content = try await store.load("file")
        #expect(!content.isEmpty)
        #expect(try content == Data(contentsOf: source))
    }

    @Test("from another device has all of the content", arguments: [true, false])
    func otherDevice(moves: Bool) async throws {
        let source = URL(filePath: "/dev/shm/ForgeFileStoreTests-\(UUID().uuidString)")
        let content = patterned(5_000_001)
        try content.write(to: source)
        let store = DiskFileStore(root: root)
        if moves {
            try await store.move(from: source, to: "file")
        } else {
            try await store.copy(from: source, to: "file")
        }
        #expect(try await store.load("file") == content)
        #expect(FileManager.default.fileExists(atPath: source.path) != moves)
        if !moves { try FileManager.default.removeItem(at: source) }
    }

    enum Change: CaseIterable {
        case grows, shrinks, isWritten
    }

    @Test("of a source that changes meanwhile is refused", arguments: Change.allCases, [true, false])
    func changes(_ change: Change, moves: Bool) async throws {
        let source = try write(patterned(20 << 20))
        // The second name makes a move copy.
        try FileManager.default.linkItem(at: source, to: directory.url("second"))
        let path = directory.path("second")
        let count = Atomic(0)
        let store = try await store { (call) throws(FileSystemError) in
            guard call.operation == .copyRange, count.add(1, ordering: .relaxed).newValue == 2 else { return }
            let system = SystemFileSystem()
            switch change {
            case .grows:
                let file = try system.open(path, .writeOnly, options: [.append])
                try system.closing(file) { () throws(FileSystemError) in try system.writeBytes([1], to: file) }
            case .shrinks: try system.truncate(.path(path), to: 19 << 20)
            case .isWritten:
                let file = try system.open(path, .writeOnly)
                try system.closing(file) { () throws(FileSystemError) in try system.writeBytes([1], to: file, at: 0) }
            }
        }
        await #expect(
            performing: {
                if moves {
                    try await store.move(from: source, to: "file")
                } else {
                    try await store.copy(from: source, to: "file")
                }
            }, throws: hasCode(.invalidSource(.changed)))
        #expect(count.load(ordering: .relaxed) > 1)
        #expect(try names() == ["opened"])
        #expect(try Data(contentsOf: source) == Data(contentsOf: directory.url("second")))
    }

    @Test("stops between two pieces when its task is cancelled")
    func cancelled() async throws {
        let task = Mutex<Task<Void, any Error>?>(nil)
        let count = Atomic(0)
        let store = try await store { (call) throws(FileSystemError) in
            guard call.operation == .copyRange, count.add(1, ordering: .relaxed).newValue == 2 else { return }
            task.withLock { $0?.cancel() }
        }
        let source = try write(patterned(60 << 20))
        let copy = task.withLock { task in
            let copy = Task { try await store.copy(from: source, to: "file") }
            task = copy
            return copy
        }
        await #expect(throws: CancellationError.self) { try await copy.value }
        #expect(count.load(ordering: .relaxed) == 2)
        #expect(try names() == ["opened"])
    }
    #endif
}

/// Bytes with a period that divides no block size; built by doubling, because a closure per byte is slow in debug
/// builds.
private func patterned(_ count: Int) -> Data {
    var bytes = Data((0..<4093).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
    while bytes.count < count { bytes += bytes }
    return Data(bytes.prefix(count))
}

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

    @Test("needs no exclusive rename, neither of the source nor back to its name", arguments: [true, false])
    func withoutExclusiveRename(isFull: Bool) async throws {
        let content = Data(repeating: 7, count: 1 << 20)
        try memory.write(content, to: source)
        let refused = Mutex<Set<POSIXPath>>([])
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                // The first rename to a name is the exclusive one.
                guard call.operation == .rename, let name = call.destination,
                    name == "source" || "\(name)".hasPrefix(".forge-move-"),
                    refused.withLock({ $0.insert(name).inserted })
                else { return }
                throw FileSystemError(.rename, .invalidArgument)
            })
        try await store.open()
        if isFull {
            try memory.setQuota(.init(sizeInBytes: 64 << 10))
            await #expect(
                performing: { try await store.move(from: self.source, to: "file") }, throws: hasCode(.noSpace))
            #expect(try memory.read(from: source) == content)
        } else {
            try await store.move(from: source, to: "file")
            #expect(try await store.load("file") == content)
        }
        #expect(try names() == (isFull ? ["source"] : []))
        #expect(refused.withLock { $0.count } == (isFull ? 2 : 1))
    }

    @Test(
        "stores the file before it removes the source, and says what of the removal failed",
        arguments: [FileSystemOperation.unlink, .synchronize])
    func failedRemoval(operation: FileSystemOperation) async throws {
        let isRemoving = Atomic(false)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if call.operation == .unlink, let name = call.path, "\(name)".hasPrefix(".forge-move-") {
                    isRemoving.store(true, ordering: .relaxed)
                }
                guard call.operation == operation, isRemoving.load(ordering: .relaxed) else { return }
                throw FileSystemError(operation, .ioError)
            })
        let stays = operation == .unlink
        await #expect(
            performing: { try await store.move(from: self.source, to: "file") },
            throws: hasCode(stays ? .invalidSource(.notRemoved) : .durabilityUnknown))
        #expect(try await store.load("file") == Data("first,".utf8))
        #expect(try names() == (stays ? ["source"] : []))
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
        await #expect(
            performing: { try await AppendingStore(path: nil).move(from: file, to: "file", overwrite: true) },
            throws: hasCode(.noSpace))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path) == ["source"])
        let store = AppendingStore(path: path)
        try await store.move(from: file, to: "file", overwrite: true)
        #expect(try await store.base.load("file") == Data("first,".utf8))
        #expect(try Data(contentsOf: file) == Data("second".utf8))
    }

    /// A store with only the required calls, during whose saves another program appends to a file; full without one.
    private struct AppendingStore: FileStoring {
        let base = InMemoryFileStore()
        let path: POSIXPath?

        func save(_ data: Data, to key: String, overwrite: Bool) async throws {
            guard let path else { throw FileStoreError(.noSpace, .save, key: key) }
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
