import ForgeStorage
import Foundation
import SystemPackage

/// The entries of a cache on disk, the most recently modified first.
struct CacheContent: Encodable, Sendable {
    struct Entry: Encodable, Sendable {
        /// The key if the name of the file tells it, else that name.
        var name: String
        var size: Int64
        /// In seconds since 1970.
        var modified: Double
    }

    var count: Int
    var size: Int64
    var offset: Int
    var rows: [Entry]

    /// Lists the files of a cache; reads none of them.
    init(of store: FoundStore, in root: ConfinedDirectory, offset: Int, limit: Int) throws(FileSystemError) {
        let fileSystem = root.fileSystem
        let suffix = store.kind == .cache ? CacheDirectory.suffix : ImageFile.suffix
        var entries: [Entry] = []
        try root.withDirectory(store.path) { (descriptor) throws(FileSystemError) in
            for entry in try fileSystem.entries(of: descriptor)
            where entry.type == .regular && FlatFileName.isName(entry.name, suffix: suffix) {
                do throws(FileSystemError) {
                    let status = try fileSystem.status(entry.name, at: descriptor, followsSymbolicLinks: false)
                    let key = FlatFileName.key(of: entry.name.bytes.dropLast(suffix.utf8.count))
                    entries.append(
                        Entry(
                            name: key ?? entry.name.description, size: status.sizeInBytes,
                            modified: status.modified.secondsSince1970))
                } catch  where error.errno == .noSuchFileOrDirectory {
                    continue  // Evicted meanwhile.
                }
            }
        }
        entries.sort { ($1.modified, $0.name) < ($0.modified, $1.name) }
        count = entries.count
        size = entries.reduce(0) { $0 + $1.size }
        self.offset = offset
        rows = Array(entries.dropFirst(offset).prefix(limit))
    }
}

extension FileTime {
    var secondsSince1970: Double { Double(seconds) + Double(nanoseconds) / 1e9 }
}
