import ForgeFileStore
import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("DiskFileStore on the disk")
struct DiskFileStoreTests {
    private let directory: TemporaryDirectory
    private let store: DiskFileStore
    private let fileSystem = SystemFileSystem()

    init() throws {
        directory = try TemporaryDirectory()
        store = DiskFileStore(root: directory.url("a/b/store"))
    }

    private func permissions(_ path: String) throws -> FilePermissions {
        try fileSystem.status(directory.path(path), followsSymbolicLinks: false).permissions
    }

    @Test("files are plain files below the root")
    func layout() async throws {
        try await store.save(Data("hello".utf8), to: "notes/a.txt")
        #expect(try directory.read("a/b/store/notes/a.txt") == "hello")
        let url = try await store.url(for: "notes/a.txt")
        #expect(try Data(contentsOf: url) == Data("hello".utf8))
        #expect(try store.root.path == directory.url("a/b/store").path)
    }

    @Test("creating a store performs no I/O, opening it creates the root")
    func opening() async throws {
        #expect(!FileManager.default.fileExists(atPath: directory.url("a").path))
        try await store.open()
        try await store.open()
        #expect(try permissions("a/b/store") == .ownerReadWriteExecute)
        #expect(try permissions("a") == .ownerReadWriteExecute)
    }

    @Test("files are 0600 and directories 0700, including copied and moved ones")
    func modes() async throws {
        try await store.save(Data(), to: "x/y/saved")
        try directory.write("1", to: "source")
        try fileSystem.setPermissions(
            [.ownerReadWriteExecute, .groupReadWriteExecute, .otherReadWriteExecute],
            of: .path(directory.path("source")))
        try await store.copy(from: directory.url("source"), to: "x/copied")
        try await store.move(from: directory.url("source"), to: "x/moved")
        try await store.createDirectory("x/z")
        for key in ["x/y/saved", "x/copied", "x/moved"] {
            #expect(try permissions("a/b/store/" + key) == .ownerReadWrite, "\(key)")
        }
        for key in ["x", "x/y", "x/z"] {
            #expect(try permissions("a/b/store/" + key) == .ownerReadWriteExecute, "\(key)")
        }
    }

    @Test("the next store that writes removes only recorded files")
    func sweep() async throws {
        try await store.save(Data("1".utf8), to: "d/file")
        let journal = try directory.journal("a/b/store/#journal-0")
        let other = DiskFileStore(root: directory.url("a/b/store"))
        let own = "a/b/store/d/#tmp-\(journal.id)-0"
        let writer = try await store.writer(for: "d/written")
        try directory.write("left over", to: own)
        try directory.write("kept", to: "a/b/store/#tmp-\(journal.id)-0")
        try directory.write("kept", to: "a/b/store/d/#tmp-abcdefghabcdefgh")
        try directory.write("kept", to: "a/b/store/d/#trash-abcdefghabcdefgh/x")
        // The owner of the record uses it.
        try await other.save(Data("2".utf8), to: "d/file")
        #expect(try directory.read(own) == "left over")
        let copy = directory.url("copy")
        try FileManager.default.copyItem(at: directory.url("a/b/store"), to: copy)
        await writer.cancel()
        let next = DiskFileStore(root: copy)
        #expect(try await next.list(recursive: true).map(\.key).sorted() == ["d", "d/file"])
        #expect(try directory.read("copy/d/#tmp-\(journal.id)-0") == "left over")
        try await next.save(Data("3".utf8), to: "d/file")
        let names = Set(try FileManager.default.contentsOfDirectory(atPath: copy.path))
        #expect(names == ["#journal-0", "#journal-1", "#store-files", "#tmp-\(journal.id)-0", "d"])
        #expect(
            Set(try FileManager.default.contentsOfDirectory(atPath: copy.appending(path: "d").path))
                == ["#tmp-abcdefghabcdefgh", "#trash-abcdefghabcdefgh", "file"])
    }

    @Test("two stores on one root see each other's files, and the second does not remove the first's temporary files")
    func twoStores() async throws {
        let other = DiskFileStore(root: directory.url("a/b/store"))
        try await store.save(Data("1".utf8), to: "x")
        try directory.write("being written", to: "a/b/store/#tmp-abcdefghabcdefgh")
        #expect(try await other.load("x") == Data("1".utf8))
        #expect(try directory.read("a/b/store/#tmp-abcdefghabcdefgh") == "being written")
        try await other.save(Data("2".utf8), to: "x")
        #expect(try await store.load("x") == Data("2".utf8))
        try await other.deleteAll()
        #expect(!store.exists("x"))
        #expect(try directory.read("a/b/store/#tmp-abcdefghabcdefgh") == "being written")
    }

    @Test("the next save recreates a removed root")
    func removedRoot() async throws {
        try await store.save(Data("1".utf8), to: "x/y")
        try FileManager.default.removeItem(at: directory.url("a"))
        await #expect(performing: { try await store.load("x/y") }, throws: hasCode(.notFound))
        try await store.save(Data("2".utf8), to: "x/y")
        #expect(try await store.load("x/y") == Data("2".utf8))
        #expect(try directory.read("a/b/store/x/y") == "2")
        try FileManager.default.removeItem(at: directory.url("a"))
        try await store.createDirectory("d")
        #expect(try directory.tree("a/b/store/d").count == 1)
    }

    @Test("a root is unavailable, never an empty store, until it can be opened")
    func unusableRoot() async throws {
        try directory.write("in the way", to: "a/b")
        await #expect(performing: { try await store.load("x") }, throws: hasCode(.unavailable(.inputOutput)))
        await #expect(
            performing: { try await store.loadJSONIfExists("x", as: Int.self) },
            throws: hasCode(.unavailable(.inputOutput)))
        await #expect(
            performing: { try await store.save(Data(), to: "x") }, throws: hasCode(.unavailable(.inputOutput)))
        await #expect(performing: { try await store.open() }, throws: hasCode(.unavailable(.inputOutput)))
        #expect(!store.exists("x"))
        try FileManager.default.removeItem(at: directory.url("a/b"))
        try await store.save(Data("1".utf8), to: "x")
        #expect(store.exists("x"))
    }

    @Test("a store with a URL that is not a local path throws on every call")
    func badURL() async throws {
        let url = try #require(URL(string: "https://example.com/store"))
        let store = DiskFileStore(root: url)
        await #expect(performing: { try await store.load("x") }, throws: hasCode(.unavailable(.inputOutput)))
        await #expect(performing: { try await store.url(for: "x") }, throws: hasCode(.unavailable(.inputOutput)))
        #expect(throws: FileStoreError.self) { try store.root }
    }

    @Test("a namespace is one component")
    func namespace() async throws {
        // It fails at once: for a wait for a thread this deadline would be too short.
        for namespace in ["a/b", "..", "", "a\0"] {
            let store = DiskFileStore(
                directory: .caches, namespace: namespace, options: FileStoreOptions(deadline: .zero))
            await #expect {
                try await store.save(Data(), to: "x")
            } throws: { error in
                guard case .invalidKey = (error as? FileStoreError)?.code else { return false }
                return (error as? FileStoreError)?.key == namespace
            }
        }
    }

    @Test("a call of a store without a root fails at once, although all threads are taken")
    func threads() async throws {
        let (lane, gate) = (BlockingLane.general, DispatchSemaphore(value: 0))
        let store = DiskFileStore(
            directory: .caches, namespace: "..", options: FileStoreOptions(deadline: .milliseconds(100)))
        let error = try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0...lane.limit { group.addTask { await lane.run { gate.wait() } } }
            defer { for _ in 0...lane.limit { gate.signal() } }
            while lane.waitingCount == 0 { try await Task.sleep(for: .milliseconds(1)) }
            return await #expect(throws: FileStoreError.self) { try await store.save(Data(), to: "x") }
        }
        guard case .invalidKey = try #require(error).code else { return #expect(error?.code == nil) }
    }

    @Test("names that are not valid keys are not listed, and deleteAll keeps them")
    func foreignNames() async throws {
        try await store.save(Data("1".utf8), to: "x")
        try directory.write("2", to: "a/b/store/back\\slash")
        let descriptor = try fileSystem.open(
            directory.path("a/b/store/").appending(POSIXPath([0xff, 0xfe])), .writeOnly, options: [.create])
        try fileSystem.close(descriptor)
        #expect(try await store.list(recursive: true).map(\.key) == ["x"])
        #expect(try await store.totalSize() == 1)
        try await store.deleteAll()
        #expect(!store.exists("x"))
        #expect(try directory.read("a/b/store/back\\slash") == "2")
        #expect(try fileSystem.exists(directory.path("a/b/store/").appending(POSIXPath([0xff, 0xfe]))))
    }

    @Test("a file above the load limit is too large, and no memory is allocated for it")
    func tooLarge() async throws {
        let store = DiskFileStore(root: directory.url("s"), options: .init(maximumLoadSizeInBytes: 1000))
        try await store.save(Data(count: 1000), to: "fits")
        try await store.save(Data(count: 1001), to: "does not")
        #expect(try await store.load("fits").count == 1000)
        await #expect(performing: { try await store.load("does not") }, throws: hasCode(.tooLarge))
        try fileSystem.truncate(.path(directory.path("s/does not")), to: 1 << 40)
        await #expect(performing: { try await store.load("does not") }, throws: hasCode(.tooLarge))
        #expect(try await store.size("does not") == 1 << 40)
    }

    @Test("a move on the same device is a rename: the inode is kept")
    func renames() async throws {
        try directory.write("content", to: "source")
        let inode = try fileSystem.status(directory.path("source")).inode
        try await store.move(from: directory.url("source"), to: "x/y")
        #expect(try fileSystem.status(directory.path("a/b/store/x/y")).inode == inode)
        #expect(try directory.read("a/b/store/x/y") == "content")
    }

    @Test("a file with two hard links is moved by copying, and the other name keeps its file")
    func movesHardLink() async throws {
        try directory.write("content", to: "source")
        try fileSystem.link(directory.path("source"), to: directory.path("second"))
        try await store.move(from: directory.url("source"), to: "x")
        #expect(try await store.load("x") == Data("content".utf8))
        #expect(try directory.read("second") == "content")
        #expect(!FileManager.default.fileExists(atPath: directory.url("source").path))
    }

    @Test("a stored file moved or copied onto itself is kept")
    func movesOntoItself() async throws {
        try await store.save(Data("content".utf8), to: "x")
        try await store.move(from: try await store.url(for: "x"), to: "x")
        #expect(try await store.load("x") == Data("content".utf8))
        try await store.copy(from: try await store.url(for: "x"), to: "x")
        #expect(try await store.load("x") == Data("content".utf8))
        let copying = DiskFileStore(root: directory.url("a/b/store"), sources: SystemFileSystem())
        try await copying.move(from: try await copying.url(for: "x"), to: "x")
        #expect(try await store.load("x") == Data("content".utf8))
    }

    @Test("a failed move restores the file's mode")
    func failedMove() async throws {
        try directory.write("content", to: "source")
        try fileSystem.setPermissions([.ownerReadWrite, .otherRead], of: .path(directory.path("source")))
        try await store.createDirectory("dir")
        await #expect(
            performing: { try await store.move(from: directory.url("source"), to: "dir") },
            throws: hasCode(.isDirectory))
        #expect(try permissions("source") == [.ownerReadWrite, .otherRead])
        #expect(try directory.read("source") == "content")
    }

    @Test("any durability keeps content and mode", arguments: Durability.allCases)
    func durability(_ durability: Durability) async throws {
        let store = DiskFileStore(root: directory.url("s"), options: .init(durability: durability))
        try await store.save(Data("1".utf8), to: "x/y")
        try await store.save(Data("2".utf8), to: "x/y")
        try directory.write("3", to: "source")
        try await store.move(from: directory.url("source"), to: "x/z")
        #expect(try await store.load("x/y") == Data("2".utf8))
        #expect(try await store.load("x/z") == Data("3".utf8))
        try await store.delete("x/y")
        try await store.deleteDirectory("x")
        try await store.deleteAll()
        #expect(try permissions("s") == .ownerReadWriteExecute)
    }
}
