/// A problem with a file of an ``ImageCacheManager`` that should contain the requested image.
public enum ImageCacheError: Error {
    /// The image's file exists but contains no image; the underlying error is an ``ImageFileDamage`` if it is damaged
    /// or belongs to another program, and a `CodingFailure` if it is intact but not an image.
    case undecodable(id: String, underlying: any Error)

    /// The image's file contains another image: files of the cache were renamed or swapped.
    case mismatch(id: String, storedID: String)

    /// The name of the image's file belongs to a symbolic link, a directory, a special file or a file with several hard
    /// links, which is left unchanged.
    case foreign(id: String)

    /// The image's file would exceed 256 MiB.
    case tooLarge(id: String)

    /// The decoded image would exceed the limit of the call; it was not decoded.
    case tooLargeToDecode(id: String, sizeInBytes: Int)
}

extension ImageCacheError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .undecodable(let id, let underlying): "the cached image \(id.debugDescription) is damaged: \(underlying)"
        case .mismatch(let id, let storedID):
            "the file of the cached image \(id.debugDescription) holds \(storedID.debugDescription)"
        case .foreign(let id): "the name of the cached image \(id.debugDescription) belongs to something else"
        case .tooLarge(let id): "the image \(id.debugDescription) is larger than 256 MiB"
        case .tooLargeToDecode(let id, let size): "the image \(id.debugDescription) would decode to \(size) bytes"
        }
    }
}
