import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("The file system in memory, beyond what every file system does")
struct InMemoryFileSystemTests {
    private struct DiskFull: Error, Equatable {}
    private let fileSystem = InMemoryFileSystem()

    @Test("the six calls work on a fresh file system")
    func sixCalls() throws {
        let directory = URL(filePath: "/test/cache")
        try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
        let file = directory.appendingPathComponent("a.cache")
        try fileSystem.write(Data("hello".utf8), to: file)
        #expect(fileSystem.fileExists(atPath: file.path))
        #expect(try fileSystem.read(from: file) == Data("hello".utf8))
        #expect(try fileSystem.contentsOfDirectory(at: directory).map(\.lastPathComponent) == ["a.cache"])
        try fileSystem.removeItem(at: file)
        #expect(!fileSystem.fileExists(atPath: file.path))
        #expect(fileSystem.openDescriptors.isEmpty)
    }
}
