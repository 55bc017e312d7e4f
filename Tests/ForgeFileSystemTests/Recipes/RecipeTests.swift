import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

private func hasErrno(_ errno: Errno) -> @Sendable (any Error) -> Bool {
    { ($0 as? FileSystemError)?.errno == errno }
}

@Suite("Replacing a file")
struct FileReplacementTests {
    private let memory = InMemoryFileSystem()

    private func replace(
        _ name: POSIXPath, _ text: String, _ mode: RenameMode = .replacing,
        permissions: FilePermissions = .ownerReadWrite, durability: Durability = .full,
        on fileSystem: (some POSIXFileSystem)? = InMemoryFileSystem?.none
    ) throws {
        func run(_ fileSystem: some POSIXFileSystem) throws {
            try fileSystem.withDirectory("/") { (root) throws(FileSystemError) in
                try withBytes(of: Data(text.utf8)) { (bytes) throws(FileSystemError) in
                    try fileSystem.replaceFile(
                        name, at: root, with: bytes, mode, permissions: permissions, durability: durability)
                }
            }
        }
        if let fileSystem { try run(fileSystem) } else { try run(memory) }
    }

    private var names: Set<String> {
        get throws { Set(try memory.contentsOfDirectory(at: URL(filePath: "/")).map(\.lastPathComponent)) }
    }

    @Test("gives the new file the exact mode, whatever the umask")
    func mode() throws {
        let all: FilePermissions = [.ownerReadWriteExecute, .groupReadWriteExecute, .otherReadWriteExecute]
        try replace("f", "1", permissions: all)
        #expect(try memory.status("/f").permissions == all)
        try replace("g", "1", permissions: .ownerRead)
        #expect(try memory.status("/g").permissions == .ownerRead)
    }

    @Test("replaces a link, never its target")
    func link() throws {
        try replace("target", "old")
        try memory.createSymbolicLink("/f", to: "target")
        try replace("f", "new")
        #expect(try memory.readFile("/target") == Array("old".utf8))
        #expect(try memory.status("/f", followsSymbolicLinks: false).type == .regular)
    }

    @Test("fails exclusively with EEXIST, and leaves no temporary file")
    func exclusive() throws {
        try replace("f", "old", .exclusive)
        #expect(performing: { try replace("f", "new", .exclusive) }, throws: hasErrno(.fileExists))
        #expect(try memory.readFile("/f") == Array("old".utf8))
        #expect(try names == ["f"])
    }

    @Test(
        "falls back to a link without exclusive rename",
        arguments: [Errno.invalidArgument, .noFunction, .notSupported])
    func fallback(_ errno: Errno) throws {
        let old = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .rename { throw FileSystemError(.rename, errno) }
        }
        try replace("f", "old", .exclusive, on: old)
        #expect(performing: { try replace("f", "new", .exclusive, on: old) }, throws: hasErrno(.fileExists))
        #expect(try memory.readFile("/f") == Array("old".utf8))
        #expect(try memory.status("/f").linkCount == 1)
        #expect(try names == ["f"])
        #expect(performing: { try replace("f", "new", on: old) }, throws: hasErrno(errno))
    }

    @Test("reports that the file is in place if the fallback cannot remove the other name")
    func fallbackFails() throws {
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .rename { throw FileSystemError(.rename, .noFunction) }
            if call.operation == .unlink { throw FileSystemError(.unlink, .ioError) }
        }
        #expect {
            try replace("f", "new", .exclusive, on: failing)
        } throws: { error in
            (error as? FileSystemError)?.isEffectVisible == true && (error as? FileSystemError)?.path == "f"
        }
        #expect(try memory.readFile("/f") == Array("new".utf8))
    }

    @Test("chooses another temporary name if one exists, and eventually gives up")
    func takenNames() throws {
        let counter = CallCounter(failing: 0..<3)
        let taken = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .open, call.path?.isLeftover == true else { return }
            try counter.countOrFail(.open, call.path, .fileExists)
        }
        try replace("f", "1", on: taken)
        #expect(counter.count == 4)
        let always = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .open, call.path?.isLeftover == true else { return }
            throw FileSystemError(.open, .fileExists)
        }
        #expect(performing: { try replace("f", "2", on: always) }, throws: hasErrno(.fileExists))
    }

    #if os(Linux)
    @Test("succeeds if the old file disappears after its name was exchanged")
    func removedAfterExchange() throws {
        try memory.write(Data("old".utf8), to: URL(filePath: "/f"))
        let removing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .unlink, let path = call.path else { return }
            try memory.unlink(POSIXPath("/").appending(path))
        }
        try replace("f", "new", durability: .none, on: removing)
        #expect(try memory.readFile("/f") == Array("new".utf8))
        #expect(try names == ["f"])
    }
    #endif

    @Test(
        "keeps the old file if any call fails, unless it reports that the new one is in place",
        arguments: Durability.allCases)
    func everyFailingCall(_ durability: Durability) throws {
        var number = 0
        while true {
            let memory = InMemoryFileSystem()
            try memory.write(Data("old".utf8), to: URL(filePath: "/f"))
            let counter = CallCounter(failing: number..<(number + 1))
            let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                try counter.countOrFail(call.operation, call.path, .ioError)
            }
            var expected = "new"
            do {
                try replace("f", "new", durability: durability, on: failing)
            } catch let error as FileSystemError {
                if !error.isEffectVisible { expected = "old" }
            }
            #expect(try memory.readFile("/f") == Array(expected.utf8), "call \(number)")
            #expect(memory.openDescriptors == [], "call \(number)")
            let names = try memory.contentsOfDirectory(at: URL(filePath: "/")).map(\.lastPathComponent)
            #expect(names == ["f"], "call \(number)")
            number += 1
            guard counter.didFail else { break }
        }
        #expect(number > (durability == .full ? 8 : 6))
    }
}

@Suite("Removing a tree", .serialized)
struct TreeRemovalTests {
    private let memory = InMemoryFileSystem()

    private func build(on fileSystem: some POSIXFileSystem, at root: POSIXPath) throws {
        try fileSystem.makeDirectories(root.appending("a/b/c"))
        try fileSystem.makeDirectories(root.appending("a/d"))
        for name: POSIXPath in ["1", "a/2", "a/b/3", "a/b/c/4", "a/d/5"] {
            try fileSystem.close(fileSystem.open(root.appending(name), .writeOnly, options: [.create]))
        }
    }

    @Test("removes the tree and no target of its links")
    func links() throws {
        try build(on: memory, at: "/outside")
        try build(on: memory, at: "/tree")
        try memory.createSymbolicLink("/tree/a/link", to: "/outside")
        try memory.createSymbolicLink("/tree/a/b/up", to: "..")
        try memory.removeTree("/tree")
        #expect(!memory.fileExists(atPath: "/tree"))
        #expect(memory.fileExists(atPath: "/outside/a/b/c/4"))
        try memory.createSymbolicLink("/link", to: "/outside")
        try memory.removeTree("/link")
        #expect(memory.fileExists(atPath: "/outside/a/b/c/4"))
        #expect(memory.openDescriptors == [])
    }

    @Test("a tree that is missing is an error")
    func missing() {
        #expect(performing: { try memory.removeTree("/no") }, throws: hasErrno(.noSuchFileOrDirectory))
    }

    @Test("refuses the root and a path that ends in dots before anything is removed")
    func dots() throws {
        try build(on: memory, at: "/tree")
        for (path, errno) in [
            ("/", Errno.resourceBusy), ("//", .resourceBusy), ("/tree/.", .invalidArgument),
            ("/tree/a/..", .invalidArgument), ("/tree/a/../", .invalidArgument), ("/..", .invalidArgument),
        ] as [(POSIXPath, Errno)] {
            #expect(performing: { try memory.removeTree(path) }, throws: hasErrno(errno))
            #expect(performing: { try memory.removeItem(at: URL(path)) }, throws: hasErrno(errno))
            #expect(memory.fileExists(atPath: "/tree/a/b/c/4"), "\(path)")
        }
        #expect(performing: { try memory.removeTree("") }, throws: hasErrno(.noSuchFileOrDirectory))
    }

    @Test("goes on if another process removes a file first")
    func removedMeanwhile() throws {
        try build(on: memory, at: "/tree")
        let removing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            if call.operation == .unlink, call.path == "2" { try memory.unlink("/tree/a/2") }
        }
        try removing.removeTree("/tree")
        #expect(!memory.fileExists(atPath: "/tree"))
        #expect(memory.openDescriptors == [])
    }

    @Test("uses as few descriptors for a deep tree as for a flat one")
    func deep() throws {
        let few = InMemoryFileSystem(options: .init(maximumOpenFileCount: 4))
        var path: POSIXPath = "/tree"
        for _ in 0..<300 {
            try few.createDirectory(path)
            path = path.appending("d")
        }
        try few.removeTree("/tree")
        #expect(!few.fileExists(atPath: "/tree"))
    }

    @Test("closes every descriptor exactly once, whichever call fails")
    func everyFailingCall() throws {
        var number = 0
        while true {
            let memory = InMemoryFileSystem()
            try build(on: memory, at: "/tree")
            let counter = CallCounter(failing: number..<(number + 1))
            let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                try counter.countOrFail(call.operation, call.path, .ioError)
            }
            do {
                try failing.removeTree("/tree")
            } catch {
                #expect(hasErrno(.ioError)(error), "call \(number): \(error)")
            }
            #expect(memory.openDescriptors == [], "call \(number)")
            number += 1
            guard counter.didFail else { break }
        }
        #expect(number > 30)
    }

    @Test("stops if its directory was moved")
    func moved() throws {
        try build(on: memory, at: "/tree")
        try memory.createDirectory("/elsewhere")
        let moving = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .open, call.path == "..", memory.fileExists(atPath: "/tree/a") else { return }
            try memory.rename("/tree/a", to: "/elsewhere/a")
        }
        #expect(performing: { try moving.removeTree("/tree") }, throws: hasErrno(.resourceBusy))
        #expect(memory.fileExists(atPath: "/elsewhere/a"))
        #expect(memory.openDescriptors == [])
    }
}

@Suite("Creating a chain of directories")
struct DirectoryChainTests {
    private let memory = InMemoryFileSystem()

    @Test("creates missing directories and accepts existing ones")
    func chain() throws {
        try memory.makeDirectories("/a/b/c", permissions: .ownerReadWriteExecute)
        try memory.makeDirectories("/a/b/c")
        try memory.makeDirectories("/a/b/c/d/e/")
        #expect(try memory.status("/a/b/c/d/e").type == .directory)
    }

    @Test("accepts the root directory, and creates what is directly below it, on each platform")
    func root() throws {
        for options in [InMemoryFileSystem.Options(), .darwin] {
            let fileSystem = InMemoryFileSystem(options: options)
            for path in ["/", "/a", "/a", "/b/", "/c/d"] as [POSIXPath] {
                try fileSystem.makeDirectories(path)
                #expect(try fileSystem.status(path).type == .directory)
            }
            for path in ["/e", "/e"] as [POSIXPath] {
                try fileSystem.createDirectories(
                    path, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: .noSymbolicLinks)
            }
            for path in ["/", "/f", "/f", "/g/h"] {
                try fileSystem.createDirectory(at: URL(filePath: path), withIntermediateDirectories: true)
            }
        }
    }

    @Test("accepts a link to a directory, and refuses other entries")
    func obstacles() throws {
        try memory.makeDirectories("/a")
        try memory.createSymbolicLink("/link", to: "/a")
        try memory.makeDirectories("/link/b")
        #expect(memory.fileExists(atPath: "/a/b"))
        try memory.makeDirectories("/link")
        try memory.write(Data(), to: URL(filePath: "/file"))
        #expect(performing: { try memory.makeDirectories("/file") }, throws: hasErrno(.fileExists))
        #expect(performing: { try memory.makeDirectories("/file/x/y") }, throws: hasErrno(.notDirectory))
        #expect(performing: { try memory.makeDirectories("") }, throws: hasErrno(.noSuchFileOrDirectory))
    }

    @Test("synchronises a directory that another process has just created, if permitted")
    func existing() throws {
        try memory.makeDirectories("/a")
        let counter = CallCounter()
        let counting = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { try counter.countOrFail(.synchronize, nil, .ioError) }
        }
        try counting.makeDirectories("/a")
        #expect(counter.count == 1)
        for errno in [Errno.permissionDenied, .notPermitted, .readOnlyFileSystem, .invalidArgument] {
            let refusing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if call.operation == .synchronize { throw FileSystemError(.synchronize, errno) }
            }
            try refusing.makeDirectories("/a")
        }
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { throw FileSystemError(.synchronize, .ioError) }
        }
        #expect(performing: { try failing.makeDirectories("/a") }, throws: hasErrno(.ioError))
    }

    @Test("makes each name on the path durable once, also the names that a link hides")
    func flushedNames() throws {
        let flushed = Mutex<[UInt64]>([])
        let recording = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .synchronize, let descriptor = call.descriptor else { return }
            let inode = try memory.status(of: .descriptor(descriptor)).inode
            flushed.withLock { $0.append(inode) }
        }
        func expectFlushes(_ paths: [POSIXPath], _ line: Int = #line) throws {
            #expect(try flushed.withLock { $0 } == paths.map { try memory.status($0).inode }, "line \(line)")
            flushed.withLock { $0 = [] }
        }
        try recording.makeDirectories("/a/b/c")
        try expectFlushes(["/", "/a", "/a/b"])
        try recording.makeDirectories("/a/b/c")
        try expectFlushes(["/a/b", "/a", "/"])
        try memory.createDirectory("/other")
        try memory.createSymbolicLink("/other/link", to: "/a/b")
        try recording.makeDirectories("/other/link/x")
        try expectFlushes(["/a/b", "/a", "/", "/other"])
        try recording.synchronizeNames(leadingTo: "/a/b/c")
        try expectFlushes(["/a/b", "/a", "/"])
        try recording.makeStoreDirectories("/a/new", isDurable: false)
        try expectFlushes([])
    }

    @Test("leaves no directory whose mode cannot be set")
    func unsetMode() throws {
        let memory = InMemoryFileSystem(options: .init(umask: [.ownerWrite]))
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .setPermissions { throw FileSystemError(.setPermissions, .ioError) }
        }
        #expect(performing: { try failing.makeDirectories("/d") }, throws: hasErrno(.ioError))
        #expect(!memory.fileExists(atPath: "/d"))
        #expect(memory.openDescriptors == [])
    }

    @Test("concurrent calls all succeed on the disk")
    func concurrent() async throws {
        let root = POSIXPath(FileManager.default.temporaryDirectory.path + "/ForgeChain-\(UUID().uuidString)")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { try SystemFileSystem().makeDirectories(root.appending("a/b/c/d")) }
            }
            try await group.waitForAll()
        }
        #expect(try SystemFileSystem().status(root.appending("a/b/c/d")).type == .directory)
        try SystemFileSystem().removeTree(root)
    }
}
