import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("A file store on a failing disk")
struct FaultTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/data/store")

    private func store(_ options: FileStoreOptions = .init()) -> DiskFileStore {
        DiskFileStore(root: root, fileSystem: memory, options: options)
    }

    private func leftovers() throws -> [String] {
        try memory.contentsOfDirectory(at: root).map(\.lastPathComponent).filter { $0.hasPrefix("#t") }
    }

    @Test("a full disk fails the save, keeps the old content and leaves nothing behind")
    func fullDisk() async throws {
        let store = store()
        try await store.save(Data("old".utf8), to: "file")
        try memory.setQuota(.init(sizeInBytes: 64 << 10))
        await #expect(performing: { try await store.save(Data(count: 1 << 20), to: "file") }, throws: hasCode(.noSpace))
        await #expect(performing: { try await store.save(Data(count: 1 << 20), to: "new") }, throws: hasCode(.noSpace))
        #expect(try await store.load("file") == Data("old".utf8))
        #expect(!store.exists("new"))
        #expect(try leftovers() == [])
        try memory.setQuota(.init())
        try await store.save(Data(count: 1 << 20), to: "file")
        #expect(try await store.size("file") == 1 << 20)
    }

    @Test(
        "a file that grows while it is loaded is loaded with what was appended, up to the limit",
        arguments: [1004, 1003])
    func growing(limit: Int) async throws {
        let memory = memory
        let isWatched = Atomic(false)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .read, let file = call.descriptor, isWatched.load(ordering: .relaxed),
                try memory.status(of: .descriptor(file)).sizeInBytes == 4
            else { return }
            let appended = try memory.open("/data/store/f", .writeOnly)
            try memory.writeBytes([UInt8](repeating: 7, count: 1000), to: appended, at: 4)
            try memory.close(appended)
        }
        let store = DiskFileStore(
            root: root, fileSystem: fileSystem, options: FileStoreOptions(maximumLoadSizeInBytes: limit))
        try await store.save(Data("text".utf8), to: "f")
        isWatched.store(true, ordering: .relaxed)
        if limit == 1004 {
            #expect(try await store.load("f") == Data("text".utf8) + Data(repeating: 7, count: 1000))
        } else {
            await #expect(performing: { try await store.load("f") }, throws: hasCode(.tooLarge))
        }
        #expect(try memory.status("/data/store/f").sizeInBytes == 1004)
    }

    @Test("a read-only disk can be read, and refuses every change")
    func readOnlyDisk() async throws {
        try await store().save(Data("old".utf8), to: "d/file")
        try memory.setReadOnly(true)
        let store = store()
        #expect(try await store.load("d/file") == Data("old".utf8))
        #expect(try await store.list(recursive: true).count == 2)
        let refused = hasCode(.notPermitted)
        await #expect(performing: { try await store.save(Data(), to: "d/file") }, throws: refused)
        await #expect(performing: { try await store.save(Data(), to: "new/file") }, throws: refused)
        await #expect(performing: { try await store.delete("d/file") }, throws: refused)
        await #expect(performing: { try await store.deleteDirectory("d") }, throws: refused)
        await #expect(performing: { try await store.createDirectory("e") }, throws: refused)
        await #expect(performing: { try await store.deleteAll() }, throws: refused)
    }

    @Test("an unreadable file is unavailable, not missing")
    func unreadable() async throws {
        let store = store()
        try await store.saveJSON(7, to: "number")
        memory.readError = CocoaError(.fileReadUnknown)
        await #expect(
            performing: { try await store.loadJSONIfExists("number", as: Int.self) },
            throws: hasCode(.unavailable(.inputOutput)))
        #expect(store.exists("number"))
        memory.readError = nil
        #expect(try await store.loadJSON("number") == 7)
    }

    @Test("access to another user's file is not permitted")
    func notPermitted() async throws {
        try await store().save(Data("secret".utf8), to: "d/file")
        let other = DiskFileStore(root: root, fileSystem: memory.process(user: UserID(1000), group: GroupID(1000)))
        await #expect(performing: { try await other.load("d/file") }, throws: hasCode(.notPermitted))
        #expect(!other.exists("d/file"))
    }

    @Test("a move between two devices copies, makes durable, and removes the source")
    func movesAcrossDevices() async throws {
        try memory.createDirectory("/other")
        try memory.mount(at: "/other")
        let source = URL(filePath: "/other/source")
        let content = Data((0..<30_001).map { UInt8(truncatingIfNeeded: $0 >> 3) }) + Data(count: 3 << 20)
        try memory.write(content, to: source)
        let store = store(.init(durability: .none))
        try await store.move(from: source, to: "d/file")
        #expect(try await store.load("d/file") == content)
        #expect(!memory.fileExists(atPath: "/other/source"))
    }

    @Test("a source that cannot be removed is not copied")
    func sourceStays() async throws {
        try memory.createDirectory("/other")
        try memory.mount(at: "/other")
        try memory.write(Data("content".utf8), to: URL(filePath: "/other/source"))
        try memory.setReadOnly(true, at: "/other")
        let store = store()
        await #expect(
            performing: { try await store.move(from: URL(filePath: "/other/source"), to: "file") },
            throws: hasCode(.invalidSource(.notRemoved)))
        #expect(!store.exists("file"))
        #expect(memory.fileExists(atPath: "/other/source"))
    }

    @Test("an unreadable source and an unwritable store are distinct errors")
    func sourceFails() async throws {
        let sources = InMemoryFileSystem()
        try sources.write(Data("content".utf8), to: URL(filePath: "/source"))
        let store = DiskFileStore(root: root, fileSystem: memory, sources: sources)
        sources.readError = CocoaError(.fileReadUnknown)
        await #expect(
            performing: { try await store.copy(from: URL(filePath: "/source"), to: "file") },
            throws: hasCode(.invalidSource(.unreadable)))
        sources.readError = nil
        memory.writeError = CocoaError(.fileWriteUnknown)
        await #expect(
            performing: { try await store.copy(from: URL(filePath: "/source"), to: "file") },
            throws: hasCode(.unavailable(.inputOutput)))
        memory.writeError = nil
        #expect(!store.exists("file"))
        #expect(try leftovers() == [])
    }

    @Test("a failed directory flush is reported as unknown durability, and the content is kept")
    func unknownDurability() async throws {
        let flushes = Mutex(0)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .synchronize, flushes.withLock({ $0 }) > 0 else { return }
            guard
                flushes.withLock({ count in
                    count -= 1; return count
                }) == 0
            else { return }
            throw FileSystemError(.synchronize, .ioError)
        }
        let store = DiskFileStore(root: root, fileSystem: fileSystem)
        try await store.save(Data("old".utf8), to: "file")
        flushes.withLock { $0 = 1 }
        await #expect(
            performing: { try await store.save(Data("new".utf8), to: "file") },
            throws: hasCode(.unavailable(.inputOutput)))
        #expect(try await store.load("file") == Data("old".utf8))
        flushes.withLock { $0 = 2 }
        await #expect(
            performing: { try await store.save(Data("new".utf8), to: "file") }, throws: hasCode(.durabilityUnknown))
        #expect(try await store.load("file") == Data("new".utf8))
        flushes.withLock { $0 = 1 }
        await #expect(performing: { try await store.delete("file") }, throws: hasCode(.durabilityUnknown))
        #expect(!store.exists("file"))
    }

    @Test(
        "any single failing call leaves the old content or the new, and no descriptor",
        arguments: TestDepth.sample(
            [Errno.ioError, .noSpace, .tooManyOpenFiles, .permissionDenied, .interrupted].flatMap { errno in
                VerbList.allCases.map { (errno, $0) }
            }, every: 5))
    func everyFailingCall(_ errno: Errno, _ list: VerbList) async throws {
        var number = 0
        while true {
            let memory = InMemoryFileSystem()
            let before = memory.openDescriptors.count
            do {
                let counter = CallCounter(failing: number..<(number + 1))
                let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                    try counter.countOrFail(call.operation, call.path, errno)
                }
                try memory.write(Data("source".utf8), to: URL(filePath: "/source"))
                let plain = DiskFileStore(root: root, fileSystem: memory)
                try await plain.save(Data("old".utf8), to: "d/file")
                let store = DiskFileStore(root: root, fileSystem: fileSystem)
                var acknowledged = "old"
                do {
                    try await store.save(Data("new".utf8), to: "d/file")
                    acknowledged = "new"
                } catch let error as FileStoreError {
                    if error.code == .durabilityUnknown { acknowledged = "new" }
                }
                #expect(try await plain.load("d/file") == Data(acknowledged.utf8), "call \(number)")
                for verb in list.verbs {
                    do {
                        try await verb(store)
                    } catch is FileStoreError {
                        continue
                    }
                }
                let text = String(decoding: try await plain.load("d/file"), as: UTF8.self)
                #expect(["old", "new", "source"].contains(text), "call \(number)")
                number += TestDepth.limit(3, deep: 1)
                guard counter.didFail else { break }
            }
            await settle(memory, before)
            #expect(memory.openDescriptors.count == before, "a call before \(number) leaks a descriptor")
        }
        #expect(number > 40)
    }

    /// Calls that are made with every failure; two lists, because the time is quadratic in their length.
    enum VerbList: CaseIterable {
        case files, streams

        var verbs: [@Sendable (DiskFileStore) async throws -> Void] {
            let new = Data("new".utf8)
            return switch self {
            case .files:
                [
                    { _ = try await $0.load("d/file") },
                    { _ = try await $0.list(recursive: true) },
                    { try await $0.copy(from: URL(filePath: "/source"), to: "d/file") },
                    { try await $0.createDirectory("x/y") },
                    { try await $0.save(Data("x".utf8), to: "x/y/z", overwrite: false) },
                    { try await $0.delete("x/y/z") },
                    { try await $0.deleteDirectory("x") },
                    { try await $0.move(from: URL(filePath: "/source"), to: "d/file") },
                    { _ = try await $0.info("d/file") },
                ]
            case .streams:
                [
                    { try await $0.save(new, to: "d/file", if: .always) },
                    { try await $0.update("d/file") { _ in new } },
                    { try await $0.write(to: "d/file") { writer in try await writer.write(new) } },
                    { try await $0.save(new, to: "d/file", durability: .none) },
                    {
                        try await $0.batch { batch in
                            batch.save(new, to: "d/file")
                            batch.save(Data(), to: "x/y/w")
                        }
                    },
                    { _ = try await $0.reader(for: "d/file").readAll() },
                    { for try await _ in $0.files() {} },
                ]
            }
        }
    }

    @Test("the errors of a batch that cannot begin or end are those of a save")
    func batchErrors() async throws {
        try memory.write(Data("x".utf8), to: URL(filePath: "/file"))
        let store = DiskFileStore(root: URL(filePath: "/file/store"), fileSystem: memory)
        let single = await #expect(throws: FileStoreError.self) { try await store.save(Data(), to: "a") }
        let batch = await #expect(throws: FileStoreError.self) { try await store.batch { $0.save(Data(), to: "a") } }
        #expect(batch?.code == single?.code)

        let counted = CallCounter()
        try await saveTwo(with: counted)
        let failing = CallCounter(failing: counted.count - 1..<counted.count)
        let error = await #expect(throws: FileStoreError.self) { try await saveTwo(with: failing) }
        #expect(error?.code == .durabilityUnknown)
        #expect(error?.key == "b")
    }

    /// Saves the files `a` and `b` in a batch of a new store whose flushes a counter counts or fails.
    private func saveTwo(with flushes: CallCounter) async throws {
        let fileSystem = InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { try flushes.countOrFail(.synchronize, nil, .ioError) }
        }
        try await DiskFileStore(root: root, fileSystem: fileSystem).batch { batch in
            batch.save(Data(), to: "a")
            batch.save(Data(), to: "b")
        }
    }

    /// Otherwise the write could reach a file that was opened with the same descriptor since.
    @Test("a cancel of a writer waits for the write that is under way")
    func cancelDuringWrite() async throws {
        let cancelling = Mutex<Task<Void, Never>?>(nil)
        let writer = Mutex<FileWriter?>(nil)
        let ended = CallCounter()
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .write, let writer = writer.withLock({ $0.take() }) else { return }
            let task = Task {
                await writer.cancel()
                try? ended.countOrFail(.write, nil, .ioError)
            }
            cancelling.withLock { $0 = task }
            usleep(50_000)
            #expect(ended.count == 0)
        }
        let store = DiskFileStore(root: root, fileSystem: fileSystem)
        let new = try await store.writer(for: "f")
        writer.withLock { $0 = new }
        try await new.write(Data("content".utf8))
        await cancelling.withLock { $0 }?.value
        #expect(ended.count == 1)
        #expect(try await store.list() == [])
    }

    @Test("a save that is cancelled while it is written is not stored, alone or in a batch", arguments: [true, false])
    func cancelledSave(isBatch: Bool) async throws {
        let task = Mutex<Task<Void, any Error>?>(nil)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .write { task.withLock { $0?.cancel() } }
        }
        let store = DiskFileStore(root: root, fileSystem: fileSystem)
        try await store.save(Data("old".utf8), to: "f")
        let save = task.withLock { task in
            let save = Task {
                if isBatch {
                    try await store.batch { batch in
                        batch.save(Data("new".utf8), to: "f")
                        batch.save(Data("new".utf8), to: "g")
                    }
                } else {
                    try await store.save(Data("new".utf8), to: "f")
                }
            }
            task = save
            return save
        }
        await #expect(throws: CancellationError.self) { try await save.value }
        #expect(try await store.load("f") == Data("old".utf8))
        #expect(try await store.list(in: "").map(\.key) == ["f"])
    }

    @Test("a store without durability flushes nothing after it was opened")
    func noFlushes() async throws {
        let flushes = CallCounter()
        let counting = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { try flushes.countOrFail(.synchronize, nil, .ioError) }
        }
        try memory.write(Data("x".utf8), to: URL(filePath: "/source"))
        let store = DiskFileStore(root: root, fileSystem: counting, options: .init(durability: .none))
        try await store.open()
        let before = flushes.count
        try await store.save(Data(), to: "a/b/c")
        try await store.copy(from: URL(filePath: "/source"), to: "a/b/d")
        try await store.move(from: URL(filePath: "/source"), to: "a/b/e")
        try await store.batch { $0.save(Data(), to: "a/b/f") }
        try await store.createDirectory("x/y")
        try await store.delete("a/b/c")
        try await store.deleteDirectory("a")
        try await store.deleteAll()
        #expect(flushes.count == before)
    }

    @Test("no call leaves a descriptor open")
    func descriptors() async throws {
        do {
            let store = store()
            try memory.write(Data("x".utf8), to: URL(filePath: "/source"))
            try await store.open()
            let open = memory.openDescriptors.count
            for _ in 0..<100 {
                try await store.save(Data("x".utf8), to: "a/b")
                _ = try await store.load("a/b")
                _ = try await store.info("a/b")
                _ = try await store.list(recursive: true)
                try await store.copy(from: URL(filePath: "/source"), to: "a/c")
                try await store.update("a/d") { _ in Data("x".utf8) }
                try await store.batch {
                    $0.save(Data(), to: "a/e"); $0.delete("a/d")
                }
                try await store.write(to: "a/f") { writer in try await writer.write(Data("x".utf8)) }
                _ = try await store.writer(for: "a/g")
                _ = try await store.reader(for: "a/f").readAll()
                await #expect(throws: FileStoreError.self) { try await store.load("a") }
                await #expect(throws: FileStoreError.self) { try await store.load("a/b/c") }
                await #expect(throws: FileStoreError.self) { try await store.copy(from: root, to: "x") }
                try await store.deleteDirectory("a")
            }
            #expect(memory.openDescriptors.count == open)
        }
        await settle(memory, 0)
        #expect(memory.openDescriptors == [])
    }

    /// Waits until the thread of a store's last operation has released the store.
    private func settle(_ memory: InMemoryFileSystem, _ count: Int) async {
        var attempts = 0
        while memory.openDescriptors.count != count, attempts < 100_000 {
            attempts += 1
            await Task.yield()
        }
    }
}
