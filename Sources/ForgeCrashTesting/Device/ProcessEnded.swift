/// The underlying error of the `EIO` of a file system whose process has ended on the simulated device.
public struct ProcessEnded: Error, Hashable, CustomStringConvertible {
    public var description: String { "the process has ended" }

    /// The one value of this type.
    public init() {}
}
