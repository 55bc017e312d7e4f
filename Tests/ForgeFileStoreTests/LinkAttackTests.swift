import ForgeFileStore
import ForgeFileSystem
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
