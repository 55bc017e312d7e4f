/// Some of the names of a store, in the order of their bytes.
public struct AsyncKVPage: Hashable, Sendable {
    /// The names.
    public var names: [String]

    /// Whether there may be names after the last one.
    public var hasMore: Bool

    /// The revision of the store that the page shows, for ``AsyncKVStoring/changes(prefix:from:)``; nil if the store
    /// does not replay changes.
    public var revision: UInt64?

    /// Creates a page.
    public init(names: [String], hasMore: Bool, revision: UInt64? = nil) {
        self.names = names
        self.hasMore = hasMore
        self.revision = revision
    }
}
