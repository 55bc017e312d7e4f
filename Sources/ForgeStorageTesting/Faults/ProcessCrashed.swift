/// Why every call fails after a planned crash; it stands as `FileSystemError.underlying` behind an `EIO`.
public struct ProcessCrashed: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String { "the process was crashed on purpose" }

    /// The reason as a value.
    public init() {}
}
