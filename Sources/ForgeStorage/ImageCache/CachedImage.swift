public import Foundation

/// An image as an ``ImageCacheManager`` keeps it.
public struct CachedImage: Codable, Hashable, Sendable {
    /// The identifier under which the image was cached.
    public let id: String

    /// The image's bytes, exactly as they were given.
    public let data: Data

    /// When it was cached.
    public let cachedAt: Date

    /// Creates a cached image.
    public init(id: String, data: Data, cachedAt: Date) {
        self.id = id
        self.data = data
        self.cachedAt = cachedAt
    }
}
