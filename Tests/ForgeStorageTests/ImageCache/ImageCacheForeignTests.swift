import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@Suite("The image cache beside entries that it did not write", .timeLimit(.minutes(10)))
struct ImageCacheForeignTests {
    /// An entry that an image cache never writes.
    enum Foreign: CaseIterable {
        case linkToFile, danglingLink, linkToDirectory, fifo, directory
    }

    private func plant(_ foreign: Foreign, at path: POSIXPath, _ fileSystem: any POSIXFileSystem, outside: POSIXPath)
        throws
    {
        switch foreign {
        case .linkToFile: try fileSystem.createSymbolicLink(path, to: outside.appending("file"))
        case .danglingLink: try fileSystem.createSymbolicLink(path, to: outside.appending("new"))
        case .linkToDirectory: try fileSystem.createSymbolicLink(path, to: outside)
        case .fifo:
            try fileSystem.createNode(
                path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        case .directory:
            try fileSystem.createDirectory(path)
            try fileSystem.write(Data("mine".utf8), to: URL(path.appending("mine")))
        }
    }

    private func attack(_ foreign: Foreign, _ fileSystem: any POSIXFileSystem, in base: POSIXPath) throws {
        let outside = base.appending("outside")
        let directory = base.appending("cache")
        try fileSystem.makeDirectories(outside)
        try fileSystem.write(Data("mine".utf8), to: URL(outside.appending("file")))
        let cache = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: URL(directory, isDirectory: true))
        try cache.cacheImage(id: "own", data: Data("own".utf8))
        let size = try cache.cacheSize()
        let path = directory.appending("avatar.cache")
        try plant(foreign, at: path, fileSystem, outside: outside)
        let before = try fileSystem.status(path, followsSymbolicLinks: false)

        #expect(cache.getCachedImage(id: "avatar") == nil)
        for call in [
            { _ = try cache.readCachedImage(id: "avatar") }, { try cache.deleteCachedImage(id: "avatar") },
            { try cache.cacheImage(id: "avatar", data: Data("new".utf8)) },
        ] as [() throws -> Void] {
            let error = #expect(throws: ImageCacheError.self) { try call() }
            guard case .foreign("avatar") = try #require(error) else {
                Issue.record("expected foreign, got \(String(describing: error))")
                continue
            }
        }
        #expect(try cache.cacheSize() == size)
        try cache.clearCache()

        #expect(try cache.readCachedImage(id: "own") == nil)
        let after = try fileSystem.status(path, followsSymbolicLinks: false)
        #expect(after.inode == before.inode && after.type == before.type)
        #expect(try fileSystem.read(from: URL(outside.appending("file"))) == Data("mine".utf8))
        #expect(try fileSystem.contentsOfDirectory(at: URL(outside)).count == 1)
        if foreign == .directory {
            #expect(try fileSystem.read(from: URL(path.appending("mine"))) == Data("mine".utf8))
        }
    }

    @Test("no call follows, blocks on, changes or removes it, in memory", arguments: Foreign.allCases)
    func inMemory(foreign: Foreign) throws {
        try attack(foreign, InMemoryFileSystem(), in: "/app")
    }

    @Test("no call follows, blocks on, changes or removes it, on disk", arguments: Foreign.allCases)
    func onDisk(foreign: Foreign) throws {
        let scratch = FileManager.default.temporaryDirectory.appending(component: "forge-images-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: scratch) } catch {} }
        try attack(foreign, SystemFileSystem(), in: try POSIXPath(scratch))
    }

    @Test(
        "a sparse file of any size is an error, and its size is counted",
        arguments: [Int64(ImageFile.maximumSizeInBytes) + 1, 1 << 43, .max])
    func sparse(_ size: Int64) throws {
        var options = InMemoryFileSystem.Options()
        options.maximumFileSizeInBytes = .max
        let fileSystem = InMemoryFileSystem(options: options)
        let cache = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: URL(filePath: "/cache"))
        for name in ["a", "b", "c"] as [POSIXPath] {
            let path = ("/cache" as POSIXPath).appending(POSIXPath(String(name) + ".cache"))
            try fileSystem.write(Data(), to: URL(path))
            try fileSystem.truncate(
                .path(path, at: .workingDirectory, followsSymbolicLinks: false), to: size)
        }
        let error = #expect(throws: FileSystemError.self) { try cache.readCachedImage(id: "a") }
        #expect(error?.errno == .fileTooLarge)
        #expect(try cache.cacheSize() == (size == .max ? .max : 3 * Int(size)))
    }
}
