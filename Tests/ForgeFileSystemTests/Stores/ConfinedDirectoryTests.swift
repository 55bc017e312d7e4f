import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("A confined directory") struct ConfinedDirectoryTests {
    private let memory = InMemoryFileSystem()

    init() throws {
        for path in ["/root", "/root/a", "/root/a/b", "/outside", "/outside/b"] as [POSIXPath] {
            try memory.createDirectory(path)
        }
        try write("inside", to: "/root/a/b/file")
        try write("outside", to: "/outside/b/file")
    }

    private func write(_ text: String, to path: POSIXPath) throws {
        let file = try memory.open(path, .writeOnly, options: [.create])
        defer { memory.discard(file) }
        try memory.writeBytes(Array(text.utf8), to: file, at: 0)
    }

    private func content(_ path: POSIXPath, in root: ConfinedDirectory) throws(FileSystemError) -> String {
        let (directory, name) = try root.openParent(of: path)
        defer { memory.discard(directory) }
        let (file, status) = try memory.openRegularFile(name, at: directory)
        defer { memory.discard(file) }
        return String(decoding: try memory.readBytes(of: file, at: 0, count: Int(status.sizeInBytes)), as: UTF8.self)
    }

    @Test("has directories above it, which are searched past one that cannot be examined, but not past an unopened one")
    func above() throws {
        let directory = try memory.open("/root/a/b", options: [.directory])
        var count = 0
        func search(_ fileSystem: some POSIXFileSystem, until end: Int) -> Int? {
            count = 0
            return fileSystem.firstAbove(directory) { (_) throws(FileSystemError) -> Int? in
                count += 1
                if count == 1 { throw FileSystemError(.read, .ioError) }
                return count == end ? count : nil
            }
        }
        #expect(search(memory, until: 2) == 2)
        #expect(search(memory, until: 9) == nil)
        #expect(count == 3)
        let closed = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .open, memory.openDescriptors.count > 1 else { return }
            throw FileSystemError(.open, .permissionDenied)
        }
        #expect(search(closed, until: 2) == nil)
        #expect(count == 1)
        #expect(memory.openDescriptors == [directory])
    }

    @Test("opens itself, and what is below it")
    func below() throws {
        let root = try ConfinedDirectory("/root", on: memory)
        let directory = try root.open(".")
        defer { memory.discard(directory) }
        #expect(try memory.entries(of: directory).map(\.name) == ["a"])
        #expect(try content("a/b/file", in: root) == "inside")
    }

    @Test(
        "follows no link, and is not left",
        arguments: ["link/b/file", "a/link/file", "a/b/link", "../outside/b/file", "/outside/b/file"])
    func contained(path: String) throws {
        try memory.createSymbolicLink("/root/link", to: "/outside")
        try memory.createSymbolicLink("/root/a/link", to: "b")
        try memory.createSymbolicLink("/root/a/b/link", to: "file")
        let root = try ConfinedDirectory("/root", on: memory)
        #expect(throws: FileSystemError.self) { try content(POSIXPath(path), in: root) }
    }

    @Test("opens the directory that has taken its place, but not a link, nor one in its path")
    func replaced() throws {
        try memory.createDirectory("/root/a/deep")
        let root = try ConfinedDirectory("/root/a", on: memory)
        try memory.rename("/root/a", to: "/root/moved")
        #expect { try content("b/file", in: root) } throws: {
            ($0 as? FileSystemError)?.errno == .noSuchFileOrDirectory
        }
        try memory.createSymbolicLink("/root/a", to: "/outside")
        #expect { try content("b/file", in: root) } throws: {
            ($0 as? FileSystemError)?.errno == .tooManySymbolicLinkLevels
        }
        try memory.unlink("/root/a")
        try memory.createDirectory("/root/a")
        try memory.createDirectory("/root/a/b")
        try write("new", to: "/root/a/b/file")
        #expect(try content("b/file", in: root) == "new")
        try memory.rename("/root", to: "/old")
        try memory.createDirectory("/outside/a")
        try memory.createSymbolicLink("/root", to: "/outside")
        #expect(throws: FileSystemError.self) { try content("b/file", in: root) }
    }

    @Test("stays the directory to which a link led at first")
    func givenLink() throws {
        try memory.createSymbolicLink("/link", to: "/root/a")
        let root = try ConfinedDirectory("/link", on: memory)
        try memory.unlink("/link")
        try memory.createSymbolicLink("/link", to: "/outside")
        #expect(try content("b/file", in: root) == "inside")
    }

    @Test(
        "stays the same directory where the system cannot refuse links",
        arguments: [Errno.noFunction, .notPermitted, .notSupported])
    func withoutResolution(_ errno: Errno) throws {
        let calls = CallCounter(failing: 0..<1)
        let old = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .open, call.path == "/root/a" { try calls.countOrFail(.open, call.path, errno) }
        }
        let root = try ConfinedDirectory("/root/a", on: old)
        #expect(calls.count == 2)
        try memory.rename("/root/a", to: "/root/moved")
        try memory.createDirectory("/root/a")
        try memory.createDirectory("/root/a/b")
        try write("new", to: "/root/a/b/file")
        #expect(try content("b/file", in: root) == "inside")
        #expect(calls.count == 2)
    }

    @Test("is not opened in another way after an error that is not about links")
    func failure() {
        let calls = CallCounter(failing: 0..<1)
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .open { try calls.countOrFail(.open, call.path, .permissionDenied) }
        }
        expectErrno(.permissionDenied) { _ = try ConfinedDirectory("/root", on: failing) }
        #expect(calls.count == 1)
    }

    @Test("opens no FIFO that has taken the name of a regular file meanwhile, and leaves no descriptor open")
    func replacedFile() throws {
        let replacing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .open, call.path == "file" else { return }
            try memory.unlink("/root/a/b/file")
            try memory.createNode(
                "/root/a/b/file", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        }
        let directory = try memory.open("/root/a/b", .readOnly, options: [.directory])
        let before = memory.openDescriptors
        expectErrno(.notSupported) { _ = try replacing.openRegularFile("file", at: directory) }
        #expect(memory.openDescriptors == before)
    }

    @Test("is refused if it is a file or missing")
    func refused() {
        #expect(throws: FileSystemError.self) { try ConfinedDirectory("/root/a/b/file", on: memory) }
        #expect(throws: FileSystemError.self) { try ConfinedDirectory("/missing", on: memory) }
    }

    @Test("opens no file that is not regular", arguments: [FileType.fifo, .socket, .characterSpecial])
    func special(type: FileType) throws {
        try memory.createNode(
            "/root/special", at: .workingDirectory, type: type, permissions: [.ownerReadWrite], deviceNumber: 259)
        let root = try ConfinedDirectory("/root", on: memory)
        #expect { try content("special", in: root) } throws: { ($0 as? FileSystemError)?.errno == .notSupported }
    }
}
