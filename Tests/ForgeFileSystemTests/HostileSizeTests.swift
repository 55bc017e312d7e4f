import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

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
