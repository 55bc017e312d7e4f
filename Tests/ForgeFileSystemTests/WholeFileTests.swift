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

    @Test("a FIFO with a reader is written in place", .timeLimit(.minutes(10)))
    func writtenFIFO() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let system = SystemFileSystem()
        let path = directory.path.appending("fifo")
        try system.createNode(path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        let reader = try system.open(path, .readOnly, options: [.nonBlocking])
        defer { system.discard(reader) }
        try system.write(Data("text".utf8), to: URL(path))
        var buffer = [UInt8](repeating: 0, count: 10)
        let count = try buffer.withUnsafeMutableBytes { try system.read(reader, into: $0, at: nil) }
        #expect(buffer.prefix(count).elementsEqual("text".utf8))
        #expect(try system.status(path).type == .fifo)
        #expect(try system.contentsOfDirectory(at: directory.url).count == 1)
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

@Suite("Files of any size")
struct HostileSizeTests {
    static let sizes: [Int64] = [.max, 1 << 46, (1 << 31)]

    private func hasFiles(
        of size: Int64, _ file: Descriptor, _ fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Bool {
        do {
            try fileSystem.truncate(.descriptor(file), to: size)
            return true
        } catch  where error.errno == .fileTooLarge || error.errno == .invalidArgument {
            return false
        }
    }

    private func expectTooLarge(_ fileSystem: any POSIXFileSystem, _ path: POSIXPath, _ size: Int64) throws {
        let file = try fileSystem.open(path, .readWrite, options: [.create])
        defer { fileSystem.discard(file) }
        // Some file systems have a smaller limit: ext4 ends at 16 TiB.
        guard try hasFiles(of: size, file, fileSystem) else { return }
        for read: () throws -> Void in [
            { _ = try fileSystem.read(from: URL(path)) }, { _ = try fileSystem.readFile(path) },
            { _ = try fileSystem.readContents(of: file, maximumSizeInBytes: 1000) },
        ] {
            let error = #expect(throws: FileSystemError.self) { try read() }
            #expect(error?.errno == .fileTooLarge)
        }
        #expect(try fileSystem.readBytes(of: file, at: size - 1, count: 1) == [0])
    }

    @Test("a file too large for memory is an error in memory", arguments: sizes)
    func inMemory(_ size: Int64) throws {
        try expectTooLarge(InMemoryFileSystem(), "/sparse", size)
    }

    @Test("a file too large for memory is an error on the disk", arguments: sizes)
    func onDisk(_ size: Int64) throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        try expectTooLarge(SystemFileSystem(), directory.path.appending("sparse"), size)
        // On tmpfs, files may have any size.
        let memory = POSIXPath("/dev/shm/sparse-\(UUID().uuidString)")
        guard SystemFileSystem().fileExists(atPath: "/dev/shm") else { return }
        defer { do { try SystemFileSystem().unlink(memory) } catch { Issue.record("\(error)") } }
        try expectTooLarge(SystemFileSystem(), memory, size)
    }
}
