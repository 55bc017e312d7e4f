import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

@Suite("A writer")
struct WriterTests {
    @Test("does not commit after a cancelled write, whose bytes are missing", arguments: StoreKind.allCases)
    func cancelledWrite(kind: StoreKind) async throws {
        try await kind.withStore { store in
            try await Self.check(store)
        }
    }

    private static func check(_ store: some StreamingFileStoring) async throws {
        try await store.save(Data("old".utf8), to: "f")
        let writer = try await store.writer(for: "f")
        try await writer.write(Data("first".utf8))
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await writer.write(Data("second".utf8))
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        await #expect(performing: { try await writer.write(Data("third".utf8)) }, throws: hasCode(.closed))
        await #expect(performing: { try await writer.commit() }, throws: hasCode(.closed))
        #expect(try await store.load("f") == Data("old".utf8))
        await writer.cancel()
        #expect(try await store.list(in: "").map(\.key) == ["f"])
    }

    @Test("does not commit after a write that failed, also once there is space again")
    func failedWrite() async throws {
        let memory = InMemoryFileSystem()
        let store = InMemoryFileStore(fileSystem: memory)
        try await store.save(Data("old".utf8), to: "f")
        let writer = try await store.writer(for: "f")
        try await writer.write(Data("first".utf8))
        try memory.setQuota(.init(sizeInBytes: memory.usage().sizeInBytes))
        await #expect(performing: { try await writer.write(Data(count: 1 << 20)) }, throws: hasCode(.noSpace))
        try memory.setQuota(.init())
        await #expect(performing: { try await writer.write(Data("third".utf8)) }, throws: hasCode(.noSpace))
        await #expect(performing: { try await writer.commit() }, throws: hasCode(.noSpace))
        #expect(try await store.load("f") == Data("old".utf8))
        await writer.cancel()
        #expect(try await store.list(recursive: true).map(\.key) == ["f"])
    }

    @Test("writes on the caller's thread too, until it is committed")
    func blockingWrites() async throws {
        let store = InMemoryFileStore()
        let writer = try await store.writer(for: "f")
        func write(_ text: String) throws {
            try Array(text.utf8).withUnsafeBytes { try writer.writeBlocking($0.bytes) }
        }
        try write("first,")
        try await writer.write(Data("second".utf8))
        try await writer.commit()
        #expect(performing: { try write("third") }, throws: hasCode(.closed))
        #expect(try await store.load("f") == Data("first,second".utf8))
    }

    @Test("stores a file whose directory is removed repeatedly while it is placed")
    func removedDirectory() async throws {
        let memory = InMemoryFileSystem()
        let count = Atomic(0)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .rename, call.destination == "f",
                count.wrappingAdd(1, ordering: .relaxed).newValue <= 3
            else { return }
            try memory.removeTree("/store/d")
        }
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        let writer = try await store.writer(for: "d/f")
        try await writer.write(Data("text".utf8))
        try await writer.commit()
        #expect(try await store.load("d/f") == Data("text".utf8))
        #expect(count.load(ordering: .relaxed) >= 4)
        #expect(try memory.leftovers(under: "/store") == [])
    }

    @Test("leaves no copy of a file whose directory was removed, if that cannot be completed")
    func failingCopy() async throws {
        let memory = InMemoryFileSystem()
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            // A file that is stored anew keeps its attributes.
            if call.operation == .listExtendedAttributes { throw FileSystemError(.listExtendedAttributes, .ioError) }
        }
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        let writer = try await store.writer(for: "d/f")
        try await writer.write(Data("text".utf8))
        try memory.removeTree("/store/d")
        let error = await #expect(throws: FileStoreError.self) { try await writer.commit() }
        #expect((error?.underlying as? FileSystemError)?.operation == .listExtendedAttributes)
        #expect(try memory.leftovers(under: "/store") == [])
        #expect(try await store.list(recursive: true).filter { !$0.isDirectory }.isEmpty)
    }

    @Test("commits into the root that is at the path then", arguments: ["f", "d/f"])
    func replacedRoot(key: String) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"))
        let removed = try await store.writer(for: key)
        try await removed.write(Data("new".utf8))
        let moved = try await store.writer(for: key)
        try await moved.write(Data("newer".utf8))

        try FileManager.default.moveItem(at: directory.url("store"), to: directory.url("moved"))
        try await moved.commit()
        #expect(try await store.load(key) == Data("newer".utf8))
        #expect(!FileManager.default.fileExists(atPath: directory.url("moved").path + "/" + key))

        try FileManager.default.removeItem(at: directory.url("moved"))
        try await removed.commit()
        #expect(try await store.load(key) == Data("new".utf8))
        #expect(try await store.list(in: "", recursive: true).filter { !$0.isDirectory }.map(\.key) == [key])
    }

    @Test("a batch keeps no content of its files open while it places them")
    func descriptors() async throws {
        let memory = InMemoryFileSystem()
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: memory)
        try await store.save(Data(), to: "first")
        let before = memory.openDescriptors.count
        let maximum = CallCounter()
        let counted = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .rename else { return }
            for _ in maximum.count..<max(memory.openDescriptors.count - before, maximum.count) {
                try maximum.countOrFail(.rename, nil, .ioError)
            }
        }
        try await DiskFileStore(root: URL(filePath: "/store"), fileSystem: counted).batch { batch in
            for number in 0..<64 { batch.save(Data("x".utf8), to: "\(number)") }
        }
        #expect(maximum.count < 16)
    }
}

@Suite("An update of a file")
struct FileUpdateTests {
    @Test("whose closure writes the file itself fails, and says why")
    func writingClosure() async throws {
        let memory = InMemoryFileSystem()
        let root = URL(filePath: "/store")
        let store = DiskFileStore(root: root, fileSystem: memory, options: .init(durability: .none))
        try await store.save(Data("0".utf8), to: "f")
        var found: [Data?] = []
        do {
            try await store.update("f", durability: nil, runLimit: 20) { content in
                found.append(content)
                try memory.write(Data("\(found.count)".utf8), to: root.appending(path: "f"))
                return Data("new".utf8)
            }
            Issue.record("updated")
        } catch let error as FileStoreError {
            #expect(error.code == .conflict && error.key == "f")
            #expect("\(error)".contains("20 runs of the closure, which must not write the file itself"))
        }
        #expect(found == (0..<20).map { Data("\($0)".utf8) })
        #expect(try await store.load("f") == Data("20".utf8))
    }
}

@Suite("A reader beside a program that truncates the file")
struct TruncatedFileTests {
    @Test("reading everything, and the chunks, end with an error")
    func truncation() async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"))
        try await store.save(Data(count: 3 << 20), to: "f")
        let reader = try await store.reader(for: "f")
        var chunks = reader.chunks(ofSize: 1 << 20).makeAsyncIterator()
        #expect(try await chunks.next()?.count == 1 << 20)
        try SystemFileSystem().truncate(
            .path(directory.path("store/f"), at: .workingDirectory, followsSymbolicLinks: false), to: (3 << 19) + 1)
        let error = await #expect(throws: FileStoreError.self) { while try await chunks.next() != nil {} }
        #expect(error?.code == .conflict)
        #expect(error?.key == "f")
        await #expect(performing: { try await reader.readAll() }, throws: hasCode(.conflict))
    }
}

@Suite("The progress of a copy of an empty file")
struct EmptyFileProgressTests {
    @Test("is finished at the end, with a parent and without", arguments: StoreKind.allCases)
    func finishes(kind: StoreKind) async throws {
        let directory = try TemporaryDirectory()
        try directory.write("", to: "empty")
        try await kind.withStore { store in
            for hasParent in [false, true] {
                let parent = Progress(totalUnitCount: 2)
                let copying =
                    hasParent
                    ? Progress(totalUnitCount: 1, parent: parent, pendingUnitCount: 1) : Progress(totalUnitCount: 1)
                try await store.copy(from: directory.url("empty"), to: "f", progress: copying)
                #expect(copying.isFinished)
                let exporting =
                    hasParent
                    ? Progress(totalUnitCount: 1, parent: parent, pendingUnitCount: 1) : Progress(totalUnitCount: 1)
                try await store.export(
                    "f", to: directory.url("exported"), overwrite: true, progress: exporting)
                #expect(exporting.isFinished)
                if hasParent { #expect(parent.isFinished) }
            }
        }
    }
}

@Suite("The files that belong to a store itself")
struct StoreFileMoveTests {
    @Test(
        "are not moved to a key",
        arguments: ["store/#journal-0", "store/#store-files", "other/#lock", "other/#lock-vaults"])
    func refused(path: String) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"))
        try await store.save(Data(), to: "f")
        for name in ["#lock", "#lock-vaults"] { try directory.write("", to: "other/" + name) }
        let before = try directory.tree("")
        await #expect(
            performing: { try await store.move(from: directory.url(path), to: "key") },
            throws: hasCode(.invalidSource(.storeFile)))
        #expect(try directory.tree("") == before)
    }
}

@Suite("A directory of another user in the root, which cannot be read")
struct UnreadableDirectoryTests {
    private let memory: InMemoryFileSystem
    private let store: DiskFileStore

    init() async throws {
        let superuser = InMemoryFileSystem()
        try superuser.createDirectory("/volume")
        try superuser.setOwner(
            UserID(7), group: GroupID(7), of: .path("/volume", at: .workingDirectory, followsSymbolicLinks: false))
        try superuser.createDirectory("/volume/lost+found", permissions: .privateDirectory)
        memory = superuser.process(user: UserID(7), group: GroupID(7))
        store = DiskFileStore(root: URL(filePath: "/volume"), fileSystem: memory)
        try await store.save(Data(count: 5), to: "d/f")
    }

    @Test("is left out of listings, which name it, and of sums, watches and removals")
    func leftOut() async throws {
        var paged: [StoredFile] = []
        for try await file in store.files() { paged.append(file) }
        for files in [paged, try await store.list(in: "", recursive: true)] {
            #expect(Set(files.map(\.key)) == ["d", "d/f", "lost+found"])
            #expect(files.first { $0.key == "lost+found" }?.kind == .other)
        }
        #expect(try await store.totalSize() == 5)
        var changes = store.changes().makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        try await store.deleteAll()
        #expect(try await store.list(in: "", recursive: true).map(\.key) == ["lost+found"])
    }

    @Test("a directory of the store's own user that cannot be read is an error")
    func ownDirectory() async throws {
        try memory.setPermissions(
            [], of: .path("/volume/d", at: .workingDirectory, followsSymbolicLinks: false))
        await #expect(
            performing: { try await store.list(in: "", recursive: true) }, throws: hasCode(.notPermitted))
        await #expect(performing: { try await store.totalSize() }, throws: hasCode(.notPermitted))
        await #expect(performing: { for try await _ in store.files() {} }, throws: hasCode(.notPermitted))
        await #expect(performing: { for try await _ in store.changes() {} }, throws: hasCode(.notPermitted))
    }
}

/// One after the other, because each blocks a thread.
@Suite("A conditional save between its check and its rename", .serialized)
struct ConditionalSaveTests {
    /// A change of the file that a conditional save is about to replace, or of its directory.
    enum Change: CaseIterable {
        case save, create, delete, move, batchedSave, batchedDelete, commit

        func make(in store: DiskFileStore, source: URL) async throws {
            switch self {
            case .save: try await store.save(Data("other".utf8), to: "d/f")
            case .create: try await store.save(Data("other".utf8), to: "d/g", overwrite: false)
            case .delete: try await store.delete("d/f")
            case .move: try await store.move(from: source, to: "d/f")
            case .batchedSave: try await store.batch { $0.save(Data("other".utf8), to: "d/f") }
            case .batchedDelete: try await store.batch { $0.delete("d/f") }
            case .commit: try await store.write(to: "d/f") { try await $0.write(Data("other".utf8)) }
            }
        }
    }

    @Test("every other change of the directory waits", arguments: Change.allCases)
    func othersWait(change: Change) async throws {
        let memory = InMemoryFileSystem()
        let root = URL(filePath: "/data/store")
        let source = URL(filePath: "/data/source")
        try memory.createDirectory(at: URL(filePath: "/data"), withIntermediateDirectories: true)
        try memory.write(Data("other".utf8), to: source)
        let other = DiskFileStore(root: root, fileSystem: memory)
        try await other.save(Data("old".utf8), to: "d/f")

        let running = Mutex<Task<Void, any Error>?>(nil)
        let ended = CallCounter()
        let contents = Mutex<[Data?]>([])
        let intercepted = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .rename, running.withLock({ $0 == nil }) else { return }
            let task = Task {
                try await change.make(in: other, source: source)
                try ended.countOrFail(.rename, nil, .ioError)
            }
            running.withLock { $0 = task }
            usleep(100_000)
            #expect(ended.count == 0)
            contents.withLock { $0.append(try? memory.read(from: root.appending(path: "d/f"))) }
        }
        let store = DiskFileStore(root: root, fileSystem: intercepted)
        let revision = try #require(try await store.info("d/f").revision)
        let saved = try await store.save(Data("new".utf8), to: "d/f", if: .unchanged(revision))
        try await #require(running.withLock { $0 }).value

        #expect(contents.withLock { $0 } == [Data("old".utf8)])
        switch change {
        case .create: #expect(try await store.info("d/f").revision == saved.revision)
        case .delete, .batchedDelete: #expect(!store.exists("d/f"))
        default: #expect(try await store.load("d/f") == Data("other".utf8))
        }
    }
}
