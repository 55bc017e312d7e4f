import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("Only regular files are read as a whole")
struct WholeFileTests {
    private func expectRefusal(
        _ path: POSIXPath, on fileSystem: some POSIXFileSystem, _ errno: Errno = .notSupported
    ) throws {
        for read: () throws -> Void in [
            { _ = try fileSystem.read(from: URL(path)) }, { _ = try fileSystem.readFile(path) },
        ] {
            let error = #expect(throws: FileSystemError.self) { try read() }
            #expect(error?.errno == errno)
            #expect(error?.path == path)
        }
    }

    @Test("a FIFO without a writer is refused", .timeLimit(.minutes(10)))
    func fifo() throws {
        let memory = InMemoryFileSystem()
        try memory.createNode(
            "/fifo", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        try expectRefusal("/fifo", on: memory)
        #expect(memory.openDescriptors == InMemoryFileSystem().openDescriptors)
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let path = directory.path.appending("fifo")
        try SystemFileSystem().createNode(
            path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        try expectRefusal(path, on: SystemFileSystem())
    }

    @Test("a device is refused, even one whose content has no end", arguments: ["/dev/null", "/dev/zero"])
    func device(_ path: String) throws {
        try expectRefusal(POSIXPath(path), on: SystemFileSystem())
    }

    @Test("a directory is refused as a directory")
    func directory() throws {
        try expectRefusal("/", on: InMemoryFileSystem(), .isDirectory)
        try expectRefusal("/", on: SystemFileSystem(), .isDirectory)
    }

    @Test("a link to a regular file is followed")
    func link() throws {
        let memory = InMemoryFileSystem()
        try memory.write(Data("x".utf8), to: URL(filePath: "/file"))
        try memory.createSymbolicLink("/link", to: "/file")
        #expect(try memory.readFile("/link") == Array("x".utf8))
    }
}
