import ForgeFileSystem

/// Listings page by page.
extension FileStoreEngine {
    func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        FileListing { [self] in
            var listing: TreeListing?
            return { [self] in
                let current =
                    try listing
                    ?? TreeListing(
                        directory.isEmpty ? nil : RelativeKey(checking: directory, for: .list), options)
                let (page, next) = try await run(.list, directory) { [self] cancellation in
                    try cancellation.check()
                    var next = current
                    return (try nextPage(of: &next, in: directory), next)
                }
                listing = next
                return page.isEmpty ? nil : page
            }
        }
    }

    private func nextPage(
        of listing: inout TreeListing, in directory: String
    ) throws(FileStoreError) -> [StoredFile] {
        let page = try attemptIfExists(.list, directory) { (store) throws(FileSystemError) in
            try listing.nextPage(in: store)
        }
        if let page { return page }
        // The store is empty until its root exists.
        guard directory.isEmpty else { throw FileStoreError(.notFound, .list, key: directory) }
        return []
    }
}
