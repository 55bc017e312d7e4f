import Synchronization

extension MirrorFeed {
    /// The size of the values after which a page of a list is to end. Servers build an answer in memory.
    static let pageSizeInBytes = 4 << 20

    private static let smallestPage = 16
    static let largestPage = 1 << 20

    /// All values at one revision.
    ///
    /// The pages grow: a server may count all keys for each of them.
    func readList() async throws(AsyncKVStoreError) -> (MirroredList, MirrorState.Position) {
        var limit = min(max(configuration.pageSize, 1), pageLimit.load(ordering: .relaxed))
        var page = try await readPage(limit, after: nil, at: nil)
        var entries = page.entries
        let position = MirrorState.Position(storeID: page.storeID, revision: page.revision)
        while page.hasMore, let last = page.entries.last {
            let size = page.entries.reduce(0) { $0 + $1.name.utf8.count + $1.entry.bytes.count }
            let fitting = Self.pageSizeInBytes / (size / page.entries.count + 1)
            limit = min(limit * 2, max(fitting, Self.smallestPage), pageLimit.load(ordering: .relaxed))
            page = try await readPage(limit, after: last.name, at: position.revision)
            guard page.storeID == position.storeID else {
                throw AsyncKVStoreError(.unavailable, .keys, detail: "another store answers")
            }
            entries += page.entries
        }
        guard !page.hasMore else { throw AsyncKVStoreError(.unavailable, .keys, detail: "an empty page") }
        pageLimit.store(min(pageLimit.load(ordering: .relaxed) * 2, Self.largestPage), ordering: .relaxed)
        // A longer name is not valid in any store of this process.
        return (entries.filter { $0.name.utf8.count <= KeyName.maximumLength }, position)
    }

    /// A page. If it is too large or late, the pages of the next lists are smaller.
    private func readPage(
        _ limit: Int, after last: String?, at revision: UInt64?
    ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        do throws(AsyncKVStoreError) {
            return try await source.entries(prefix: "", after: last, limit: limit, at: revision)
        } catch {
            if error.code == .tooLarge || error.code == .timeout {
                pageLimit.store(max(limit / 4, min(limit, Self.smallestPage)), ordering: .relaxed)
            }
            throw error
        }
    }
}
