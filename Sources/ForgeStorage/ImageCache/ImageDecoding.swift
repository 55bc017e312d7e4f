public import Foundation
import Synchronization

/// Decodes the bytes of cached images. This package contains no codec of its own; `ImageIODecoder` uses that of Apple's
/// platforms.
public protocol ImageDecoding<Image>: Sendable {
    /// A decoded image.
    associatedtype Image: Sendable

    /// Reads the dimensions from the image's header, without decoding pixels: a few kilobytes can decode to gigabytes.
    func header(of data: Data) throws -> ImageHeader

    /// Decodes an image whose header was found acceptable.
    ///
    /// - Parameters:
    ///   - data: The bytes of the image.
    ///   - size: The size to decode to, not larger than that of the header; the proportions are those of the header.
    /// - Returns: The image with all its frames.
    /// - Throws: An error of the decoder, which is passed on.
    func decode(_ data: Data, to size: ImageHeader) throws -> Image
}

/// The dimensions of an image, from which the size of its decoded pixels follows.
public struct ImageHeader: Hashable, Sendable {
    /// The width in pixels.
    public var width: Int

    /// The height in pixels.
    public var height: Int

    /// The number of frames; more than one for an animation.
    public var frameCount: Int

    /// The size of a decoded pixel.
    public var bytesPerPixel: Int

    /// Creates a header; negative numbers become zero.
    public init(width: Int, height: Int, frameCount: Int = 1, bytesPerPixel: Int = 4) {
        self.width = max(width, 0)
        self.height = max(height, 0)
        self.frameCount = max(frameCount, 0)
        self.bytesPerPixel = max(bytesPerPixel, 0)
    }

    /// The size of all decoded frames; the greatest number if it overflows.
    public var decodedSizeInBytes: Int {
        [height, frameCount, bytesPerPixel].reduce(width) { product, factor in
            let (next, overflows) = product.multipliedReportingOverflow(by: factor)
            return overflows ? .max : next
        }
    }

    /// The dimensions scaled down, if necessary, so that neither side exceeds `length`, of which less than 1 counts as 1.
    public func scaled(toFit length: Int?) -> ImageHeader {
        guard let length = length.map({ max($0, 1) }), max(width, height) > length else { return self }
        let factor = Double(length) / Double(max(width, height))
        var scaled = self
        scaled.width = min(length, max(1, Int((Double(width) * factor).rounded())))
        scaled.height = min(length, max(1, Int((Double(height) * factor).rounded())))
        return scaled
    }
}

extension ImageCacheManager {
    /// The decoded image that was cached as `id`, from memory if it was decoded before; nil if there is none.
    ///
    /// The size is checked before any pixel is decoded. Decoded images are kept in memory within the limits that the
    /// cache was created with, counted with all their frames; caching or deleting an image through this object removes
    /// them.
    ///
    /// - Parameters:
    ///   - id: The identifier.
    ///   - decoder: The decoder; images of different decoder types are kept apart.
    ///   - length: The maximum width and height, to which a larger image is scaled down; nil for the full size. Less
    ///     than 1 counts as 1.
    ///   - maximumSizeInBytes: The maximum size of the decoded frames; 256 MiB by default.
    /// - Returns: The decoded image; nil if none was cached.
    /// - Throws: ``CacheError/Reason/tooLargeToDecode(sizeInBytes:)``, the error of the decoder, or as
    ///   ``readCachedImage(id:)``.
    public func image<Decoder: ImageDecoding>(
        id: String, decoder: Decoder, fitting length: Int? = nil, maximumSizeInBytes: Int = 256 << 20
    ) throws -> Decoder.Image? {
        let variant = DecodedImages.Variant(decoder: ObjectIdentifier(Decoder.self), length: length)
        if let image = decoded.image(id, variant) as? Decoder.Image { return image }
        let changes = decoded.changes
        guard let cached = try readCachedImage(id: id) else { return nil }
        let size = try decoder.header(of: cached.data).scaled(toFit: length)
        guard size.decodedSizeInBytes <= maximumSizeInBytes else {
            throw CacheError(.tooLargeToDecode(sizeInBytes: size.decodedSizeInBytes), key: id)
        }
        let image = try decoder.decode(cached.data, to: size)
        decoded.insert(image, id, variant, sizeInBytes: size.decodedSizeInBytes, since: changes)
        return image
    }

    /// Evicts decoded images from memory until at most this size is left; their files stay.
    public func trimMemory(to sizeInBytes: Int = 0) { decoded.trim(to: sizeInBytes) }

    /// The counts and the size of the decoded images in memory.
    public var decodedStatistics: MemoryCacheStatistics { decoded.statistics }
}

/// The decoded images of an ``ImageCacheManager``, by id; an image may be there in several sizes.
final class DecodedImages: Sendable {
    /// The decoder of an image, and the largest length it was decoded to.
    struct Variant: Hashable, Sendable {
        var decoder: ObjectIdentifier
        var length: Int?
    }

    private final class Variants: Sendable {
        let images: [Variant: (image: any Sendable, sizeInBytes: Int)]

        init(_ images: [Variant: (image: any Sendable, sizeInBytes: Int)]) {
            self.images = images
        }
    }

    private let entries: MemoryEntries
    /// Raised by every change of an image, so that one that was read before is not kept.
    private let changeCount = Mutex(0)
    /// Whether an image was ever added.
    private let isUsed = Atomic(false)

    init(limits: CacheLimits, _ pressure: MemoryPressure) {
        entries = MemoryEntries(limits: limits, pressure)
    }

    /// The number of changes; to be read before the image's file.
    var changes: Int { changeCount.withLock { $0 } }

    func image(_ id: String, _ variant: Variant) -> (any Sendable)? {
        (entries.hit(CacheKey(id)) as? Variants)?.images[variant]?.image
    }

    /// Adds an image, unless an image was changed since `changes` was read.
    func insert(_ image: any Sendable, _ id: String, _ variant: Variant, sizeInBytes: Int, since changes: Int) {
        let key = CacheKey(id)
        // The evicted images are released without the lock, because that may run code of the app.
        let removed = changeCount.withLock { count -> MemoryEntries.Removed? in
            guard count == changes else { return nil }
            var images = (entries.peek(key) as? Variants)?.images ?? [:]
            images[variant] = (image, sizeInBytes)
            let sum = images.values.reduce(0) { sum, image in
                let (total, overflows) = sum.addingReportingOverflow(image.sizeInBytes)
                return overflows ? .max : total
            }
            isUsed.store(true, ordering: .relaxed)
            return entries.insert(Variants(images), for: key, sizeInBytes: sum)
        }
        withExtendedLifetime(removed) {}
    }

    func remove(_ id: String) {
        let old = changeCount.withLock { count in
            count += 1
            return isUsed.load(ordering: .relaxed) ? entries.remove(CacheKey(id)) : nil
        }
        withExtendedLifetime(old) {}
    }

    func removeAll() {
        changeCount.withLock { $0 += 1 }
        entries.removeAll()
    }

    func trim(to sizeInBytes: Int) { entries.trim(to: sizeInBytes) }

    var statistics: MemoryCacheStatistics { entries.statistics }
}
