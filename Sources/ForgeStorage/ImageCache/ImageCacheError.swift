/// Why a file of an ``ImageCacheManager`` is not the image that was asked for.
public enum ImageCacheError: Error {
    /// The image's file is there but holds no image; the error inside is an ``ImageFileDamage`` if it is damaged, or of
    /// another program, and a `CodingFailure` if it is whole but no image.
    case undecodable(id: String, underlying: any Error)

    /// The image's file holds another image: somebody renamed or swapped files of the cache.
    case mismatch(id: String, storedID: String)
}

extension ImageCacheError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .undecodable(let id, let underlying): "the cached image \(id.debugDescription) is damaged: \(underlying)"
        case .mismatch(let id, let storedID):
            "the file of the cached image \(id.debugDescription) holds \(storedID.debugDescription)"
        }
    }
}
