import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

/// A process that the system suspends while it holds a lock in a container of several apps is ended on iOS.
@Suite("The locks of a store directory")
struct IdleLockTests {
    @Test("are held by no object between its calls, on any file of the root")
    func idle() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let root = directory.path.appending("store")
        let fileSystem = SystemFileSystem()
        let store = try StoreDirectory(root, on: fileSystem)
        try save("f", in: store)
        try save("d/f", in: store)
        try store.unlink(try RelativeKey("f"))
        try store.removeTree(try RelativeKey("d"))

        var held: Set<POSIXPath> = []
        let entries = try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            try fileSystem.entries(of: root)
        }
        #expect(!entries.isEmpty)
        for path in [root] + entries.map({ root.appending($0.name) }) where try isLocked(path) { held.insert(path) }
        #expect(held == [])
        withExtendedLifetime(store) {}
    }

    @Test("keep the temporary file of a writer from the cleaning of other objects, also after others used its record")
    func staged() throws {
        let memory = InMemoryFileSystem()
        let first = try StoreDirectory("/store", on: memory)
        try save("d/a", in: first)
        let second = try StoreDirectory("/store", on: memory)
        try save("e/a", in: second)

        let staged = try first.stage(try RelativeKey("d/b"), .none)
        try save("d/c", in: second)
        _ = try StoreDirectory("/store", on: memory)
        try staged.withFile { (file) throws(FileSystemError) in try memory.writeBytes([1, 2], to: file, at: 0) }
        try staged.finish(.none)
        try first.place(staged, .replacing, durability: .none)
        #expect(try first.read(try RelativeKey("d/b")) == [1, 2])
        #expect(
            try Set(first.list(nil, isRecursive: true).map { "\($0.path)" }) == [
                "d", "d/a", "d/b", "d/c", "e", "e/a",
            ])
    }

    @Test("that a process has left with its end let the next object remove its files")
    func ended() throws {
        let memory = InMemoryFileSystem()
        let idle = try StoreDirectory("/store", on: memory)
        try save("d/a", in: idle)
        let killed = memory.process(user: UserID(0), group: GroupID(0))
        let lost = try StoreDirectory("/store", on: killed).stage(try RelativeKey("e/b"), .none)
        #expect(try leftovers(of: memory).count == 1)
        killed.endProcess()
        // The object takes its record back, and removes what its owner in between has left.
        try save("d/c", in: idle)
        _ = try StoreDirectory("/store", on: memory)
        #expect(try leftovers(of: memory) == [])
        withExtendedLifetime(lost) {}
    }

    private func leftovers(of fileSystem: InMemoryFileSystem) throws -> [POSIXPath] {
        try ["/store", "/store/d", "/store/e"].flatMap { (path: POSIXPath) in
            try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
                try fileSystem.entries(of: directory).map(\.name).filter(\.isLeftover)
            }
        }
    }

    private func save(_ key: String, in store: StoreDirectory) throws {
        let key = try RelativeKey(key)
        try withBytes(of: Data("x".utf8)) { (bytes) throws(FileSystemError) in try store.replace(key, with: bytes) }
    }

    private func isLocked(_ path: POSIXPath) throws -> Bool {
        let fileSystem = SystemFileSystem()
        let file = try fileSystem.open(path)
        defer { fileSystem.discard(file) }
        do throws(FileSystemError) {
            try fileSystem.lock(file, .exclusive, waiting: false)
            return false
        } catch {
            return true
        }
    }
}
