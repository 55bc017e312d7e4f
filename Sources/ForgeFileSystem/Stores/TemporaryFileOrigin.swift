import SystemPackage

/// The origin of a temporary file or trash, according to the records in a store's root.
package enum TemporaryFileOrigin: Hashable, Sendable {
    /// The store object that recorded it is writing a file now, and may be using it.
    case inUse

    /// Its owner has ended, or no longer uses it. The next store object that writes removes it.
    case orphaned

    /// Its owner has ended or no longer uses it, and its directory is not recorded. No store removes it.
    case unrecorded

    /// The part of the names of temporary files that tells the owner of a journal, from the journal's first bytes; nil
    /// for another file.
    package static func ownerID(inJournalStartingWith bytes: [UInt8]) -> POSIXPath? {
        TemporaryFileJournalFile.id(in: Array(bytes.prefix(TemporaryFileJournalFile.headerLength)))
    }

    /// Looks up a file in the records of a root, and changes nothing.
    ///
    /// The record of a slot is written before the file is created. So if the file exists when this returns, the record
    /// that was read is the one that its owner wrote, or a later one.
    ///
    /// - Parameters:
    ///   - path: The path of the file; it begins with `root`.
    ///   - root: The root of a store.
    ///   - fileSystem: The file system of the store.
    /// - Returns: Nil if no record of the root has the name, or the file is in the directory of another store.
    /// - Throws: The error of reading the root or a record; a record that the caller may not read is skipped.
    package static func find(
        _ path: POSIXPath, below root: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> TemporaryFileOrigin? {
        let (parent, name) = path.splitLast()
        guard let parts = name.recordedParts else { return nil }
        let directory = POSIXPath(parent.bytes.dropFirst(root.count).drop { $0 == UInt8(ascii: "/") })
        return try fileSystem.withDirectory(root) { (descriptor) throws(FileSystemError) in
            var origin: TemporaryFileOrigin?
            try TemporaryFileJournalFile.forEach(at: descriptor, on: fileSystem) { (file) throws(FileSystemError) in
                guard origin == nil, file.id == parts.id else { return }
                guard try file.directory(ofSlot: parts.slot) == directory else {
                    origin = .unrecorded
                    return
                }
                guard try !fileSystem.isInOtherStore(directory, below: descriptor) else { return }
                origin = try file.isOwned() ? .inUse : .orphaned
            }
            return origin
        }
    }
}
