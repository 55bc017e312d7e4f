import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
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
        arguments: [Errno.notSupported, .improperLink, .invalidArgument, .noFunction, .notPermitted, .ioError],
        [1, 2])
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
