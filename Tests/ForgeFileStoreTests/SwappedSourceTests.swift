import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

/// Another program replaces the file at the source's name between the checks of a move and its rename.
@Suite("A move whose source is swapped")
struct SwappedSourceTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/data/store")
    private let source = URL(filePath: "/in/source")

    init() throws {
        try memory.createDirectory("/in")
        try memory.write(Data("source".utf8), to: source)
        try memory.setPermissions([.ownerReadWrite, .otherRead], of: .path("/in/source"))
        try memory.write(Data("other".utf8), to: URL(filePath: "/in/other"))
    }

    enum Swap: String, CaseIterable, CustomTestStringConvertible {
        case file, symbolicLink, hardLink, directory, fifo, secondName, nothing

        var testDescription: String { rawValue }

        /// Changes the file at `/in/source`; with `removing`, the source itself loses its only name.
        func perform(on fileSystem: InMemoryFileSystem, removing: Bool) throws(FileSystemError) {
            let source: POSIXPath = "/in/source"
            guard self != .secondName else { return try fileSystem.link(source, to: "/in/second") }
            if removing {
                try fileSystem.unlink(source)
            } else {
                try fileSystem.rename(source, to: "/in/aside")
            }
            switch self {
            case .file: try fileSystem.rename("/in/other", to: source)
            case .symbolicLink: try fileSystem.createSymbolicLink(source, to: "/in/other")
            case .hardLink: try fileSystem.link("/in/other", to: source)
            case .directory: try fileSystem.createDirectory(source)
            case .fifo:
                try fileSystem.createNode(
                    source, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            case .secondName, .nothing: break
            }
        }
    }

    /// A store on a file system that calls `action` before the first rename of the source, and `restoring` before a
    /// later rename to its name.
    private func store(
        restoring: @escaping @Sendable () throws(FileSystemError) -> Void = { () throws(FileSystemError) in },
        action: @escaping @Sendable () throws(FileSystemError) -> Void
    ) -> DiskFileStore {
        DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                guard call.operation == .rename else { return }
                if call.path == "source" { try action() }
                if call.destination == "source" { try restoring() }
            })
    }

    private func names(in directory: String) throws -> Set<String> {
        Set(try memory.contentsOfDirectory(at: URL(filePath: directory)).map(\.lastPathComponent))
    }

    @Test(
        "stores nothing, and keeps the old file and the file at the source's name", arguments: Swap.allCases,
        [false, true])
    func swap(_ swap: Swap, removing: Bool) async throws {
        let memory = memory
        let store = store { () throws(FileSystemError) in try swap.perform(on: memory, removing: removing) }
        try await store.save(Data("old".utf8), to: "file")
        await #expect(
            performing: { try await store.move(from: self.source, to: "file") },
            throws: hasCode(.invalidSource(.changed)))
        #expect(try await store.load("file") == Data("old".utf8))
        #expect(try names(in: "/data/store") == ["#journal-0", "#store-files", "file"])
        var left: Set = ["source", "other"]
        switch swap {
        case .file: left.remove("other")
        case .secondName: left.insert("second")
        case .nothing: left.remove("source")
        default: break
        }
        if !removing, swap != .secondName { left.insert("aside") }
        #expect(try names(in: "/in") == left)
        for name in ["aside", "second"] where left.contains(name) {
            let path = ("/in" as POSIXPath).appending(POSIXPath(name))
            #expect(try memory.readFile(path) == Array("source".utf8))
            #expect(try memory.status(path).permissions == [.ownerReadWrite, .otherRead])
        }
    }

    @Test("whose name is taken by another file twice is kept under a name in the error")
    func nameTaken() async throws {
        let memory = memory
        let store = store(
            restoring: { () throws(FileSystemError) in
                try memory.createSymbolicLink("/in/source", to: "/in/other")
            },
            action: { () throws(FileSystemError) in try Swap.file.perform(on: memory, removing: false) })
        try await store.save(Data("old".utf8), to: "file")
        let error = await #expect(throws: FileStoreError.self) { try await store.move(from: source, to: "file") }
        #expect(error?.code == .invalidSource(.notRestored))
        let kept = try #require((error?.underlying as? FileSystemError)?.path)
        #expect("\(kept)".hasPrefix("/data/store/#move-"))
        #expect(try memory.readFile(kept) == Array("other".utf8))
        #expect(try memory.readSymbolicLink("/in/source") == "/in/other")
        // No later call lists, reaches or removes it.
        let next = DiskFileStore(root: root, fileSystem: memory)
        try await next.save(Data("new".utf8), to: "file")
        #expect(try await next.list(recursive: true).map(\.key) == ["file"])
        let name = String(kept.splitLast().name)
        await #expect(performing: { try await next.delete(name) }, throws: hasCode(.invalidKey(.reserved)))
        try await next.deleteAll()
        #expect(try memory.readFile(kept) == Array("other".utf8))
    }

    @Test("that is renamed back after a failure keeps its mode, and the old file is kept")
    func failure() async throws {
        let memory = memory
        let store = DiskFileStore(
            root: root,
            fileSystem: InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                guard call.operation == .rename, call.destination == "file" else { return }
                if memory.fileExists(atPath: "/data/store/file") { throw FileSystemError(.rename, .noSpace) }
            })
        try await store.save(Data("old".utf8), to: "file")
        await #expect(performing: { try await store.move(from: self.source, to: "file") }, throws: hasCode(.noSpace))
        #expect(try await store.load("file") == Data("old".utf8))
        #expect(try memory.readFile("/in/source") == Array("source".utf8))
        #expect(try memory.status("/in/source").permissions == [.ownerReadWrite, .otherRead])
        #expect(try names(in: "/in") == ["source", "other"])
        #expect(try names(in: "/data/store") == ["#journal-0", "#store-files", "file"])
    }

    @Test("to an existing key does not lose its name if it may not overwrite")
    func taken() async throws {
        let store = store { () throws(FileSystemError) in Issue.record("the source was renamed") }
        try await store.save(Data("old".utf8), to: "file")
        await #expect(
            performing: { try await store.move(from: self.source, to: "file", overwrite: false) },
            throws: hasCode(.alreadyExists))
        #expect(try memory.readFile("/in/source") == Array("source".utf8))
    }
}
