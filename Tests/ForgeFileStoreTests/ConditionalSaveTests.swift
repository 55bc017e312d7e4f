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

    @Test("while another program locks the directory, other saves wait a second, conditional ones fail after ten")
    func foreignLock() async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"))
        let revision = try #require(try await store.save(Data("old".utf8), to: "f", if: .always).revision)
        let foreign = open(directory.url("store").path, O_RDONLY | O_DIRECTORY)
        defer { close(foreign) }
        try #require(flock(foreign, LOCK_EX) == 0)

        let clock = ContinuousClock()
        let start = clock.now
        let conditional = Task { try await store.save(Data("new".utf8), to: "f", if: .unchanged(revision)) }
        try await store.save(Data("other".utf8), to: "g")
        #expect(clock.now - start >= .seconds(1))
        let error = await #expect(throws: FileStoreError.self) { try await conditional.value }
        #expect(clock.now - start >= .seconds(10))
        guard case .unavailable = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try await store.load("f") == Data("old".utf8))
        #expect(try await store.load("g") == Data("other".utf8))
    }
}
