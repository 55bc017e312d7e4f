import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("Foreign entries in a store's directory are not followed", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct LinkAttackTests {
    private let directory: TemporaryDirectory
    private let store: DiskFileStore
    private let fileSystem = SystemFileSystem()

    init() async throws {
        directory = try TemporaryDirectory()
        try directory.write("secret", to: "outside/secret.txt")
        store = DiskFileStore(root: directory.url("store"), options: .init(durability: .none))
        try await store.save(Data("mine".utf8), to: "own/file.txt")
    }

    @Test("no call follows a link to a directory outside")
    func linkedDirectory() async throws {
        try fileSystem.createSymbolicLink(directory.path("store/link"), to: directory.path("outside"))
        let before = try directory.tree("outside")
        let source = directory.url("source")
        try directory.write("source", to: "source")
        let refused = hasCode(.unsafe(.symbolicLink))
        let key = "link/secret.txt"
        await #expect(performing: { try await store.load(key) }, throws: refused)
        await #expect(performing: { try await store.info(key) }, throws: refused)
        await #expect(performing: { try await store.save(Data(), to: key) }, throws: refused)
        await #expect(performing: { try await store.save(Data(), to: "link/a/b") }, throws: refused)
        await #expect(performing: { try await store.save(Data(), to: key, overwrite: false) }, throws: refused)
        await #expect(performing: { try await store.delete(key) }, throws: refused)
        await #expect(performing: { try await store.list(in: "link") }, throws: refused)
        await #expect(performing: { try await store.createDirectory("link/new") }, throws: refused)
        await #expect(performing: { try await store.deleteDirectory(key) }, throws: refused)
        await #expect(performing: { try await store.copy(from: source, to: "link/x") }, throws: refused)
        await #expect(performing: { try await store.move(from: source, to: "link/x") }, throws: refused)
        #expect(!store.exists(key))
        #expect(try directory.read("source") == "source")
        #expect(try await store.list(recursive: true).map(\.key).sorted() == ["link", "own", "own/file.txt"])
        #expect(try await store.info("link").kind == .other)
        #expect(try await store.totalSize() == 4)
        await #expect(performing: { try await store.deleteDirectory("link") }, throws: hasCode(.notDirectory))
        try await store.deleteAll()
        #expect(try directory.tree("outside") == before)
    }

    @Test("a link to a file outside is not read, replaced or deleted")
    func linkedFile() async throws {
        let before = try directory.tree("outside")
        try fileSystem.createSymbolicLink(directory.path("store/link"), to: "../outside/secret.txt")
        await #expect(performing: { try await store.load("link") }, throws: hasCode(.unsafe(.symbolicLink)))
        await #expect(
            performing: { try await store.save(Data(), to: "link", overwrite: false) }, throws: hasCode(.alreadyExists))
        await #expect(
            performing: { try await store.save(Data("new".utf8), to: "link") }, throws: hasCode(.unsafe(.symbolicLink)))
        await #expect(performing: { try await store.delete("link") }, throws: hasCode(.unsafe(.symbolicLink)))
        #expect(try fileSystem.readSymbolicLink(directory.path("store/link")) == "../outside/secret.txt")
        #expect(try directory.tree("outside") == before)
    }

    @Test("a dangling link cannot be used to create a file outside")
    func danglingLink() async throws {
        try fileSystem.createSymbolicLink(directory.path("store/link"), to: "../outside/new.txt")
        await #expect(
            performing: { try await store.save(Data("x".utf8), to: "link", overwrite: true) },
            throws: hasCode(.unsafe(.symbolicLink)))
        #expect(try await store.info("link").kind == .other)
        #expect(throws: FileSystemError.self) { try fileSystem.status(directory.path("outside/new.txt")) }
    }

    @Test("a file with a second hard link is read, replaced and deleted, and the other name keeps its content")
    func hardLink() async throws {
        try fileSystem.link(directory.path("outside/secret.txt"), to: directory.path("store/hard"))
        #expect(try await store.load("hard") == Data("secret".utf8))
        try await store.save(Data("new".utf8), to: "hard")
        #expect(try await store.load("hard") == Data("new".utf8))
        #expect(try directory.read("outside/secret.txt") == "secret")
        try fileSystem.link(directory.path("outside/secret.txt"), to: directory.path("store/other"))
        try await store.delete("other")
        #expect(!store.exists("other"))
        #expect(try directory.read("outside/secret.txt") == "secret")
    }

    @Test("a file outside that is linked to its key already is moved by removing the name outside")
    func movesOntoOtherLink() async throws {
        // rename(2) of one link over another of the same file does nothing.
        try fileSystem.link(directory.path("store/own/file.txt"), to: directory.path("source"))
        try await store.move(from: directory.url("source"), to: "own/file.txt")
        #expect(try await store.load("own/file.txt") == Data("mine".utf8))
        #expect(try !fileSystem.exists(directory.path("source")))
    }

    @Test("a FIFO does not block any call")
    func fifo() async throws {
        try fileSystem.createNode(
            directory.path("store/fifo"), at: .workingDirectory, type: FileType(rawValue: 0o010000),
            permissions: .ownerReadWrite, deviceNumber: 0)
        await #expect(performing: { try await store.load("fifo") }, throws: hasCode(.unsafe(.notRegular)))
        #expect(try await store.info("fifo").kind == .other)
        #expect(try await store.totalSize() == 4)
        await #expect(
            performing: { try await store.copy(from: directory.url("store/fifo"), to: "x") },
            throws: hasCode(.invalidSource(.notRegular)))
        await #expect(
            performing: { try await store.move(from: directory.url("store/fifo"), to: "x") },
            throws: hasCode(.invalidSource(.notRegular)))
        await #expect(
            performing: { try await store.save(Data("new".utf8), to: "fifo") }, throws: hasCode(.unsafe(.notRegular)))
        await #expect(performing: { try await store.delete("fifo") }, throws: hasCode(.unsafe(.notRegular)))
        #expect(try await store.info("fifo").kind == .other)
    }

    @Test("a directory repeatedly swapped for a link to outside never gives access to outside")
    func race() async throws {
        try directory.write("secret", to: "outside/file.txt")
        let before = try directory.tree("outside")
        try await store.save(Data("mine".utf8), to: "dir/file.txt")
        try fileSystem.createSymbolicLink(directory.path("store/trap"), to: directory.path("outside"))
        let swaps = Mutex(0)
        let isDone = Mutex(false)
        let hasEnded = Mutex(false)
        let (dir, trap) = (directory.path("store/dir"), directory.path("store/trap"))
        let swapCount = TestDepth.limit(2_000, deep: 20_000)
        let swapper = Thread {
            do {
                while !isDone.withLock({ $0 }) {
                    try SystemFileSystem().rename(dir, to: trap, .exchanging)
                    swaps.withLock { $0 += 1 }
                    // Leaves the processor to the store, which meets both states all the same.
                    usleep(20)
                }
            } catch {
                Issue.record("the swap failed: \(error)")
            }
            hasEnded.withLock { $0 = true }
        }
        swapper.start()
        var (count, reached) = (0, 0)
        while !hasEnded.withLock({ $0 }), count < swapCount / 10 || swaps.withLock({ $0 }) < swapCount {
            count += 1
            do {
                switch count % 5 {
                case 0: try await store.save(Data("mine".utf8), to: "dir/file.txt")
                case 1: try await store.save(Data("mine".utf8), to: "dir/new\(count % 7)")
                case 2: #expect(try await store.load("dir/file.txt") == Data("mine".utf8))
                case 3: try await store.delete("dir/new\(count % 7)")
                default:
                    for file in try await store.list(in: "dir") { #expect(file.name != "secret.txt") }
                }
                reached += 1
            } catch let error as FileStoreError {
                #expect([.unsafe(.symbolicLink), .notFound].contains(error.code), "\(error)")
            }
        }
        isDone.withLock { $0 = true }
        while !hasEnded.withLock({ $0 }) { await Task.yield() }
        #expect(swaps.withLock { $0 } >= swapCount)
        #expect(reached > 0)
        #expect(try directory.tree("outside") == before)
    }
}

/// Another program replaces the file at the source's name between the checks of a move and its rename.
@Suite("A move whose source is swapped")
struct SwappedSourceTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/data/store")
    private let source = URL(filePath: "/in/source")

    init() throws {
        try memory.createDirectory("/in")
        try memory.write(Data("source".utf8), to: source)
        try memory.setPermissions([.ownerReadWrite, .otherRead], of: .path("/in/source"))
        try memory.write(Data("other".utf8), to: URL(filePath: "/in/other"))
    }

    enum Swap: String, CaseIterable, CustomTestStringConvertible {
        case file, symbolicLink, hardLink, directory, fifo, secondName, nothing

        var testDescription: String { rawValue }

        /// Changes the file at `/in/source`; with `removing`, the source itself loses its only name.
        func perform(on fileSystem: InMemoryFileSystem, removing: Bool) throws(FileSystemError) {
            let source: POSIXPath = "/in/source"
            guard self != .secondName else { return try fileSystem.link(source, to: "/in/second") }
            if removing {
                try fileSystem.unlink(source)
            } else {
                try fileSystem.rename(source, to: "/in/aside")
            }
            switch self {
            case .file: try fileSystem.rename("/in/other", to: source)
            case .symbolicLink: try fileSystem.createSymbolicLink(source, to: "/in/other")
            case .hardLink: try fileSystem.link("/in/other", to: source)
            case .directory: try fileSystem.createDirectory(source)
            case .fifo:
                try fileSystem.createNode(
                    source, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            case .secondName, .nothing: break
            }
        }
    }

    /// A store on a file system that calls `action` before the first rename of the source, and `restoring` before a
    /// later rename to its name.
    private func store(
        restoring: @escaping @Sendable () throws(FileSystemError) -> Void = { () throws(FileSystemError) in },
        action: @escaping @Sendable () throws(FileSystemError) -> Void
    ) -> DiskFileStore {
        DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                guard call.operation == .rename else { return }
                if call.path == "source" { try action() }
                if call.destination == "source" { try restoring() }
            })
    }

    private func names(in directory: String) throws -> Set<String> {
        Set(try memory.contentsOfDirectory(at: URL(filePath: directory)).map(\.lastPathComponent))
    }

    @Test(
        "stores nothing, and keeps the old file and the file at the source's name", arguments: Swap.allCases,
        [false, true])
    func swap(_ swap: Swap, removing: Bool) async throws {
        let memory = memory
        let store = store { () throws(FileSystemError) in try swap.perform(on: memory, removing: removing) }
        try await store.save(Data("old".utf8), to: "file")
        await #expect(
            performing: { try await store.move(from: self.source, to: "file") },
            throws: hasCode(.invalidSource(.changed)))
        #expect(try await store.load("file") == Data("old".utf8))
        #expect(try names(in: "/data/store") == ["#journal-0", "#store-files", "file"])
        var left: Set = ["source", "other"]
        switch swap {
        case .file: left.remove("other")
        case .secondName: left.insert("second")
        case .nothing: left.remove("source")
        default: break
        }
        if !removing, swap != .secondName { left.insert("aside") }
        #expect(try names(in: "/in") == left)
        for name in ["aside", "second"] where left.contains(name) {
            let path = ("/in" as POSIXPath).appending(POSIXPath(name))
            #expect(try memory.readFile(path) == Array("source".utf8))
            #expect(try memory.status(path).permissions == [.ownerReadWrite, .otherRead])
        }
    }

    @Test("whose name is taken by another file twice is kept under a name in the error")
    func nameTaken() async throws {
        let memory = memory
        let store = store(
            restoring: { () throws(FileSystemError) in
                try memory.createSymbolicLink("/in/source", to: "/in/other")
            },
            action: { () throws(FileSystemError) in try Swap.file.perform(on: memory, removing: false) })
        try await store.save(Data("old".utf8), to: "file")
        let error = await #expect(throws: FileStoreError.self) { try await store.move(from: source, to: "file") }
        #expect(error?.code == .invalidSource(.notRestored))
        let cause = try #require(error?.underlying as? FileSystemError)
        let kept = try #require(cause.path)
        #expect("\(kept)".hasPrefix("/data/store/#move-"))
        #expect(cause.destination == "/in/source")
        #expect(try memory.readFile(kept) == Array("other".utf8))
        #expect(try memory.readSymbolicLink("/in/source") == "/in/other")
        // No later call lists, reaches or removes it.
        let next = DiskFileStore(root: root, fileSystem: memory)
        try await next.save(Data("new".utf8), to: "file")
        #expect(try await next.list(recursive: true).map(\.key) == ["file"])
        let name = String(kept.splitLast().name)
        await #expect(performing: { try await next.delete(name) }, throws: hasCode(.invalidKey(.reserved)))
        try await next.deleteAll()
        #expect(try memory.readFile(kept) == Array("other".utf8))
    }

    @Test("that is renamed back after a failure, durably, keeps its mode, and the old file is kept")
    func failure() async throws {
        let memory = memory
        let inode = try memory.status("/in").inode
        let flushCount = Mutex(0)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if call.operation == .synchronize, let file = call.descriptor,
                    try memory.status(of: .descriptor(file)).inode == inode
                {
                    flushCount.withLock { $0 += 1 }
                }
                guard call.operation == .rename, call.destination == "file" else { return }
                if memory.fileExists(atPath: "/data/store/file") { throw FileSystemError(.rename, .noSpace) }
            })
        try await store.save(Data("old".utf8), to: "file")
        await #expect(performing: { try await store.move(from: self.source, to: "file") }, throws: hasCode(.noSpace))
        #expect(try await store.load("file") == Data("old".utf8))
        #expect(try memory.readFile("/in/source") == Array("source".utf8))
        #expect(flushCount.withLock { $0 } == 1)
        #expect(try memory.status("/in/source").permissions == [.ownerReadWrite, .otherRead])
        #expect(try names(in: "/in") == ["source", "other"])
        #expect(try names(in: "/data/store") == ["#journal-0", "#store-files", "file"])
    }

    @Test("whose new name may not be durable has the mode of a stored file")
    func unknownDurability() async throws {
        let isRenamed = Atomic(false)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if call.operation == .rename, call.destination == "file" { isRenamed.store(true, ordering: .relaxed) }
                guard call.operation == .synchronize, isRenamed.load(ordering: .relaxed) else { return }
                throw FileSystemError(.synchronize, .ioError)
            })
        await #expect(
            performing: { try await store.move(from: self.source, to: "file") }, throws: hasCode(.durabilityUnknown))
        #expect(try memory.readFile("/data/store/file") == Array("source".utf8))
        #expect(try memory.status("/data/store/file").permissions == .ownerReadWrite)
        #expect(try names(in: "/in") == ["other"])
    }

    @Test("to an existing key does not lose its name if it may not overwrite")
    func taken() async throws {
        let store = store { () throws(FileSystemError) in Issue.record("the source was renamed") }
        try await store.save(Data("old".utf8), to: "file")
        await #expect(
            performing: { try await store.move(from: self.source, to: "file", overwrite: false) },
            throws: hasCode(.alreadyExists))
        #expect(try memory.readFile("/in/source") == Array("source".utf8))
    }
}
