import ForgeStorage
import SystemPackage

/// The size of a store, or of the files in a directory that belong to none.
struct DiskUsage: Encodable {
    let type = "store"
    /// Relative to the directory that was asked for; empty for that directory.
    var path: String
    var kind: String
    var files = 0
    /// The lengths of the files.
    var bytes: Int64 = 0
    /// The space that they occupy on the device.
    var space: Int64 = 0

    /// The sizes of all stores below a directory, ordered by path.
    ///
    /// - Throws: `FileSystemError` if the directory, or one below, cannot be read.
    static func stores(below root: POSIXPath) throws -> [DiskUsage] {
        var found = [DiskUsage(path: "", kind: "directory")]
        // The directories to read, the store that each belongs to unless it is one, and its parent's stores.
        var pending: [(path: POSIXPath, store: Int, parent: StoreEvidence?)] = [("", 0, nil)]
        while let (path, above, parent) = pending.popLast() {
            try Interruption.check()
            guard let (entries, owner) = try list(path.isEmpty ? root : root.appending(path), below: parent) else {
                continue
            }
            var store = above
            if let kind = owner.text {
                if path.isEmpty {
                    found[0].kind = kind
                } else {
                    found.append(DiskUsage(path: path.shown, kind: kind))
                    store = found.count - 1
                }
            }
            for entry in entries {
                let below = path.isEmpty ? entry.name : path.appending(entry.name)
                if entry.type == .directory {
                    pending.append((below, store, owner))
                } else if entry.type == .regular, let status = try status(of: root.appending(below)) {
                    found[store].files += 1
                    found[store].bytes += status.sizeInBytes
                    found[store].space += status.allocatedSizeInBytes
                }
            }
        }
        return found.filter { $0.files > 0 }.sorted { $0.path < $1.path }
    }

    /// The entries of a directory, and what stores have written in it; nil if it was removed after it was listed.
    private static func list(
        _ path: POSIXPath, below parent: StoreEvidence?
    ) throws -> (entries: [DirectoryEntry], owner: StoreEvidence)? {
        let fileSystem = SystemFileSystem()
        do {
            return try fileSystem.withDirectory(path) { (descriptor) throws(FileSystemError) in
                let owner =
                    try parent == nil
                    ? StoreEvidence(at: path, on: fileSystem)
                    : StoreEvidence(of: descriptor, below: parent, on: fileSystem)
                return (try fileSystem.entries(of: descriptor), owner)
            }
        } catch {
            guard error.errno == .noSuchFileOrDirectory, parent != nil else { throw error }
            return nil
        }
    }

    /// The status of a file; nil if it was removed after it was listed.
    private static func status(of path: POSIXPath) throws -> FileStatus? {
        do {
            return try SystemFileSystem().status(path, followsSymbolicLinks: false)
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return nil
        }
    }
}
