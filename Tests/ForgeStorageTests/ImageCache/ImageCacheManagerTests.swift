import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("The image cache", .eachPlatform)
struct ImageCacheManagerTests {
    @Test("opening a cache flushes nothing, and a removal and clearing it flush its directory once")
    func flushes() throws {
        let flushes = Mutex(0)
        let fileSystem = InterceptedFileSystem(EachPlatform.fileSystem()) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { flushes.withLock { $0 += 1 } }
        }
        func flushCount() -> Int { flushes.withLock { $0 } }
        let directory = URL(filePath: "/app/caches", directoryHint: .isDirectory)
        let cache = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: directory, limits: CacheLimits(sizeInBytes: 1 << 20))
        #expect(flushCount() == 0)
        #expect(fileSystem.fileExists(atPath: directory.path))
        for number in 0..<20 { try cache.cacheImage(id: "\(number)", data: Data(count: 100)) }
        let before = flushCount()
        try cache.deleteCachedImage(id: "0")
        #expect(flushCount() == before + 1)
        // A killed process may have removed it without a flush.
        try cache.deleteCachedImage(id: "0")
        #expect(flushCount() == before + 2)
        try cache.clearCache()
        #expect(flushCount() == before + 3)
        #expect(try cache.cacheSize() == 0)
    }

    let fileSystem = EachPlatform.fileSystem()
    let directory = URL(filePath: "/app/caches", directoryHint: .isDirectory)
    let cache: ImageCacheManager

    init() {
        cache = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: directory, now: { Date(timeIntervalSince1970: 7) })
    }

    private func file(_ name: String) -> URL {
        directory.appending(component: name, directoryHint: .notDirectory)
    }

    @Test("an image round-trips with the time of the injected clock")
    func roundTrip() throws {
        let data = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0) })
        try cache.cacheImage(id: "avatar", data: data)
        #expect(
            cache.getCachedImage(id: "avatar")
                == CachedImage(id: "avatar", data: data, cachedAt: Date(timeIntervalSince1970: 7)))
        #expect(try cache.readCachedImage(id: "avatar")?.data == data)
        #expect(fileSystem.fileExists(atPath: "/app/caches/avatar.cache"))
    }

    @Test("images are equal only if every part is, the id byte for byte")
    func equality() {
        let image = CachedImage(id: "\u{E9}", data: Data([1]), cachedAt: Date(timeIntervalSince1970: 1))
        let others = [
            CachedImage(id: "e\u{301}", data: image.data, cachedAt: image.cachedAt),
            CachedImage(id: image.id, data: Data([2]), cachedAt: image.cachedAt),
            CachedImage(id: image.id, data: image.data, cachedAt: Date(timeIntervalSince1970: 2)),
        ]
        for other in others { #expect(other != image) }
        #expect(Set(others + [image, image]).count == 4)
    }

    @Test("the file is only slightly larger than the image")
    func overhead() throws {
        try cache.cacheImage(id: "avatar", data: Data(repeating: 0xff, count: 100_000))
        #expect(try cache.cacheSize() < 100_200)
    }

    @Test("the JSON file of the printed cache is read, and damage to it is an error")
    func json() throws {
        let image = CachedImage(
            id: "avatar", data: Data([0x89, 0x50]), cachedAt: Date(timeIntervalSinceReferenceDate: 700_000_000.5))
        try fileSystem.write(try JSONEncoder().encode(image), to: file("avatar.cache"))
        #expect(try cache.readCachedImage(id: "avatar") == image)
        try fileSystem.write(Data("{\"id\":\"avatar\"}".utf8), to: file("avatar.cache"))
        #expect(throws: CacheError.self) { try cache.readCachedImage(id: "avatar") }
        #expect(cache.getCachedImage(id: "avatar") == nil)
    }

    @Test("caching again replaces the image")
    func replace() throws {
        try cache.cacheImage(id: "avatar", data: Data("old".utf8))
        try cache.cacheImage(id: "avatar", data: Data("new".utf8))
        #expect(cache.getCachedImage(id: "avatar")?.data == Data("new".utf8))
        #expect(try images(in: directory, on: fileSystem).count == 1)
    }

    @Test("an image of 64 KiB less than 256 MiB is refused, and the old one is kept")
    func tooLarge() throws {
        try cache.cacheImage(id: "avatar", data: Data("old".utf8))
        let error = #expect(throws: CacheError.self) {
            try cache.cacheImage(id: "avatar", data: Data(count: (256 << 20) - (64 << 10)))
        }
        #expect(error?.reason == .tooLarge && error?.key == "avatar")
        #expect(cache.getCachedImage(id: "avatar")?.data == Data("old".utf8))
    }

    @Test("an image that was never cached is nil, whether or not the directory exists")
    func absent() throws {
        #expect(cache.getCachedImage(id: "nobody") == nil)
        #expect(try cache.readCachedImage(id: "nobody") == nil)
        fileSystem.reset()
        #expect(try cache.readCachedImage(id: "nobody") == nil)
        #expect(try cache.cacheSize() == 0)
        try cache.clearCache()
        try cache.deleteCachedImage(id: "nobody")
    }

    @Test("the directory is recreated after the file system was reset")
    func lazyDirectory() throws {
        fileSystem.reset()
        try cache.cacheImage(id: "avatar", data: Data("img".utf8))
        #expect(cache.getCachedImage(id: "avatar")?.data == Data("img".utf8))
    }

    @Test("a deleted image is absent, and deleting it again succeeds")
    func delete() throws {
        try cache.cacheImage(id: "a", data: Data("1".utf8))
        try cache.cacheImage(id: "b", data: Data("2".utf8))
        try cache.deleteCachedImage(id: "a")
        try cache.deleteCachedImage(id: "a")
        #expect(try cache.readCachedImage(id: "a") == nil)
        #expect(cache.getCachedImage(id: "b") != nil)
    }

    @Test("clearing removes every image and nothing else; the size counts images only")
    func clear() throws {
        for id in ["a", "b", "../x", String(repeating: "long", count: 100)] {
            try cache.cacheImage(id: id, data: Data(id.utf8))
        }
        let size = try cache.cacheSize()
        let foreign = ["notes.txt", "Holiday.cache", "a=.cache", ".cache", "x.cache.bak"]
        for name in foreign { try fileSystem.write(Data(repeating: 1, count: 1000), to: file(name)) }
        try fileSystem.createDirectory(at: file("dir.cache"), withIntermediateDirectories: false)
        #expect(try cache.cacheSize() == size)
        try cache.clearCache()
        #expect(try cache.cacheSize() == 0)
        let left = Set(try images(in: directory, on: fileSystem))
        #expect(left == Set(foreign + ["dir.cache"]))
    }

    @Test("the size is the total size of the files")
    func size() throws {
        #expect(try cache.cacheSize() == 0)
        try cache.cacheImage(id: "a", data: Data(count: 1000))
        let first = try fileSystem.read(from: file("a.cache")).count
        #expect(try cache.cacheSize() == first)
        try cache.cacheImage(id: "b", data: Data(count: 5000))
        #expect(try cache.cacheSize() == first + fileSystem.read(from: file("b.cache")).count)
    }

    @Test("an image cached through one cache is seen by another over the same directory")
    func shared() throws {
        try cache.cacheImage(id: "avatar", data: Data("img".utf8))
        let other = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: directory)
        #expect(other.getCachedImage(id: "avatar")?.data == Data("img".utf8))
    }

    @Test("by default the cache is in the user's caches directory")
    func defaultDirectory() throws {
        try ImageCacheManager(fileSystem: fileSystem).cacheImage(id: "avatar", data: Data())
        let caches = try #require(FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first)
        let file = caches.appending(components: "ImageCache", "avatar.cache", directoryHint: .notDirectory)
        #expect(fileSystem.fileExists(atPath: file.path))
    }

    @Test("concurrent readers and writers see whole images")
    func concurrent() async throws {
        try cache.cacheImage(id: "shared", data: Data(repeating: 0, count: 10_000))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 1...4 {
                group.addTask {
                    for _ in 0..<25 {
                        try cache.cacheImage(id: "shared", data: Data(repeating: UInt8(writer), count: 10_000))
                        let image = try #require(try cache.readCachedImage(id: "shared"))
                        #expect(image.data.count == 10_000 && Set(image.data).count == 1)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("on a real disk, hostile ids each have a separate image and nothing leaves the directory")
    func hostileOnDisk() async throws {
        try await withTemporaryDirectory { root in
            let canary = root.appending(component: "escaped")
            try Data("canary".utf8).write(to: canary)
            let directory = root.appending(components: "deep", "inside", "cache", directoryHint: .isDirectory)
            try checkHostileIDs(TestDepth.sample(hostileNames, every: 5), on: SystemFileSystem(), in: directory)
            #expect(
                try Set(files(below: root)) == [
                    "escaped", "deep", "deep/inside", "deep/inside/cache", "deep/inside/cache/#journal-0",
                    "deep/inside/cache/#store-images",
                ])
            #expect(try Data(contentsOf: canary) == Data("canary".utf8))
        }
    }

    @Test("in memory, hostile ids each have a separate image and nothing leaves the directory")
    func hostileInMemory() throws {
        try checkHostileIDs(hostileNames, on: fileSystem, in: directory)
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/")).map(\.lastPathComponent) == ["app"])
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/app")).map(\.lastPathComponent) == ["caches"])
    }

    private func checkHostileIDs(
        _ ids: [String], on fileSystem: some FileSystemProtocol, in directory: URL
    ) throws {
        let cache = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: directory)
        for id in ids { try cache.cacheImage(id: id, data: Data(id.utf8)) }
        #expect(try images(in: directory, on: fileSystem).count == ids.count)
        for id in ids {
            let image = try cache.readCachedImage(id: id)
            #expect(image?.data == Data(id.utf8), "\(id.debugDescription)")
        }
        for id in ids { try cache.deleteCachedImage(id: id) }
        #expect(try images(in: directory, on: fileSystem).isEmpty)
    }

    /// The names in a cache's directory, without the record of temporary files.
    private func images(in directory: URL, on fileSystem: any FileSystemProtocol) throws -> [String] {
        try fileSystem.contentsOfDirectory(at: directory).map(\.lastPathComponent).filter {
            !POSIXPath($0).isStoreMarker
        }
    }
}

@Suite("The limits of an image cache", .eachPlatform)
struct ImageCacheLimitTests {
    let fileSystem = EachPlatform.fileSystem()
    let directory = URL(filePath: "/app/caches", directoryHint: .isDirectory)

    private func open(_ limits: CacheLimits?) -> ImageCacheManager {
        ImageCacheManager(fileSystem: fileSystem, cacheDirectory: directory, limits: limits)
    }

    @Test("are kept by every new image, also for images of an earlier object")
    func limits() throws {
        for number in 0..<10 { try open(nil).cacheImage(id: "old\(number)", data: Data(count: 50)) }
        let limits = CacheLimits(sizeInBytes: 2000, count: 6)
        let cache = open(limits)
        #expect(try cache.cacheSize() <= 2000)
        #expect(cache.getCachedImage(id: "old9") != nil && cache.getCachedImage(id: "old0") == nil)
        for number in 0..<20 {
            try cache.cacheImage(id: "\(number)", data: Data(count: 30 * number))
            #expect(cache.getCachedImage(id: "\(number)") != nil)
            #expect(try cache.cacheSize() == open(nil).cacheSize())
            #expect(try cache.cacheSize() <= 2000)
        }
        try cache.cacheImage(id: "19", data: Data(count: 3000))
        #expect(cache.getCachedImage(id: "19") == nil)
        try cache.clearCache()
        #expect(try cache.cacheSize() == 0)
        #expect(try open(nil).cacheSize() == 0)
    }

    @Test("keep an image that was read since it was cached, and remove another")
    func hits() throws {
        let cache = open(CacheLimits(count: 4))
        for id in ["a", "b", "c", "d"] { try cache.cacheImage(id: id, data: Data(id.utf8)) }
        #expect(cache.getCachedImage(id: "d")?.data == Data("d".utf8))
        try cache.cacheImage(id: "e", data: Data())
        let left = ["a", "b", "c", "d", "e"].filter { open(nil).getCachedImage(id: $0) != nil }
        #expect(left == ["b", "c", "d", "e"])
    }

    @Test("no longer count an image that another process has removed, once it was asked for")
    func removedByOthers() throws {
        let cache = open(.unlimited)
        for id in ["a", "b"] { try cache.cacheImage(id: id, data: Data(count: 10)) }
        let size = try cache.cacheSize()
        try open(nil).deleteCachedImage(id: "a")
        #expect(cache.getCachedImage(id: "b") != nil)
        #expect(try cache.cacheSize() == size)
        #expect(try cache.readCachedImage(id: "a") == nil)
        #expect(try cache.cacheSize() == open(nil).cacheSize())
    }

    @Test(
        "ignore an image that disappears while it is counted or deleted",
        arguments: [FileSystemOperation.status, .unlink])
    func disappearance(operation: FileSystemOperation) throws {
        for id in ["a", "b"] { try open(nil).cacheImage(id: id, data: Data(count: 10)) }
        let path = try POSIXPath(directory).appending("a.cache")
        let memory = fileSystem
        let intercepted = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == operation, call.path?.splitLast().name == "a.cache" else { return }
            try memory.unlink(path)
        }
        let cache = ImageCacheManager(fileSystem: intercepted, cacheDirectory: directory, limits: .unlimited)
        if operation == .unlink { try cache.deleteCachedImage(id: "a") }
        #expect(try cache.cacheSize() == open(nil).cacheSize())
        #expect(open(nil).getCachedImage(id: "a") == nil && open(nil).getCachedImage(id: "b") != nil)
    }

    @Test("do not touch entries that no image cache writes")
    func foreign() throws {
        let cache = open(CacheLimits(count: 1))
        try cache.cacheImage(id: "a", data: Data())
        let link = try POSIXPath(directory).appending("b.cache")
        try fileSystem.createSymbolicLink(link, to: "/nowhere")
        #expect(throws: CacheError.self) { try cache.cacheImage(id: "b", data: Data()) }
        #expect(throws: CacheError.self) { try cache.deleteCachedImage(id: "b") }
        try open(CacheLimits(count: 1)).cacheImage(id: "c", data: Data())
        try cache.clearCache()
        #expect(try fileSystem.readSymbolicLink(link, at: .workingDirectory) == "/nowhere")
    }
}
