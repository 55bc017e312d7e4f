import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("Every file store passes every check")
struct ConformanceTests {
    @Test("the list has at least forty different checks")
    func count() {
        #expect(ConformanceChecks.fileStore.count >= 40)
        #expect(Set(ConformanceChecks.fileStore.map(\.description)).count == ConformanceChecks.fileStore.count)
    }

    @Test(arguments: StoreKind.allCases)
    func conforms(_ kind: StoreKind) async throws {
        var missed: [String] = []
        for check in ConformanceChecks.fileStore {
            guard check.needs.isSubset(of: kind.capabilities) else {
                missed.append(check.description)
                continue
            }
            do {
                try await kind.withStore { store in try await check.run(on: store) }
            } catch {
                Issue.record("\(error)")
            }
        }
        #expect(missed == (kind == .inMemoryStore ? ["a URL names the file"] : []))
    }
}

@Suite("Every streaming file store passes every check")
struct StreamingConformanceTests {
    @Test(arguments: StoreKind.allCases)
    func conforms(_ kind: StoreKind) async throws {
        let hasAttributes = try await kind.hasAttributes()
        let checks = ConformanceChecks.streamingFileStore + ConformanceChecks.fileWatching
        // A default run makes all of them on the disk and, in another test, on the file systems of Apple's platforms.
        for check in kind == .diskStoreInMemory ? TestDepth.sample(checks, every: 4) : checks {
            guard hasAttributes || !check.needs.contains(.fileAttributes) else { continue }
            do {
                try await kind.withStore { store in try await check.run(on: store) }
            } catch {
                Issue.record("\(error)")
            }
        }
    }
}

/// A custom store with only the required calls.
private final class MinimalStore: FileStoring {
    private let files = Mutex<[String: Data]>([:])
    /// The directories that were listed.
    let listed = Mutex<[String]>([])
    private let entries: [String: String]
    private let whileSaving: @Sendable () throws -> Void

    /// - Parameters:
    ///   - entries: The only entry of a directory, whatever files there are.
    ///   - whileSaving: What another program does during a save.
    init(entries: [String: String] = [:], whileSaving: @escaping @Sendable () throws -> Void = {}) {
        self.entries = entries
        self.whileSaving = whileSaving
    }

    func save(_ data: Data, to path: String, overwrite: Bool = true) async throws {
        try whileSaving()
        try files.withLock { files in
            if !overwrite, files[path] != nil { throw FileStoreError(.alreadyExists, .save, key: path) }
            files[path] = data
        }
    }

    func load(_ path: String) async throws -> Data {
        try files.withLock { files in
            guard let data = files[path] else { throw FileStoreError(.notFound, .load, key: path) }
            return data
        }
    }

    func exists(_ path: String) -> Bool {
        files.withLock { $0[path] != nil }
    }

    func delete(_ path: String) async throws {
        files.withLock { $0[path] = nil }
    }

    func list(in directory: String) async throws -> [StoredFile] {
        let prefix = directory.isEmpty ? "" : directory + "/"
        listed.withLock { $0.append(directory) }
        if let key = entries[directory] { return [StoredFile(key: key, sizeInBytes: 0, modified: .distantPast)] }
        return files.withLock { files in
            var found: [String: StoredFile] = [:]
            for (key, data) in files where key.hasPrefix(prefix) {
                let rest = key.dropFirst(prefix.count)
                if let slash = rest.firstIndex(of: "/") {
                    let key = prefix + rest[..<slash]
                    found[key] = StoredFile(key: key, kind: .directory, sizeInBytes: 0, modified: .distantPast)
                } else {
                    found[key] = StoredFile(key: key, sizeInBytes: Int64(data.count), modified: .distantPast)
                }
            }
            return Array(found.values)
        }
    }

    func deleteAll() async throws {
        files.withLock { $0 = [:] }
    }
}

@Suite("A custom store with only the document's calls")
struct MinimalStoreTests {
    private let store = MinimalStore()

    @Test("refuses an invalid key as the call that was made, and touches no source")
    func invalidKeys() async throws {
        let source = FileManager.default.temporaryDirectory.appending(path: "forge-source-\(UUID().uuidString)")
        try Data("source".utf8).write(to: source)
        defer { try? FileManager.default.removeItem(at: source) }
        let copy = await #expect(throws: FileStoreError.self) { try await store.copy(from: source, to: "../x") }
        #expect(copy?.operation == .copy && copy?.key == "../x")
        let move = await #expect(throws: FileStoreError.self) { try await store.move(from: source, to: "../x") }
        #expect(move?.operation == .move && move?.key == "../x")
        #expect(try Data(contentsOf: source) == Data("source".utf8))
    }

    @Test("has sizes, metadata and recursive listings")
    func queries() async throws {
        try await store.save(Data(count: 3), to: "a/b")
        try await store.save(Data(count: 4), to: "a/c/d")
        #expect(store.exists("a/b"))
        #expect(try await store.totalSize() == 7)
        #expect(try await store.size("a/c/d") == 4)
        #expect(try await store.info("a/c").isDirectory)
        store.listed.withLock { $0 = [] }
        #expect(try await store.list(recursive: true).map(\.key).sorted() == ["a", "a/b", "a/c", "a/c/d"])
        #expect(store.listed.withLock { $0 } == ["", "a", "a/c"])
        await #expect(performing: { try await store.info("a/x") }, throws: hasCode(.notFound))
        await #expect(performing: { try await store.info("../x") }, throws: hasCode(.invalidKey(.dotComponent)))
    }

    @Test("copies and moves files, deletes directories, and reports that it has no URLs")
    func files() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("content", to: "source")
        try await store.copy(from: directory.url("source"), to: "x/copied")
        try await store.move(from: directory.url("source"), to: "x/moved")
        #expect(try await store.load("x/moved") == Data("content".utf8))
        #expect(try await store.load("x/copied") == Data("content".utf8))
        await #expect(
            performing: { try await store.copy(from: directory.url("source"), to: "y") },
            throws: hasCode(.invalidSource(.notFound)))
        try await store.createDirectory("z")
        await #expect(performing: { try await store.url(for: "x/moved") }, throws: hasCode(.unsupported))
        try await store.deleteDirectory("x")
        #expect(!store.exists("x/moved"))
        try await store.saveJSON([1, 2], to: "numbers")
        #expect(try await store.loadJSON("numbers") == [1, 2])
    }

    @Test(
        "an entry that is not a child of the listed directory is an error",
        arguments: [("", ""), ("", "a/b"), ("d", "d"), ("d", "d/"), ("d", "dx"), ("d", "d/a/b"), ("d", "e/f")])
    func oddEntries(directory: String, key: String) async throws {
        let store = MinimalStore(entries: [directory: key])
        try await store.save(Data(), to: "d/f")
        let error = await #expect(throws: FileStoreError.self) { try await store.list(recursive: true) }
        #expect(error?.code == .unavailable(.inputOutput))
        #expect(error?.operation == .list && error?.key == key)
        #expect(error.map { "\($0)".contains("but not a child of it") } == true)
    }

    @Test("a source that another program writes to during a move gets its name back")
    func changedSource() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("content", to: "source")
        try FileManager.default.linkItem(at: directory.url("source"), to: directory.url("link"))
        let link = directory.path("link")
        let store = MinimalStore { try SystemFileSystem().truncate(.path(link), to: 3) }
        await #expect(
            performing: { try await store.move(from: directory.url("source"), to: "moved") },
            throws: hasCode(.invalidSource(.changed)))
        #expect(try directory.read("source") == "con")
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path).sorted() == ["link", "source"])
    }
}
