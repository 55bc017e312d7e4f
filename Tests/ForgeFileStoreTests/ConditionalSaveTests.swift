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
}
