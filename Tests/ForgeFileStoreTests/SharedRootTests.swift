import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("A root changed by other programs")
struct SharedRootTests {
    private let directory: TemporaryDirectory
    private let store: DiskFileStore

    init() throws {
        directory = try TemporaryDirectory()
        store = DiskFileStore(root: directory.url("store"), options: .init(durability: .none))
    }

    @Test("a replaced root is reopened by reads and writes")
    func replacedRoot() async throws {
        try await store.save(Data("old".utf8), to: "x/y")
        try FileManager.default.moveItem(at: directory.url("store"), to: directory.url("old"))
        try directory.write("new", to: "store/x/y")
        #expect(try await store.load("x/y") == Data("new".utf8))
        #expect(store.exists("x/y"))
        try FileManager.default.removeItem(at: directory.url("old"))
        try FileManager.default.moveItem(at: directory.url("store"), to: directory.url("old"))
        try FileManager.default.createDirectory(at: directory.url("store"), withIntermediateDirectories: false)
        #expect(!store.exists("x/y"))
        try await store.save(Data("saved".utf8), to: "z")
        #expect(try directory.read("store/z") == "saved")
        #expect(!FileManager.default.fileExists(atPath: directory.url("old/z").path))
        try FileManager.default.removeItem(at: directory.url("store"))
        try await store.deleteAll()
        #expect(try await store.list(recursive: true) == [])
        await #expect(performing: { try await store.delete("z") }, throws: hasCode(.notFound))
    }

    @Test("reading creates nothing")
    func reading() async throws {
        #expect(try await store.list(recursive: true) == [])
        #expect(try await store.totalSize() == 0)
        #expect(!store.exists("x"))
        await #expect(performing: { try await store.load("x") }, throws: hasCode(.notFound))
        await #expect(performing: { try await store.info("x") }, throws: hasCode(.notFound))
        await #expect(performing: { try await store.list(in: "x") }, throws: hasCode(.notFound))
        await #expect(performing: { try await store.delete("x") }, throws: hasCode(.notFound))
        await #expect(performing: { try await store.deleteDirectory("x") }, throws: hasCode(.notFound))
        try await store.deleteAll()
        #expect(!FileManager.default.fileExists(atPath: directory.url("store").path))
    }

    @Test("a directory with another program's file is not deleted, nor are its entries, and the error has the path")
    func foreignContent() async throws {
        try await store.save(Data("1".utf8), to: "d/e/file")
        try directory.write("notes", to: "store/d/e/#notes#")
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory("d") }
        #expect(error.map { "\($0)" }?.contains("d/e/#notes#") == true)
        #expect(try await store.load("d/e/file") == Data("1".utf8))
        try await store.deleteAll()
        #expect(!store.exists("d/e/file"))
        #expect(try directory.read("store/d/e/#notes#") == "notes")
    }

    @Test("concurrent listings all contain every file once")
    func parallelListings() async throws {
        for number in 0..<300 { try await store.save(Data(), to: "file \(number)") }
        try await withThrowingTaskGroup(of: [String].self) { group in
            for _ in 0..<64 { group.addTask { [store] in try await store.list(in: "").map(\.key) } }
            for try await keys in group {
                #expect(keys.count == 300)
                #expect(Set(keys).count == 300)
            }
        }
    }

    @Test("a directory removed after it was opened is omitted from a listing")
    func listingBesideRemoval() async throws {
        let base = InMemoryFileSystem()
        let listings = Mutex(0)
        let fileSystem = InterceptedFileSystem(base) { (call) throws(FileSystemError) in
            guard call.operation == .list,
                listings.withLock({
                    $0 += 1; return $0
                }) == 2
            else { return }
            try base.removeTree("/store/d")
        }
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        for key in ["d/a", "b"] { try await store.save(Data(), to: key) }
        listings.withLock { $0 = 0 }
        #expect(Set(try await store.list(recursive: true).map(\.key)) == ["d", "b"])
    }

    @Test(
        "what disappears after its name was read is neither listed nor counted",
        arguments: [("f", .status), ("d", .status), ("d", .open)] as [(String, FileSystemOperation)])
    func disappearance(name: String, operation: FileSystemOperation) async throws {
        // Of a directory that disappears later, when it is opened, nothing but its name may be listed.
        let late = operation == .open ? name : ""
        for call in 0..<3 {
            // A sum opens directories without looking at them before.
            let operation = call == 2 && name == "d" ? .open : operation
            let base = InMemoryFileSystem()
            let disappears = Atomic(false)
            let fileSystem = InterceptedFileSystem(base) { (call) throws(FileSystemError) in
                guard call.operation == operation,
                    call.path?.splitLast().name == POSIXPath(name), disappears.exchange(false, ordering: .relaxed)
                else { return }
                if name == "f" { try base.unlink("/store/f") } else { try base.removeTree("/store/d") }
            }
            let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
            try await store.save(Data(count: 5), to: "kept")
            try await store.save(Data(count: 7), to: name == "f" ? "f" : "d/f")
            disappears.store(true, ordering: .relaxed)
            switch call {
            case 0: #expect(try await store.list(recursive: true).map(\.key).filter { $0 != late } == ["kept"])
            case 1:
                var keys: [String] = []
                for try await file in store.files() where file.key != late { keys.append(file.key) }
                #expect(keys == ["kept"])
            default: #expect(try await store.totalSize() == 5)
            }
            #expect(disappears.load(ordering: .relaxed) == false)
        }
    }

    @Test("a listing goes on after a directory that is removed between two of its pages")
    func removalBetweenPages() async throws {
        let store = InMemoryFileStore()
        try await store.batch(durability: Durability.none) { batch in
            for number in 0..<1_100 { batch.save(Data(), to: "d/\(number)") }
            batch.save(Data(), to: "z")
        }
        var keys: [String] = []
        for try await file in store.files(in: "", FileListingOptions(sorted: true)) {
            if keys.isEmpty { try await store.deleteDirectory("d") }
            keys.append(file.key)
        }
        #expect(keys.count == 1_025 && keys.last == "z")
    }

    @Test("saving into many directories works with few descriptors")
    func fewDescriptors() async throws {
        let fileSystem = InMemoryFileSystem(options: .init(maximumOpenFileCount: 12))
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        for number in 0..<40 { try await store.save(Data(), to: "d\(number)/f") }
        #expect(try await store.list(recursive: true).count == 80)
    }

    @Test("a file system mounted below the root belongs to another program")
    func mounted() async throws {
        let fileSystem = InMemoryFileSystem()
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        try await store.save(Data("ours".utf8), to: "a/x")
        try await store.createDirectory("a/m")
        try fileSystem.mount(at: "/store/a/m", quota: .init())
        try fileSystem.write(Data("theirs".utf8), to: URL(filePath: "/store/a/m/f"))
        await #expect(
            performing: { try await store.deleteDirectory("a") }, throws: hasCode(FileStoreError.Code.foreignContent))
        #expect(try await store.load("a/x") == Data("ours".utf8))
        try await store.deleteAll()
        #expect(try fileSystem.read(from: URL(filePath: "/store/a/m/f")) == Data("theirs".utf8))
        #expect(!store.exists("a/x"))
    }

    @Test("a mount point in the root is kept by every removal, with what is mounted")
    func mountedInRoot() async throws {
        let fileSystem = InMemoryFileSystem()
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        for key in ["a/x", "z/x"] { try await store.save(Data("ours".utf8), to: key) }
        try await store.createDirectory("m")
        try fileSystem.mount(at: "/store/m", quota: .init())
        try fileSystem.write(Data("theirs".utf8), to: URL(filePath: "/store/m/f"))
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory("m") }
        #expect(error?.code == .foreignContent && error?.operation == .deleteDirectory)
        try await store.deleteAll()
        #expect(try await store.list(recursive: true).map(\.key).sorted() == ["m", "m/f"])
        #expect(try fileSystem.read(from: URL(filePath: "/store/m/f")) == Data("theirs".utf8))
        #expect(try fileSystem.leftovers(under: "/store") == [])
    }

    @Test("a move copies another user's file, so that its owner cannot change the stored file")
    func othersFile() async throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.write(Data("new".utf8), to: URL(filePath: "/file"))
        try fileSystem.setOwner(UserID(7), group: GroupID(7), of: .path("/file"))
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        try await store.move(from: URL(filePath: "/file"), to: "k")
        #expect(try await store.load("k") == Data("new".utf8))
        #expect(try fileSystem.status("/store/k").owner == fileSystem.effectiveUser)
        #expect(try !fileSystem.exists("/file", at: .workingDirectory, followsSymbolicLinks: false))
    }

    @Test("deleting all files during listings leaves none")
    func deletingBesideListings() async throws {
        for _ in 0..<8 {
            for number in 0..<100 { try await store.save(Data(), to: "file \(number)") }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<16 { group.addTask { [store] in _ = try await store.list(in: "") } }
                group.addTask { [store] in try await store.deleteAll() }
                for _ in 0..<16 { group.addTask { [store] in _ = try await store.list(in: "") } }
                try await group.waitForAll()
            }
            #expect(try await store.list(recursive: true) == [])
        }
    }

    @Test(
        "a store's directory can be used whatever the umask", arguments: [0o177, 0o777] as [FilePermissions.RawValue])
    func umask(_ umask: FilePermissions.RawValue) async throws {
        let base = InMemoryFileSystem(options: .init(user: UserID(7), group: GroupID(7)))
        let superuser = base.process(user: UserID(0), group: GroupID(0))
        try superuser.setPermissions(FilePermissions(rawValue: 0o777), of: .path("/"))
        let fileSystem = base.process(umask: FilePermissions(rawValue: umask))
        for _ in 0..<2 {
            let store = DiskFileStore(root: URL(filePath: "/a/store"), fileSystem: fileSystem)
            try await store.save(Data("1".utf8), to: "d/e/f")
            #expect(try await store.load("d/e/f") == Data("1".utf8))
        }
        for path: POSIXPath in ["/a", "/a/store", "/a/store/d", "/a/store/d/e"] {
            #expect(try superuser.status(path).permissions == .ownerReadWriteExecute, "\(path)")
        }
        // The next store object takes over only a record that it can open.
        #expect(try superuser.status("/a/store/#journal-0").permissions == .ownerReadWrite)
    }

    @Test("an existence check does not wait while another thread flushes the new root")
    func lookingBesideSlowWork() async throws {
        let (entered, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let answered = Mutex(false)
        let slow = InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
            guard call.operation == .synchronize else { return }
            entered.signal()
            release.wait()
        }
        let store = DiskFileStore(
            root: URL(filePath: "/slow"), fileSystem: slow, options: FileStoreOptions(deadline: nil))
        let saving = Task { try await store.save(Data(), to: "a") }
        await BlockingLane.general.run { entered.wait() }
        let looking = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            _ = store.exists("a")
            answered.withLock { $0 = true }
            looking.signal()
        }
        // The flush continues after at most ten seconds, so that a store that waits for it fails instead of hanging.
        await BlockingLane.general.run { _ = looking.wait(timeout: .now() + 10) }
        #expect(answered.withLock { $0 })
        for _ in 0..<64 { release.signal() }
        try await saving.value
    }
}

@Suite("Keys below another store's root")
struct NestedStoreTests {
    @Test(
        "change nothing there",
        arguments: [
            "#lock", "#lock-vaults", "#journal-0", "#store-key-value", "#store-vaults", "#store-files", "#store-values",
            "#store-images", "#store-cache",
        ])
    func untouched(_ marker: String) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("app"), options: .init(durability: .none))
        try await store.save(Data("ours".utf8), to: "docs/a")
        try FileManager.default.createDirectory(
            at: directory.url("app/kv/deep"), withIntermediateDirectories: true)
        for name in [marker, "log", "deep/file"] { try directory.write("theirs", to: "app/kv/" + name) }
        let isRefused = hasCode(FileStoreError.Code.unsafe(.anotherStore))
        for key in ["kv/log", "kv/new", "kv/deep/file"] {
            await #expect(performing: { try await store.save(Data("x".utf8), to: key) }, throws: isRefused)
            await #expect(performing: { try await store.delete(key) }, throws: isRefused)
            try directory.write("source", to: "source")
            for copying in [true, false] {
                await #expect(
                    performing: {
                        copying
                            ? try await store.copy(from: directory.url("source"), to: key)
                            : try await store.move(from: directory.url("source"), to: key)
                    }, throws: isRefused)
            }
            #expect(try directory.read("source") == "source")
        }
        await #expect(performing: { try await store.createDirectory("kv/made") }, throws: isRefused)
        for name in [marker, "log", "deep/file"] { #expect(try directory.read("app/kv/" + name) == "theirs") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url("app/kv").path).count == 3)
        #expect(try await store.load("docs/a") == Data("ours".utf8))
        #expect(try await store.list(recursive: true).map(\.key).sorted() == ["docs", "docs/a", "kv"])
        try await store.deleteAll()
        for name in [marker, "log", "deep/file"] { #expect(try directory.read("app/kv/" + name) == "theirs") }
        #expect(try await store.list(recursive: true).map(\.key) == ["kv"])
    }

    @Test("no store is created in a directory with files of another one, whose files it would hide")
    func hiddenFiles() async throws {
        let directory = try TemporaryDirectory()
        let options = FileStoreOptions(durability: .none)
        let store = DiskFileStore(root: directory.url("app"), options: options)
        try await store.save(Data("ours".utf8), to: "docs/notes/a")
        try await store.createDirectory("empty")
        for place in ["app/docs", "app/docs/notes"] {
            let inner = DiskFileStore(root: directory.url(place), options: options)
            await #expect(
                performing: { try await inner.save(Data("x".utf8), to: "c") },
                throws: hasCode(FileStoreError.Code.unsafe(.anotherStore)))
            #expect(try await store.load("docs/notes/a") == Data("ours".utf8))
        }
        #expect(try await store.list(recursive: true).filter { $0.kind == .file }.map(\.key) == ["docs/notes/a"])
        // A store may be created in an empty directory, or in one that the app has created for it.
        try await DiskFileStore(root: directory.url("app/empty"), options: options).save(Data("x".utf8), to: "c")
        try await DiskFileStore(root: directory.url("app/new"), options: options).save(Data("x".utf8), to: "c")
    }
}

/// The first read of a store opens the root; later ones resolve the whole path of a key.
@Suite("Reads of a store that has read before")
struct WholePathTests {
    private let directory: TemporaryDirectory
    private let store: DiskFileStore

    init() throws {
        directory = try TemporaryDirectory()
        for root in ["store", "other"] {
            for key in ["f", "d/f", "d/e/f"] { try directory.write("\(key) in \(root)", to: "\(root)/\(key)") }
        }
        // On some systems the path of temporary directories contains a link.
        let container = try #require(realpath(directory.url.path, nil))
        defer { free(container) }
        store = DiskFileStore(root: URL(filePath: String(cString: container) + "/store"))
    }

    private func contents(_ store: DiskFileStore, _ keys: [String] = ["f", "d/f", "d/e/f"]) async throws -> [String] {
        var contents: [String] = []
        for key in keys {
            let content = try await store.load(key)
            #expect(store.exists(key))
            #expect(try await store.info(key).sizeInBytes == content.count)
            #expect(try await store.reader(for: key).readAll() == content)
            contents.append(String(decoding: content, as: UTF8.self))
        }
        return contents
    }

    private func expectRefused(
        _ key: String, _ code: FileStoreError.Code, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        await #expect(performing: { try await store.load(key) }, throws: hasCode(code))
        await #expect(performing: { try await store.reader(for: key) }, throws: hasCode(code))
    }

    private func move(_ old: String, to new: String) throws {
        try FileManager.default.moveItem(at: directory.url(old), to: directory.url(new))
    }

    private func link(_ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(at: directory.url(name), withDestinationURL: directory.url(target))
    }

    @Test("find what is in the directory that is at the path now")
    func replacedRoot() async throws {
        for _ in 0..<2 { #expect(try await contents(store) == ["f in store", "d/f in store", "d/e/f in store"]) }
        try move("store", to: "old")
        for key in ["f", "d/f", "d/e/f"] {
            await expectRefused(key, .notFound)
            #expect(!store.exists(key))
        }
        try move("other", to: "store")
        #expect(try await contents(store) == ["f in other", "d/f in other", "d/e/f in other"])
        try move("store", to: "other")
        try directory.write("not a directory", to: "store")
        await expectRefused("f", .unavailable(.inputOutput))
        await expectRefused("d/f", .unavailable(.inputOutput))
    }

    @Test("follow a link to the root, but none below it")
    func links() async throws {
        _ = try await contents(store)
        try link("store/link", to: "other/f")
        try link("store/directory", to: "other/d")
        try link("store/d/directory", to: "other/d/e")
        for _ in 0..<2 {
            await expectRefused("link", .unsafe(.symbolicLink))
            for key in ["directory/f", "directory/e/f", "d/directory/f"] {
                await expectRefused(key, .unsafe(.symbolicLink))
                #expect(!store.exists(key))
                await #expect(performing: { try await store.info(key) }, throws: hasCode(.unsafe(.symbolicLink)))
            }
            #expect(try await store.info("link").kind == .other)
            #expect(try await contents(store) == ["f in store", "d/f in store", "d/e/f in store"])
        }
        try move("store", to: "old")
        try link("store", to: "other")
        for _ in 0..<2 { #expect(try await contents(store) == ["f in other", "d/f in other", "d/e/f in other"]) }
        // The link is found once; afterwards keys are resolved from the open root, which still follows no link below
        // it.
        try link("other/directory", to: "old/d")
        await expectRefused("directory/f", .unsafe(.symbolicLink))
    }
}
