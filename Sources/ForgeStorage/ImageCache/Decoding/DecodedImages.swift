import Synchronization

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
        changeCount.withLock { count in
            guard count == changes else { return }
            var images = (entries.peek(key) as? Variants)?.images ?? [:]
            images[variant] = (image, sizeInBytes)
            let sum = images.values.reduce(0) { sum, image in
                let (total, overflows) = sum.addingReportingOverflow(image.sizeInBytes)
                return overflows ? .max : total
            }
            entries.insert(Variants(images), for: key, sizeInBytes: sum)
        }
    }

    func remove(_ id: String) {
        let old = changeCount.withLock { count in
            count += 1
            return entries.remove(CacheKey(id))
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
