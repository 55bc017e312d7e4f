import ForgeFileSystem
import ForgeStorage
import Foundation
import Testing

@Suite("Decoded images of an image cache", .eachPlatform)
struct ImageDecodingTests {
    /// Decodes bytes that are width, height and number of frames.
    struct Decoder: ImageDecoding {
        let count = Counter()
        var whileDecoding: @Sendable () throws -> Void = {}

        func header(of data: Data) throws -> ImageHeader {
            guard data.count == 3 else { throw LoadFailure() }
            return ImageHeader(width: Int(data[0]), height: Int(data[1]), frameCount: Int(data[2]))
        }

        func decode(_ data: Data, to size: ImageHeader) throws -> ImageHeader {
            count.increment()
            try whileDecoding()
            return size
        }
    }

    let fileSystem = EachPlatform.fileSystem()
    let cache: ImageCacheManager

    init() throws {
        cache = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: URL(filePath: "/caches"),
            decodedLimits: CacheLimits(sizeInBytes: 10_000))
        try cache.cacheImage(id: "a", data: Data([20, 10, 3]))
    }

    @Test("are decoded once, and counted with all frames")
    func memory() throws {
        let decoder = Decoder()
        for _ in 0..<3 { #expect(try cache.image(id: "a", decoder: decoder)?.frameCount == 3) }
        #expect(decoder.count.value == 1)
        #expect(cache.decodedStatistics.sizeInBytes == 20 * 10 * 3 * 4)
        let scaled = try cache.image(id: "a", decoder: decoder, fitting: 5)
        #expect(scaled?.width == 5 && scaled?.height == 3)
        #expect(cache.decodedStatistics.sizeInBytes == 20 * 10 * 3 * 4 + 5 * 3 * 3 * 4)
        #expect(try cache.image(id: "b", decoder: decoder) == nil)
        cache.trimMemory()
        #expect(cache.decodedStatistics.sizeInBytes == 0)
    }

    @Test("are refused by their header if they are too large")
    func limit() throws {
        let decoder = Decoder()
        let error = #expect(throws: CacheError.self) {
            try cache.image(id: "a", decoder: decoder, maximumSizeInBytes: 2399)
        }
        #expect(error?.reason == .tooLargeToDecode(sizeInBytes: 2400) && error?.key == "a")
        #expect(decoder.count.value == 0)
        #expect(try cache.image(id: "a", decoder: decoder, maximumSizeInBytes: 2400) != nil)
        #expect(ImageHeader(width: .max, height: 2).decodedSizeInBytes == .max)
    }

    @Test("are not returned after another image was cached, or the image was deleted")
    func changes() throws {
        let decoder = Decoder()
        #expect(try cache.image(id: "a", decoder: decoder)?.width == 20)
        try cache.cacheImage(id: "a", data: Data([7, 7, 1]))
        #expect(try cache.image(id: "a", decoder: decoder)?.width == 7)
        try cache.deleteCachedImage(id: "a")
        #expect(try cache.image(id: "a", decoder: decoder) == nil)
        try cache.cacheImage(id: "a", data: Data([8, 8, 1]))
        var changing = Decoder()
        changing.whileDecoding = { [cache] in try cache.cacheImage(id: "a", data: Data([9, 9, 1])) }
        #expect(try cache.image(id: "a", decoder: changing)?.width == 8)
        #expect(try cache.image(id: "a", decoder: decoder)?.width == 9)
        try cache.clearCache()
        #expect(try cache.image(id: "a", decoder: decoder) == nil)
        try cache.cacheImage(id: "a", data: Data([8, 8, 1]))
        changing.whileDecoding = { [cache] in try cache.clearCache() }
        #expect(try cache.image(id: "a", decoder: changing)?.width == 8)
        #expect(try cache.image(id: "a", decoder: decoder) == nil)
    }

    /// An image whose release uses the cache that had it in memory.
    final class Picture: Sendable {
        let cache: ImageCacheManager
        let released: Counter

        init(_ cache: ImageCacheManager, _ released: Counter) {
            self.cache = cache
            self.released = released
        }

        deinit {
            released.increment()
            do { try cache.deleteCachedImage(id: "other") } catch { Issue.record(error) }
        }
    }

    struct PictureDecoder: ImageDecoding {
        let cache: ImageCacheManager
        let released = Counter()

        func header(of data: Data) throws -> ImageHeader { ImageHeader(width: 1, height: 1) }

        func decode(_ data: Data, to size: ImageHeader) throws -> Picture { Picture(cache, released) }
    }

    @Test("may use the cache when they are released, whatever removes them from memory")
    func release() throws {
        let cache = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: URL(filePath: "/caches"), decodedLimits: CacheLimits(count: 1))
        let decoder = PictureDecoder(cache: cache)
        for id in ["a", "b"] {
            try cache.cacheImage(id: id, data: Data())
            _ = try cache.image(id: id, decoder: decoder)
        }
        #expect(decoder.released.value == 1)
        try cache.cacheImage(id: "b", data: Data())
        #expect(decoder.released.value == 2)
        _ = try cache.image(id: "b", decoder: decoder)
        cache.trimMemory()
        #expect(decoder.released.value == 3)
        _ = try cache.image(id: "b", decoder: decoder)
        try cache.clearCache()
        #expect(decoder.released.value == 4)
    }

    @Test("have sizes in the proportions of their headers, of at least one pixel and not larger")
    func scaling() {
        let header = ImageHeader(width: 1000, height: 1, frameCount: 2)
        #expect(header.scaled(toFit: 10) == ImageHeader(width: 10, height: 1, frameCount: 2))
        for length in [nil, 1000, 2000] { #expect(header.scaled(toFit: length) == header) }
        for length in [.min, -1, 0, 1] {
            #expect(header.scaled(toFit: length) == ImageHeader(width: 1, height: 1, frameCount: 2))
        }
        let empty = ImageHeader(width: 0, height: 0)
        #expect(empty.scaled(toFit: 0) == empty)
        let negative = ImageHeader(width: -1, height: -1, frameCount: -1, bytesPerPixel: -1)
        #expect(negative == ImageHeader(width: 0, height: 0, frameCount: 0, bytesPerPixel: 0))
    }
}
