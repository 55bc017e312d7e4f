/// A problem with a file that should contain a cached image.
public enum ImageFileDamage: Error, Hashable, Sendable {
    /// The file does not begin like one of an image cache: it is truncated, or another program's.
    case foreign

    /// The file was written by a later version of this package.
    case newerVersion(UInt32)

    /// The file differs from what was written, or is incomplete.
    case checksum
}

extension ImageFileDamage: CustomStringConvertible {
    public var description: String {
        switch self {
        case .foreign: "not a file of an image cache"
        case .newerVersion(let version): "version \(version) of the format, which is newer than this package"
        case .checksum: "the checksum is wrong"
        }
    }
}
