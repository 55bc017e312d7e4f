import Synchronization
import SystemPackage

/// A new file of a store while its content is written: open under a temporary name in the directory of its key.
///
/// ``StoreDirectory/place(_:_:expecting:durability:flushesNames:)`` renames it. A file that is not placed is removed by
/// ``discard()`` or `deinit`, and after a kill by the next store, because its name is recorded. It is beside its key,
/// not in the root, because a rename across directories may leave both names after a power cut. Methods block.
package final class StagedFile: Sendable {
    package let store: StoreDirectory
    fileprivate let key: RelativeKey
    fileprivate let name: TemporaryFileJournal.Name
    /// The directory of the key, the root's own descriptor for keys in the root.
    fileprivate let directory: Descriptor
    private let journal: TemporaryFileJournal
    /// Nil after the file was discarded.
    private let file: Mutex<Descriptor?>

    fileprivate init(_ key: RelativeKey, in store: StoreDirectory, at parent: Descriptor) throws(FileSystemError) {
        let fileSystem = store.fileSystem
        self.store = store
        self.key = key
        journal = try store.openJournal()
        directory = key.isNested ? try fileSystem.duplicate(parent) : store.root
        do throws(FileSystemError) {
            name = try journal.takeName(
                POSIXPath.temporaryPrefix, in: key.path.splitLast().parent, at: directory, isDurable: false)
        } catch {
            if key.isNested { fileSystem.discard(directory) }
            throw error
        }
        do throws(FileSystemError) {
            file = Mutex(try Self.create(name.path, at: directory, on: fileSystem))
        } catch {
            journal.giveBackIfFree(name, at: directory)
            if key.isNested { fileSystem.discard(directory) }
            throw error
        }
    }

    deinit {
        discard()
    }

    /// Replaces a leftover, which a power cut may have kept without its record.
    private static func create(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Descriptor {
        do throws(FileSystemError) {
            return try fileSystem.openPrivateFile(name, at: directory)
        } catch  where error.errno == .fileExists {
            try fileSystem.unlink(name, at: directory)
            return try fileSystem.openPrivateFile(name, at: directory)
        }
    }

    /// Calls `body` with the open file; a ``discard()`` from another thread waits for it.
    ///
    /// - Throws: `EBADF` of a write after ``discard()``.
    package func withFile<Result>(
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        var result: Swift.Result<Result, FileSystemError> = .failure(FileSystemError(.write, .badFileDescriptor))
        file.withLock { file in
            guard let file else { return }
            result = Swift.Result { () throws(FileSystemError) in try body(file) }
        }
        return try result.get()
    }

    /// Ends the content: sets the modification time and, unless the durability is `.none`, starts to write the content
    /// to the device without waiting for it.
    package func finishContent(_ durability: Durability) throws(FileSystemError) {
        try withFile { (file) throws(FileSystemError) in
            store.setPreciseTime(of: file)
            if durability != .none { store.fileSystem.startWritingBack(file) }
        }
    }

    /// Synchronises the content as `durability` says.
    package func synchronize(_ durability: Durability) throws(FileSystemError) {
        guard let level = durability.contentLevel else { return }
        try withFile { (file) throws(FileSystemError) in try store.fileSystem.synchronize(file, level) }
    }

    /// Closes the file and removes it.
    package func discard() {
        close { directory in
            do { try store.fileSystem.unlink(name.path, at: directory) } catch _ {}
            journal.giveBackIfFree(name, at: directory)
        }
    }

    /// Closes the file, which has its key now, not its temporary name.
    fileprivate func finish() {
        close { _ in journal.giveBack(name) }
    }

    private func close(_ release: (Descriptor) -> Void) {
        guard let descriptor = file.withLock({ $0.take() }) else { return }
        store.fileSystem.discard(descriptor)
        release(directory)
        if key.isNested { store.fileSystem.discard(directory) }
    }
}

extension StoreDirectory {
    /// Creates an empty file under a temporary name beside a key, and the directories of the key, which are durable
    /// with `.full`.
    package func stage(_ key: RelativeKey, _ durability: Durability) throws(FileSystemError) -> StagedFile {
        try withDurableParent(of: key, durability) { (parent, _) throws(FileSystemError) in
            try StagedFile(key, in: self, at: parent)
        }
    }

    /// Renames a staged file to its key.
    ///
    /// - Parameters:
    ///   - file: A file of this store, synchronised as `durability` says.
    ///   - mode: `.replacing`, or `.exclusive` to fail with `EEXIST` if the file exists.
    ///   - expected: The revision that the existing file must have; nil for any, and for none.
    ///   - durability: Whether the name is synchronised.
    ///   - flushesNames: Whether that happens at once; otherwise the caller synchronises several names with
    ///     ``synchronizeParents(of:)``.
    /// - Returns: The status of the stored file.
    /// - Throws: `ECANCELED` of a rename if there is no file with the expected revision; for an existing file as
    ///   ``replace(_:_:durability:content:)``.
    @discardableResult
    package func place(
        _ file: StagedFile, _ mode: RenameMode, expecting expected: FileRevision? = nil, durability: Durability,
        flushesNames: Bool = true
    ) throws(FileSystemError) -> FileStatus {
        let (status, isMoved) = try file.withFile { (content) throws(FileSystemError) in
            var status = try fileSystem.status(of: .descriptor(content))
            var isMoved = true
            do throws(FileSystemError) {
                // Staging has checked that no other store has its root on the way.
                try withParent(of: file.key, creating: false, checkingRoots: false) {
                    (parent, name) throws(FileSystemError) in
                    if file.key.isNested { try requireSameDirectory(parent, file.directory) }
                    try synchronizingPresence(of: file.key, at: parent, durability) { () throws(FileSystemError) in
                        let exists = try requireReplaceable(name, at: parent, mode, file.key)
                        try excludingChanges(in: parent, isConditional: expected != nil) {
                            () throws(FileSystemError) in
                            if let expected, try revision(name, at: parent) != expected {
                                throw FileSystemError(.rename, .canceled, path: file.key.path)
                            }
                            try fileSystem.moveIntoPlace(
                                file.name.path, to: name, at: parent, mode, durability, isExpected: exists)
                        }
                    }
                    if flushesNames { try synchronizeNames(parent, file.key.path, durability) }
                }
            } catch  where error.errno == .noSuchFileOrDirectory {
                // The directory was removed or replaced since the file was created, maybe with the temporary name.
                guard expected == nil else { throw FileSystemError(.rename, .canceled, path: file.key.path) }
                var stored: Descriptor?
                defer { stored.map(fileSystem.discard) }
                try replace(file.key, mode, durability: durability) { (new) throws(FileSystemError) in
                    try fileSystem.copyContent(of: content, to: new)
                    try fileSystem.setFileAttributes(fileSystem.fileAttributes(of: content), of: new)
                    if let earlier = stored.take() { fileSystem.discard(earlier) }
                    stored = try fileSystem.duplicate(new)
                }
                isMoved = false
                guard let stored else { return (status, isMoved) }
                do throws(FileSystemError) {
                    status = try fileSystem.status(of: .descriptor(stored))
                } catch {
                    throw error.withVisibleEffect(at: file.key.path)
                }
            }
            return (status, isMoved)
        }
        if isMoved { file.finish() } else { file.discard() }
        return status
    }

    /// Makes the names in the directories of keys durable.
    package func synchronizeParents(of keys: some Sequence<RelativeKey>) throws(FileSystemError) {
        for parent in Set(keys.map { $0.path.splitLast().parent }) {
            guard !parent.isEmpty else {
                try synchronizeNames(root, nil)
                continue
            }
            do throws(FileSystemError) {
                try fileSystem.withDirectory(parent, at: root, resolution: Self.resolution) {
                    (directory) throws(FileSystemError) in try synchronizeNames(directory, parent)
                }
            } catch  where error.errno == .noSuchFileOrDirectory {
                continue  // Removed meanwhile, with its files.
            }
        }
    }

    private func requireSameDirectory(_ first: Descriptor, _ second: Descriptor) throws(FileSystemError) {
        let first = DirectoryIdentity(try fileSystem.status(of: .descriptor(first)))
        guard try first == DirectoryIdentity(fileSystem.status(of: .descriptor(second))) else {
            throw FileSystemError(.rename, .noSuchFileOrDirectory)
        }
    }

    /// The revision of the file with a name; nil if there is none.
    private func revision(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> FileRevision? {
        do throws(FileSystemError) {
            return FileRevision(try fileSystem.status(name, at: directory, followsSymbolicLinks: false))
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }
}
