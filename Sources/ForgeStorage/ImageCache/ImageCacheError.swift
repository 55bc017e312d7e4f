/// Why a file of an ``ImageCacheManager`` is not the image that was asked for.
public enum ImageCacheError: Error {
    /// The image's file is there but holds no image; the error inside is an ``ImageFileDamage`` if it is damaged, or of
    /// another program, and a `CodingFailure` if it is whole but no image.
    case undecodable(id: String, underlying: any Error)

    /// The image's file holds another image: files of the cache were renamed or swapped.
    case mismatch(id: String, storedID: String)

    /// A symbolic link, a directory, a special file or a file with a second name has the name of the image's file; it is
    /// left as it is.
    case foreign(id: String)

    /// The image's file would be longer than 256 MiB.
    case tooLarge(id: String)
}

extension ImageCacheError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .undecodable(let id, let underlying): "the cached image \(id.debugDescription) is damaged: \(underlying)"
        case .mismatch(let id, let storedID):
            "the file of the cached image \(id.debugDescription) holds \(storedID.debugDescription)"
        case .foreign(let id): "the name of the cached image \(id.debugDescription) belongs to something else"
        case .tooLarge(let id): "the image \(id.debugDescription) is larger than 256 MiB"
        }
    }
}
