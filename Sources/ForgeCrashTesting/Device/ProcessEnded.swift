/// The underlying error of the `EIO` that a file system throws after its process has ended.
public struct ProcessEnded: Error, Hashable, CustomStringConvertible {
    public var description: String { "the process has ended" }

    /// Creates the error.
    public init() {}
}
