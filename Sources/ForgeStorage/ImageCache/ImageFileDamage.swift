/// What is wrong with a file that should hold a cached image.
public enum ImageFileDamage: Error, Hashable, Sendable {
    /// The file does not begin as one of an image cache does: it is cut short, or another program's.
    case foreign

    /// The file was written by a later version of this package.
    case newerVersion(UInt32)

    /// The file is not what was written, or not all of it.
    case checksum
}

extension ImageFileDamage: CustomStringConvertible {
    public var description: String {
        switch self {
        case .foreign: "no file of an image cache"
        case .newerVersion(let version): "version \(version) of the format, which is newer than this package"
        case .checksum: "the checksum is wrong"
        }
    }
}
