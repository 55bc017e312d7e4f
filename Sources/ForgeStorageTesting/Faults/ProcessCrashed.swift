/// The underlying error of the `EIO` that every call throws after a planned crash.
public struct ProcessCrashed: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String { "the process was crashed on purpose" }

    /// Creates the error.
    public init() {}
}
