import SystemPackage

extension POSIXFileSystem {
    /// Whether a directory below the root of a store, or a directory on its path, is the root of another store.
    ///
    /// - Complexity: O(*n*) in the number of entries of these directories.
    func isInOtherStore(_ directory: POSIXPath, below root: Descriptor) throws(FileSystemError) -> Bool {
        var directory = directory
        while !directory.isEmpty {
            let isRoot = try withDirectory(directory, at: root, resolution: StoreDirectory.resolution) {
                (descriptor) throws(FileSystemError) in
                try entries(of: descriptor).contains { $0.name.isStoreMarker }
            }
            if isRoot { return true }
            directory = directory.splitLast().parent
        }
        return false
    }
}
