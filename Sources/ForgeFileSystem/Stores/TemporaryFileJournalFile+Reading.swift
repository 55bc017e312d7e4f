import SystemPackage

/// Reading the journals of a root without becoming their owner; creates and writes nothing.
extension TemporaryFileJournalFile {
    /// Calls `body` with each readable journal, regardless of whether its owner is alive.
    static func forEach(
        at root: Descriptor, on fileSystem: any POSIXFileSystem,
        _ body: (TemporaryFileJournalFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        for number in 0..<maximumCount {
            do throws(FileSystemError) {
                let descriptor = try fileSystem.open(
                    name(number), at: root, .readOnly, options: [.noFollow, .nonBlocking])
                try fileSystem.closing(descriptor) { () throws(FileSystemError) in
                    let header = try fileSystem.readBytes(of: descriptor, at: 0, count: headerLength)
                    guard let id = id(in: header) else { return }
                    try body(TemporaryFileJournalFile(id: id, fileSystem: fileSystem, descriptor: descriptor))
                }
            } catch  where error.errno == .noSuchFileOrDirectory {
                return
            } catch  where error.errno.isRefusal || error.errno.isForeign {
                continue
            }
        }
    }

    /// The identifiers in the names of all owners of journals in a root, alive or not.
    static func allIDs(at root: Descriptor, on fileSystem: any POSIXFileSystem) throws(FileSystemError) -> [POSIXPath] {
        var ids: [POSIXPath] = []
        try forEach(at: root, on: fileSystem) { (file) throws(FileSystemError) in ids.append(file.id) }
        return ids
    }

    /// Whether a store object holds the journal's lock.
    ///
    /// `flock(2)` cannot query a lock, so a shared lock is taken and released at once. A writer that looks for a
    /// journal without an owner at that moment skips this one.
    func isOwned() throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                try fileSystem.lock(descriptor, .shared, waiting: false)
            }
        } catch  where error.errno == .resourceTemporarilyUnavailable {
            return true
        }
        try fileSystem.lock(descriptor, .unlocked, waiting: false)
        return false
    }
}
