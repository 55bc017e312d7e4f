import ForgeFileSystem
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The image cache when the file system fails", .eachPlatform)
struct ImageCacheFailureTests {
    let fileSystem = EachPlatform.fileSystem()
    let directory = URL(filePath: "/app/caches", directoryHint: .isDirectory)
    let cache: ImageCacheManager

    init() {
        cache = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: directory)
    }

    private func file(_ name: String) -> URL {
        directory.appending(component: name, directoryHint: .notDirectory)
    }

    @Test("a write error of the file system is passed on unchanged, and the old image is kept")
    func writeError() throws {
        try cache.cacheImage(id: "avatar", data: Data("old".utf8))
        fileSystem.writeError = NSError(domain: "DiskFull", code: 507)
        let error = #expect(throws: (any Error).self) { try cache.cacheImage(id: "avatar", data: Data("new".utf8)) }
        #expect((error as NSError?)?.code == 507)
        #expect((error as NSError?)?.domain == "DiskFull")
        fileSystem.writeError = nil
        #expect(cache.getCachedImage(id: "avatar")?.data == Data("old".utf8))
    }

    @Test(
        "for an unreadable image one call returns nil, and the other throws the error unchanged")
    func readError() throws {
        try cache.cacheImage(id: "avatar", data: Data("img".utf8))
        fileSystem.readError = NSError(domain: "BadSector", code: 5)
        #expect(cache.getCachedImage(id: "avatar") == nil)
        let error = #expect(throws: (any Error).self) { try cache.readCachedImage(id: "avatar") }
        #expect((error as NSError?)?.domain == "BadSector")
        #expect(try cache.cacheSize() > 0)
        #expect(try cache.readCachedImage(id: "nobody") == nil)
    }

    @Test("a damaged file is an error with the image's id, never an image", arguments: [0, 1, 10, 40])
    func damaged(length: Int) throws {
        try cache.cacheImage(id: "avatar", data: Data(repeating: 3, count: 100))
        let content = try fileSystem.read(from: file("avatar.cache"))
        try fileSystem.write(content.prefix(length), to: file("avatar.cache"))
        #expect(cache.getCachedImage(id: "avatar") == nil)
        let error = #expect(throws: CacheError.self) { try cache.readCachedImage(id: "avatar") }
        #expect(error?.reason == .undecodable && error?.key == "avatar")
        #expect(String(describing: error).contains("avatar"))
        try cache.cacheImage(id: "avatar", data: Data("new".utf8))
        #expect(cache.getCachedImage(id: "avatar")?.data == Data("new".utf8))
    }

    @Test("every flipped bit is detected")
    func bitFlips() throws {
        try cache.cacheImage(id: "avatar", data: Data("image".utf8))
        let content = try fileSystem.read(from: file("avatar.cache"))
        for bit in 0..<content.count * 8 {
            var damaged = content
            damaged[bit / 8] ^= 1 << (bit % 8)
            try fileSystem.write(damaged, to: file("avatar.cache"))
            #expect(throws: CacheError.self, "bit \(bit)") { try cache.readCachedImage(id: "avatar") }
        }
    }

    @Test("errors describe the exact problem with a file")
    func damages() throws {
        try cache.cacheImage(id: "avatar", data: Data("image".utf8))
        let content = try fileSystem.read(from: file("avatar.cache"))
        var newer = content
        newer[8] = 2
        var flipped = content
        flipped[20] ^= 1
        for (content, damage) in [
            (Data("{}".utf8), .foreign), (Data(), .foreign), (content.prefix(10), .foreign), (newer, .newerVersion(2)),
            (flipped, .checksum), (content.dropLast(), .checksum), (content + [0], .checksum),
        ] as [(Data, ImageFileDamage)] {
            try fileSystem.write(content, to: file("avatar.cache"))
            let error = #expect(throws: CacheError.self) { try cache.readCachedImage(id: "avatar") }
            #expect(error?.key == "avatar")
            switch (error?.reason, error?.underlying) {
            case (.undecodable, let cause as ImageFileDamage):
                #expect(cause == damage)
                #expect(!String(describing: cause).isEmpty)
            case (.newerVersion(let version), nil): #expect(damage == .newerVersion(version))
            default: Issue.record("unexpected: \(String(describing: error))")
            }
        }
    }

    @Test("a file of version 1 keeps its bytes, and images are still written in that form")
    func golden() throws {
        let hexDigits =
            "464f524745494d4701000000cb6d98b71101a362696466617661746172646461746146"
            + "89504e4700ff686361636865644174c1fb41d954fc40100000"
        let cache = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: directory, now: { Date(timeIntervalSince1970: 1_700_000_000.25) })
        try cache.cacheImage(id: "avatar", data: Data([0x89, 0x50, 0x4E, 0x47, 0x00, 0xFF]))
        let content = try fileSystem.read(from: file("avatar.cache"))
        #expect(content.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == hexDigits)
    }

    @Test("a file swapped with another image's is a miss and is reported")
    func swapped() throws {
        try cache.cacheImage(id: "a", data: Data("1".utf8))
        try fileSystem.write(try fileSystem.read(from: file("a.cache")), to: file("b.cache"))
        #expect(cache.getCachedImage(id: "b") == nil)
        let error = #expect(throws: CacheError.self) { try cache.readCachedImage(id: "b") }
        #expect(error?.reason == .mismatch && error?.key == "b" && error?.storedID == "a")
        #expect(String(describing: try #require(error)) == #"the file of the cached image "b" holds "a""#)
    }

    @Test("a directory without read permission is an error, not an empty cache")
    func forbidden() throws {
        try cache.cacheImage(id: "avatar", data: Data("img".utf8))
        let stranger = fileSystem.process(user: UserID(rawValue: 1234), group: GroupID(rawValue: 1234), groups: [])
        let root = fileSystem
        try root.setPermissions(
            [], of: .path(POSIXPath("/app/caches"), at: .workingDirectory, followsSymbolicLinks: true))
        let locked = ImageCacheManager(fileSystem: stranger, cacheDirectory: directory)
        for call in [
            { _ = try locked.readCachedImage(id: "avatar") }, { _ = try locked.cacheSize() },
            { try locked.clearCache() },
            { try locked.deleteCachedImage(id: "avatar") }, { try locked.cacheImage(id: "avatar", data: Data()) },
        ] as [() throws -> Void] {
            let error = #expect(throws: FileSystemError.self) { try call() }
            #expect(error?.errno == .permissionDenied)
        }
        #expect(locked.getCachedImage(id: "avatar") == nil)
        #expect(cache.getCachedImage(id: "avatar") != nil)
    }

    @Test("caching an image fails if the directory cannot be created")
    func blockedDirectory() throws {
        try fileSystem.write(Data(), to: URL(filePath: "/file"))
        let blocked = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: URL(filePath: "/file/cache", directoryHint: .isDirectory))
        let error = #expect(throws: FileSystemError.self) { try blocked.cacheImage(id: "a", data: Data()) }
        #expect(error?.errno == .notDirectory)
        #expect(throws: FileSystemError.self) { try blocked.readCachedImage(id: "a") }
    }

    @Test("a custom type with only the six calls is sufficient", arguments: DictionaryFileSystem.Missing.allCases)
    func ownFileSystem(missing: DictionaryFileSystem.Missing) throws {
        let own = DictionaryFileSystem(missing: missing)
        let cache = ImageCacheManager(fileSystem: own, cacheDirectory: directory)
        #expect(try cache.readCachedImage(id: "a") == nil)
        try cache.cacheImage(id: "a", data: Data("img".utf8))
        #expect(cache.getCachedImage(id: "a")?.data == Data("img".utf8))
        #expect(try cache.cacheSize() > 0)
        try cache.deleteCachedImage(id: "a")
        try cache.deleteCachedImage(id: "a")
        #expect(try cache.readCachedImage(id: "a") == nil)
        #expect(try cache.cacheSize() == 0)
        try cache.clearCache()
        // The directory is removed, and created again for the next image.
        own.files.withLock { $0 = [:] }
        try cache.cacheImage(id: "b", data: Data("img".utf8))
        let limited = ImageCacheManager(fileSystem: own, cacheDirectory: directory, limits: CacheLimits(count: 1))
        try limited.cacheImage(id: "c", data: Data("img".utf8))
        #expect(cache.getCachedImage(id: "b") == nil && cache.getCachedImage(id: "c") != nil)
        #expect(try limited.cacheSize() == cache.cacheSize())
        own.isBroken.withLock { $0 = true }
        try own.write(Data(), to: file("a.cache"))
        #expect(throws: DictionaryFileSystem.Broken.self) { try cache.readCachedImage(id: "a") }
        #expect(throws: DictionaryFileSystem.Broken.self) { try cache.cacheSize() }
        #expect(throws: DictionaryFileSystem.Broken.self) { try cache.deleteCachedImage(id: "a") }
        #expect(own.fileExists(atPath: file("a.cache").path))
    }
}

/// A minimal custom file system for tests.
final class DictionaryFileSystem: FileSystemProtocol {
    enum Missing: CaseIterable, Sendable { case ownError, cocoa, posix, fileSystem }
    struct Broken: Error {}

    /// The files; directories have no content and a slash at the end.
    let files = Mutex<[String: Data]>([:])
    let isBroken = Mutex(false)
    private let missing: Missing

    init(missing: Missing) {
        self.missing = missing
    }

    private var missingError: any Error {
        switch missing {
        case .ownError: NSError(domain: "FileNotFound", code: 404)
        case .cocoa: CocoaError(.fileReadNoSuchFile)
        case .posix: POSIXError(.ENOENT)
        case .fileSystem: FileSystemError(.open, .noSuchFileOrDirectory)
        }
    }

    func fileExists(atPath path: String) -> Bool {
        files.withLock { $0.keys.contains { $0 == path || $0.hasPrefix(path + "/") } }
    }
    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws {
        files.withLock { $0[url.path + "/"] = Data() }
    }
    func write(_ data: Data, to url: URL) throws {
        guard fileExists(atPath: url.deletingLastPathComponent().path) else { throw missingError }
        files.withLock { $0[url.path] = data }
    }
    func read(from url: URL) throws -> Data {
        if isBroken.withLock({ $0 }) { throw Broken() }
        guard let data = files.withLock({ $0[url.path] }) else { throw missingError }
        return data
    }
    func removeItem(at url: URL) throws {
        if isBroken.withLock({ $0 }) { throw Broken() }
        guard files.withLock({ $0.removeValue(forKey: url.path) }) != nil else { throw missingError }
    }
    func contentsOfDirectory(at url: URL) throws -> [URL] {
        if isBroken.withLock({ $0 }) { throw Broken() }
        guard fileExists(atPath: url.path) else { throw missingError }
        return files.withLock { files in
            files.keys.filter { $0.hasPrefix(url.path + "/") && !$0.hasSuffix("/") }.map { URL(filePath: $0) }
        }
    }
}

@Suite("The image cache beside entries that it did not write", .eachPlatform, .timeLimit(.minutes(10)))
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
            let error = #expect(throws: CacheError.self) { try call() }
            #expect(error?.reason == .foreign && error?.key == "avatar")
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
        try attack(foreign, EachPlatform.fileSystem(), in: "/app")
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
        let fileSystem = EachPlatform.fileSystem { $0.maximumFileSizeInBytes = .max }
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
