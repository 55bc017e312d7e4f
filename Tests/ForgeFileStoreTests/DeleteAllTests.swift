import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

#if canImport(Glibc)
import Glibc
#endif

@Suite("The removal of everything")
struct DeleteAllTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/store")

    private typealias Call = InterceptedFileSystem<InMemoryFileSystem>.Call

    /// A store with files in several directories, which calls `intercept` before every later call.
    private func filledStore(
        _ intercept: @escaping @Sendable (Call) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) async throws -> DiskFileStore {
        let isFilled = Atomic(false)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if isFilled.load(ordering: .relaxed) { try intercept(call) }
            })
        for key in ["a/f", "d/e/f", "d/g", "z/f", "file"] { try await store.save(Data("x".utf8), to: key) }
        isFilled.store(true, ordering: .relaxed)
        return store
    }

    private func keys(_ store: DiskFileStore) async throws -> [String] {
        try await store.list(recursive: true).map(\.key).sorted()
    }

    @Test("renames every directory, flushes, and only then removes files")
    func order() async throws {
        let calls = Mutex<[FileSystemOperation]>([])
        let store = try await filledStore { (call) throws(FileSystemError) in
            let counted: Set<FileSystemOperation> = [.rename, .unlink, .removeDirectory, .synchronize]
            if counted.contains(call.operation) { calls.withLock { $0.append(call.operation) } }
        }
        try await store.deleteAll()
        #expect(try await keys(store) == [])
        #expect(try memory.leftovers(under: "/store") == [])
        let order = calls.withLock { $0 }
        // The record and the renames, the removal of the trees, that of the file.
        #expect(order.prefix(5) == [.synchronize, .rename, .rename, .rename, .synchronize])
        #expect(order.filter { $0 == .synchronize }.count == 4)
    }

    @Test("a busy directory is kept, everything else is removed, and the error has its path")
    func busy() async throws {
        let store = try await filledStore { (call) throws(FileSystemError) in
            guard call.operation == .rename, call.path == "d" else { return }
            throw FileSystemError(.rename, .resourceBusy, path: call.path)
        }
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteAll() }
        #expect(error?.code == .foreignContent)
        #expect(error?.operation == .deleteAll)
        #expect((error?.underlying as? FileSystemError)?.path == "d")
        #expect(try await keys(store) == ["d", "d/e", "d/e/f", "d/g"])
    }

    @Test("a directory that cannot be renamed is removed file by file")
    func notRenamed() async throws {
        let store = try await filledStore { (call) throws(FileSystemError) in
            guard call.operation == .rename else { return }
            throw FileSystemError(.rename, .improperLink, path: call.path)
        }
        try await store.deleteAll()
        #expect(try await keys(store) == [])
    }

    @Test("a file that cannot be removed does not keep the others, and keeps its name")
    func refused() async throws {
        let isRefused = Atomic(true)
        let store = try await filledStore { (call) throws(FileSystemError) in
            guard call.operation == .unlink, call.path == "g", isRefused.load(ordering: .relaxed) else { return }
            throw FileSystemError(.unlink, .permissionDenied, path: call.path)
        }
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteAll() }
        #expect(error?.code == .notPermitted)
        #expect((error?.underlying as? FileSystemError)?.path == "d/g")
        #expect(try await keys(store) == ["d", "d/g"])
        #expect(try memory.leftovers(under: "/store") == [])
        isRefused.store(false, ordering: .relaxed)
        try await store.deleteAll()
        #expect(try await keys(store) == [])
    }

    @Test(
        "a directory of which a file cannot be removed has its name again, with what is left", arguments: ["d", "p/d"])
    func refusedDirectory(directory: String) async throws {
        let isRefused = Atomic(true)
        let store = try await filledStore { (call) throws(FileSystemError) in
            guard call.operation == .unlink, call.path == "g", isRefused.load(ordering: .relaxed) else { return }
            throw FileSystemError(.unlink, .permissionDenied, path: call.path)
        }
        if directory != "d" { try await store.save(Data("x".utf8), to: "\(directory)/g") }
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory(directory) }
        #expect(error?.code == .notPermitted)
        #expect((error?.underlying as? FileSystemError)?.path == POSIXPath("\(directory)/g"))
        #expect(try await store.load("\(directory)/g") == Data("x".utf8))
        #expect(try memory.leftovers(under: "/store") == [])
        isRefused.store(false, ordering: .relaxed)
        try await store.deleteDirectory(directory)
        #expect(!store.exists(directory))
    }

    @Test("what another program adds to a directory while it is removed is kept under the directory's name")
    func addedMeanwhile() async throws {
        let memory = memory
        let store = try await filledStore { (call) throws(FileSystemError) in
            guard call.operation == .rename, call.path == "d" else { return }
            try memory.createSymbolicLink("/store/d/link", at: .workingDirectory, to: "g")
        }
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory("d") }
        #expect(error?.code == .foreignContent)
        #expect((error?.underlying as? FileSystemError)?.path == "d")
        #expect(try await keys(store) == ["a", "a/f", "d", "d/link", "file", "z", "z/f"])
        #expect(try memory.leftovers(under: "/store") == [])
    }

    @Test("a directory to which a file is added at each attempt to remove it keeps its name, with that file")
    func addedRepeatedly() async throws {
        let memory = memory
        let count = Atomic(0)
        let store = try await filledStore { (call) throws(FileSystemError) in
            guard call.operation == .removeDirectory, let path = call.path, path.bytes.starts(with: "#trash-".utf8)
            else { return }
            count.add(1, ordering: .relaxed)
            let added = POSIXPath("/store").appending(path).appending("new")
            try memory.close(try memory.open(added, .writeOnly, options: [.create]))
        }
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory("a") }
        #expect(error?.code == .foreignContent)
        #expect((error?.underlying as? FileSystemError)?.path == "a")
        #expect(count.load(ordering: .relaxed) == 64)
        #expect(try await keys(store).filter { $0.hasPrefix("a") } == ["a", "a/new"])
        #expect(try memory.leftovers(under: "/store") == [])
    }

    @Test("a file that has taken the name of a directory since that was examined is kept")
    func replacedMeanwhile() async throws {
        let memory = memory
        let isReplaced = Atomic(false)
        let store = try await filledStore { (call) throws(FileSystemError) in
            // The record of the name that the directory is about to get.
            guard call.operation == .synchronize, !isReplaced.exchange(true, ordering: .relaxed) else { return }
            try memory.removeTree("/store/d/e")
            let file = try memory.open("/store/d/e", .writeOnly, options: [.create])
            try memory.writeBytes(Array("other".utf8), to: file, at: 0)
            try memory.close(file)
        }
        let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory("d/e") }
        #expect((error?.underlying as? FileSystemError)?.errno == .notDirectory)
        let wasReplaced = isReplaced.load(ordering: .relaxed)
        #expect(wasReplaced)
        #expect(try memory.readFile("/store/d/e") == Array("other".utf8))
        #expect(try memory.leftovers(under: "/store") == [])
    }

    @Test("what cannot be removed keeps its private name while its own is taken, and the next store removes it")
    func refusedAndReplaced() async throws {
        let isRefused = Atomic(true)
        do {
            let store = try await filledStore { (call) throws(FileSystemError) in
                guard call.operation == .unlink, call.path == "g", isRefused.load(ordering: .relaxed) else { return }
                try memory.createDirectory("/store/d", at: .workingDirectory, permissions: .ownerReadWriteExecute)
                try memory.createSymbolicLink("/store/d/new", at: .workingDirectory, to: "g")
                throw FileSystemError(.unlink, .permissionDenied, path: call.path)
            }
            let error = await #expect(throws: FileStoreError.self) { try await store.deleteDirectory("d") }
            let path = (error?.underlying as? FileSystemError)?.path
            #expect(path.map { "\($0)".hasPrefix("#trash-") && "\($0)".hasSuffix("/g") } == true)
            #expect(try await keys(store).contains("d/new"))
            #expect(try memory.leftovers(under: "/store").count == 1)
        }
        isRefused.store(false, ordering: .relaxed)
        try await DiskFileStore(root: root, fileSystem: memory).open()
        #expect(try memory.leftovers(under: "/store") == [])
    }

    @Test("other programs' files and their directories are kept, without an error")
    func foreign() async throws {
        let store = try await filledStore()
        try memory.createSymbolicLink("/store/d/link", at: .workingDirectory, to: "g")
        try await store.deleteAll()
        #expect(try await keys(store) == ["d", "d/link"])
    }

    @Test("works on a full disk")
    func full() async throws {
        let store = try await filledStore { (call) throws(FileSystemError) in
            if call.operation == .write { throw FileSystemError(.write, .noSpace) }
        }
        try await store.deleteAll()
        #expect(try await keys(store) == [])
    }

    @Test("of many directories flushes a few times only")
    func manyDirectories() async throws {
        let count = Atomic(0)
        let isFilled = Atomic(false)
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                guard call.operation == .synchronize, isFilled.load(ordering: .relaxed) else { return }
                count.add(1, ordering: .relaxed)
            })
        for number in 0..<200 { try await store.save(Data(), to: "\(number)/f", durability: .none) }
        isFilled.store(true, ordering: .relaxed)
        try await store.deleteAll()
        #expect(try await keys(store) == [])
        #expect(count.load(ordering: .relaxed) < 12)
    }

    #if canImport(Glibc)
    @Test(
        "keeps what is mounted in the store, and removes everything else", .enabled(if: geteuid() == 0),
        arguments: ["tmpfs", nil])
    func mounted(type: String?) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"))
        for key in ["a/f", "mounted/x", "z/f"] { try await store.save(Data("x".utf8), to: key) }
        try directory.write("foreign", to: "outside/f")
        let place = directory.path("store/mounted").description
        // With no type, a directory of the same device.
        let bind: UInt = 4096
        guard mount(type ?? directory.path("outside").description, place, type, type == nil ? bind : 0, nil) == 0 else {
            print("NOT RUN: a mount point in a store: \(Errno(rawValue: errno))")
            return
        }
        defer { umount2(place, 2) }
        try directory.write("foreign", to: "store/mounted/f")
        try await store.deleteAll()
        #expect(try await keys(store) == ["mounted", "mounted/f"])
        #expect(try directory.read("store/mounted/f") == "foreign")
    }

    @Test("of a directory keeps what is mounted below it", .enabled(if: geteuid() == 0), arguments: ["tmpfs", nil])
    func mountedBelow(type: String?) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"))
        for key in ["a/f", "d/f", "d/e/mounted/x", "d/e/f"] { try await store.save(Data("x".utf8), to: key) }
        try directory.write("foreign", to: "outside/f")
        let place = directory.path("store/d/e/mounted").description
        let bind: UInt = 4096
        guard mount(type ?? directory.path("outside").description, place, type, type == nil ? bind : 0, nil) == 0 else {
            print("NOT RUN: a mount point below a directory: \(Errno(rawValue: errno))")
            return
        }
        defer { umount2(place, 2) }
        try directory.write("foreign", to: "store/d/e/mounted/f")
        await #expect(performing: { try await store.deleteDirectory("d") }, throws: hasCode(.foreignContent))
        #expect(try await store.load("d/f") == Data("x".utf8))
        try await store.deleteAll()
        #expect(try await keys(store) == ["d", "d/e", "d/e/mounted", "d/e/mounted/f"])
        try await DiskFileStore(root: directory.url("store")).save(Data(), to: "g")
        #expect(try directory.read("store/d/e/mounted/f") == "foreign")
    }
    #endif
}
