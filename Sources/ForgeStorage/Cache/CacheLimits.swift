/// The limits of one layer of a cache; both apply.
public struct CacheLimits: Hashable, Sendable {
    /// The maximum sum of the sizes of all entries, in bytes.
    public var sizeInBytes: Int

    /// The maximum number of entries.
    public var count: Int

    /// Creates limits; without an argument there is none. Negative limits are zero: no entry is kept.
    public init(sizeInBytes: Int = .max, count: Int = .max) {
        self.sizeInBytes = max(sizeInBytes, 0)
        self.count = max(count, 0)
    }

    /// No limits.
    public static let unlimited = CacheLimits()
}
