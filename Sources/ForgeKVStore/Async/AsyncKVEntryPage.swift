/// Some of the values of a store, in the order of the bytes of their names.
public struct AsyncKVEntryPage: Sendable {
    /// The names and values.
    public var entries: [(name: String, entry: KVEntry)]

    /// Whether there may be values after the last one.
    public var hasMore: Bool

    /// The revision of the store that the page shows; nil if the store has none.
    public var revision: UInt64?

    /// Identifies the store whose revisions these are, such as a cluster of servers; nil if it cannot be identified.
    /// Revisions of stores with different identifiers cannot be compared.
    public var storeID: String?

    /// The keys in the range of the page that are no names of a store: not valid UTF-8, or too long. Other programs have
    /// written them, and no call reads them. A key can be in more than one page.
    public var foreignKeys: [[UInt8]] = []

    /// Creates a page.
    public init(
        entries: [(name: String, entry: KVEntry)], hasMore: Bool, revision: UInt64? = nil, storeID: String? = nil
    ) {
        self.entries = entries
        self.hasMore = hasMore
        self.revision = revision
        self.storeID = storeID
    }
}

extension AsyncKVStoring {
    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        var page = AsyncKVEntryPage(entries: [], hasMore: true)
        var last = after
        // More than one page of names only if all of its values were removed meanwhile.
        while page.hasMore, page.entries.isEmpty {
            let names = try await keys(prefix: prefix, after: last, limit: limit)
            for name in names.names {
                guard let entry = try await entry(named: name) else { continue }
                page.entries.append((name, entry))
            }
            page.revision = page.revision ?? names.revision
            page.hasMore = names.hasMore && !names.names.isEmpty
            last = names.names.last
        }
        return page
    }
}
