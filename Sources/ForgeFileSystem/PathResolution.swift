/// Limits on path resolution (`openat2(2)`).
public struct PathResolution: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Resolution must not leave the starting directory by `..`, an absolute path or a link; otherwise `EXDEV`.
    public static let beneath = PathResolution(rawValue: 1)

    /// No component may be a symbolic link; otherwise `ELOOP`.
    public static let noSymbolicLinks = PathResolution(rawValue: 2)
}
