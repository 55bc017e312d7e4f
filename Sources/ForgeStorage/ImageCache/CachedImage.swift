public import Foundation

/// An image in an ``ImageCacheManager``.
public struct CachedImage: Codable, Hashable, Sendable {
    /// The identifier under which the image was cached.
    public let id: String

    /// The image's bytes, unchanged.
    public let data: Data

    /// The time when it was cached.
    public let cachedAt: Date

    /// Creates a cached image.
    public init(id: String, data: Data, cachedAt: Date) {
        self.id = id
        self.data = data
        self.cachedAt = cachedAt
    }
}
