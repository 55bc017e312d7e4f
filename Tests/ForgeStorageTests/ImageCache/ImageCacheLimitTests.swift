import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@Suite("The limits of an image cache")
struct ImageCacheLimitTests {
    let fileSystem = InMemoryFileSystem()
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

    @Test("do not touch entries that no image cache writes")
    func foreign() throws {
        let cache = open(CacheLimits(count: 1))
        try cache.cacheImage(id: "a", data: Data())
        let link = try POSIXPath(directory).appending("b.cache")
        try fileSystem.createSymbolicLink(link, to: "/nowhere")
        #expect(throws: ImageCacheError.self) { try cache.cacheImage(id: "b", data: Data()) }
        #expect(throws: ImageCacheError.self) { try cache.deleteCachedImage(id: "b") }
        try open(CacheLimits(count: 1)).cacheImage(id: "c", data: Data())
        try cache.clearCache()
        #expect(try fileSystem.readSymbolicLink(link, at: .workingDirectory) == "/nowhere")
    }
}
