/// Limits on path resolution (`openat2(2)`).
public struct PathResolution: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Resolution may not leave the directory it starts from, by `..`, an absolute path or a link; `EXDEV` if it tries.
    public static let beneath = PathResolution(rawValue: 1)

    /// No component may be a symbolic link; `ELOOP` if one is.
    public static let noSymbolicLinks = PathResolution(rawValue: 2)
}
