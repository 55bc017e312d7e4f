package import Foundation
import Synchronization
import SystemPackage

/// A new file of a store, under a temporary name in the directory of its key: open while its content is written, and
/// closed after that unless its content may be needed again.
///
/// ``StoreDirectory/place(_:_:expecting:durability:flushesNames:isFresh:)`` renames it. A file that is not placed is removed by
/// ``discard()`` or `deinit`, and after a kill by the next store, because its name is recorded. It is beside its key,
/// not in the root, because a rename across directories may leave both names after a power cut. Methods block.
package final class StagedFile: Sendable {
    package let store: StoreDirectory
    fileprivate let key: RelativeKey
    fileprivate let name: TemporaryFileJournal.Name
    /// The directory of the key, the root's own descriptor for keys in the root.
    fileprivate let directory: Descriptor
    private let journal: TemporaryFileJournal

    private enum Content {
        case open(Descriptor)
        /// Complete and closed.
        case closed(FileStatus)
        /// Placed or removed.
        case none
    }

    private let content: Mutex<Content>

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
            content = Mutex(.open(try Self.create(name.path, at: directory, on: fileSystem)))
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
    /// - Throws: `EBADF` of a write after ``discard()``, and after ``finish(_:keepingOpen:)`` has closed the file.
    package func withFile<Result>(
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        var result: Swift.Result<Result, FileSystemError> = .failure(FileSystemError(.write, .badFileDescriptor))
        content.withLock { content in
            guard case .open(let file) = content else { return }
            do throws(FileSystemError) {
                result = .success(try body(file))
            } catch {
                result = .failure(error.named(name.path))
            }
        }
        return try result.get()
    }

    /// Appends bytes.
    package func write(_ bytes: RawSpan) throws(FileSystemError) {
        try withFile { (file) throws(FileSystemError) in try store.fileSystem.writeFully(file, from: bytes) }
    }

    /// Appends bytes.
    package func write(_ bytes: [UInt8]) throws(FileSystemError) {
        try withFile { (file) throws(FileSystemError) in try store.fileSystem.writeBytes(bytes, to: file) }
    }

    /// Appends bytes.
    package func write(_ data: Data) throws(FileSystemError) {
        try withBytes(of: data) { (bytes) throws(FileSystemError) in try write(bytes) }
    }

    /// Sets the attributes that a store keeps with the file; see ``FileAttributes``.
    package func setAttributes(_ attributes: [String: [UInt8]]) throws(FileSystemError) {
        try withFile { (file) throws(FileSystemError) in try store.fileSystem.setFileAttributes(attributes, of: file) }
    }

    /// Starts to write the content to the device without waiting for it.
    package func startWritingBack() throws(FileSystemError) {
        try withFile { (file) throws(FileSystemError) in store.fileSystem.startWritingBack(file) }
    }

    /// Ends the content: sets the modification time, and synchronises as `durability` says. Does nothing once the file is
    /// closed.
    ///
    /// - Parameters:
    ///   - durability: The failures that the content survives.
    ///   - keepsOpen: Whether the file stays open, so that its content can be stored again if the directory of the key
    ///     is removed before ``StoreDirectory/place(_:_:expecting:durability:flushesNames:isFresh:)``.
    /// - Throws: `EBADF` of a write after ``discard()``.
    package func finish(_ durability: Durability, keepingOpen keepsOpen: Bool = false) throws(FileSystemError) {
        if case .closed = content.withLock({ $0 }) { return }
        let status = try withFile { (file) throws(FileSystemError) in
            store.setPreciseTime(of: file)
            if let level = durability.contentLevel { try store.fileSystem.synchronize(file, level) }
            return try store.fileSystem.status(of: .descriptor(file))
        }
        guard !keepsOpen else { return }
        let open = content.withLock { content -> Descriptor? in
            guard case .open(let file) = content else { return nil }
            content = .closed(status)
            return file
        }
        guard let open else { return }
        // Some file systems report a failed write only now.
        do throws(FileSystemError) { try store.fileSystem.close(open) } catch { throw error.named(name.path) }
    }

    /// The status of the complete content, and whether the file is open.
    fileprivate func status() throws(FileSystemError) -> (FileStatus, isOpen: Bool) {
        if case .closed(let status) = content.withLock({ $0 }) { return (status, false) }
        let status = try withFile { (file) throws(FileSystemError) in
            try store.fileSystem.status(of: .descriptor(file))
        }
        return (status, true)
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
        let last = content.withLock { content in
            defer { content = .none }
            return content
        }
        switch last {
        case .none: return
        case .open(let file): store.fileSystem.discard(file)
        case .closed: break
        }
        release(directory)
        if key.isNested { store.fileSystem.discard(directory) }
    }
}

/// A staged file that a call keeps between its attempts to place it.
package final class PendingFile: Sendable {
    private let file = Mutex<StagedFile?>(nil)

    package init() {}

    /// Whether there is surely no file; false while a thread stages it.
    package var isEmpty: Bool { file.withLockIfAvailable { $0 == nil } ?? false }

    /// The file that was staged in a directory; staged now unless it was before.
    package func get(
        in directory: StoreDirectory, _ stage: () throws(FileSystemError) -> StagedFile
    ) throws(FileSystemError) -> (StagedFile, isFresh: Bool) {
        try file.withLock { (file) throws(FileSystemError) in
            if let file, file.store === directory { return (file, false) }
            file?.discard()
            file = nil
            let new = try stage()
            file = new
            return (new, true)
        }
    }

    /// Removes the file. To be called on a thread that may block.
    package func discard() {
        file.withLock { $0.take() }?.discard()
    }
}

/// The one way in which a file gets its key: it is staged, and then placed.
extension StoreDirectory {
    /// Stages a file, unless an earlier attempt did, and places it.
    ///
    /// - Parameters:
    ///   - pending: The file of an earlier attempt, which the directory of the key may have lost since.
    ///   - key: The key of the file.
    ///   - mode: `.replacing`, or `.exclusive` to fail with `EEXIST` if the file exists.
    ///   - expected: The revision that the existing file must have; nil for any, and for none.
    ///   - durability: The failures that content and name survive.
    ///   - flushesNames: Whether the name is made durable at once.
    ///   - check: Called before the rename; an error ends the save.
    ///   - content: Writes the content. Called again if another program removes the directory meanwhile.
    /// - Returns: The status of the stored file.
    /// - Throws: As ``stage(_:_:_:)`` and ``place(_:_:expecting:durability:flushesNames:isFresh:)``. The file is kept only
    ///   if the error is that of a taken turn.
    @discardableResult
    package func save(
        _ pending: PendingFile, at key: RelativeKey, _ mode: RenameMode, expecting expected: FileRevision? = nil,
        durability: Durability, flushesNames: Bool = true,
        beforeRename check: () throws(FileSystemError) -> Void = { () throws(FileSystemError) in },
        content: (StagedFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> FileStatus {
        var attempts = 0
        while true {
            do throws(FileSystemError) {
                let (file, isFresh) = try pending.get(in: self) { () throws(FileSystemError) in
                    try stage(key, durability, mode, content: content)
                }
                try file.finish(durability)
                try check()
                return try place(
                    file, mode, expecting: expected, durability: durability, flushesNames: flushesNames,
                    isFresh: isFresh)
            } catch {
                guard !error.isTakenTurn else { throw error }
                pending.discard()
                // Another program removes the directory; of two that do so, one makes progress each time.
                attempts += 1
                guard error.errno == .noSuchFileOrDirectory, key.isNested, attempts <= 1000 else { throw error }
            }
        }
    }

    /// Stages a file and writes its content; if that fails, the file is released, and with that removed.
    package func stage(
        _ key: RelativeKey, _ durability: Durability, _ mode: RenameMode? = nil,
        content: (StagedFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> StagedFile {
        let file = try stage(key, durability, mode)
        try content(file)
        return file
    }
}

extension StoreDirectory {
    /// Creates an empty file under a temporary name beside a key, and the directories of the key, which are durable
    /// with `.full`.
    ///
    /// - Parameters:
    ///   - key: The key of the file.
    ///   - durability: The durability of the directories.
    ///   - mode: How the file will be placed, to find out early whether it can be; nil to find that out later.
    /// - Returns: The file, open.
    /// - Throws: As ``place(_:_:expecting:durability:flushesNames:isFresh:)``.
    package func stage(
        _ key: RelativeKey, _ durability: Durability, _ mode: RenameMode? = nil
    ) throws(FileSystemError) -> StagedFile {
        try withDurableParent(of: key, durability) { (parent, name) throws(FileSystemError) in
            if let mode {
                try synchronizingPresence(of: key, at: parent, durability) { () throws(FileSystemError) in
                    try requireReplaceable(name, at: parent, mode, key)
                }
            }
            return try StagedFile(key, in: self, at: parent)
        }
    }

    /// Stages a complete file with the content of another one, which is open.
    package func stage(
        copyOf file: StagedFile, _ durability: Durability, keepingOpen keepsOpen: Bool
    ) throws(FileSystemError) -> StagedFile {
        let copy = try stage(file.key, durability)
        try file.withFile { (content) throws(FileSystemError) in
            try copy.withFile { (new) throws(FileSystemError) in
                try fileSystem.copyContent(of: content, to: new)
                try fileSystem.setFileAttributes(fileSystem.fileAttributes(of: content), of: new)
            }
        }
        try copy.finish(durability, keepingOpen: keepsOpen)
        return copy
    }

    /// Renames a staged file to its key.
    ///
    /// - Parameters:
    ///   - file: A complete file of this store, synchronised as `durability` says.
    ///   - mode: `.replacing`, or `.exclusive` to fail with `EEXIST` if the file exists.
    ///   - expected: The revision that the existing file must have; nil for any, and for none.
    ///   - durability: Whether the name is synchronised.
    ///   - flushesNames: Whether that happens at once; otherwise the caller synchronises several names with
    ///     ``synchronizeParents(of:)``.
    ///   - isFresh: Whether the file was staged by the same call, so that its directory need not be opened again.
    /// - Returns: The status of the stored file.
    /// - Throws: `ECANCELED` of a rename if there is no file with the expected revision; `ELOOP`, `EISDIR` or `ENOTSUP` if
    ///   the existing file is a link, a directory or another file that is not regular: it does not belong to the store,
    ///   and is kept. An error with ``FileSystemError/isTakenTurn`` if another process keeps the turn. `ENOENT` if the
    ///   directory of the key was removed and the file is closed. The file stays staged, unless
    ///   ``FileSystemError/isEffectVisible`` is set.
    @discardableResult
    package func place(
        _ file: StagedFile, _ mode: RenameMode, expecting expected: FileRevision? = nil, durability: Durability,
        flushesNames: Bool = true, isFresh: Bool = false
    ) throws(FileSystemError) -> FileStatus {
        let (status, isOpen) = try file.status()
        do throws(FileSystemError) {
            try withDirectory(of: file, isFresh: isFresh) { (parent, name) throws(FileSystemError) in
                try synchronizingPresence(of: file.key, at: parent, durability) { () throws(FileSystemError) in
                    let exists = try requireReplaceable(name, at: parent, mode, file.key)
                    try takingTurn(in: parent, of: file.key) { () throws(FileSystemError) in
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
            guard isOpen else { throw error }
            return try placeCopy(of: file, mode, durability)
        } catch  where error.isEffectVisible {
            file.finish()
            throw error
        }
        file.finish()
        return status
    }

    /// Stores the content of an open file anew, after the directory with its temporary name was removed.
    private func placeCopy(
        of file: StagedFile, _ mode: RenameMode, _ durability: Durability
    ) throws(FileSystemError) -> FileStatus {
        var attempts = 0
        while true {
            let copy = try stage(copyOf: file, durability, keepingOpen: false)
            defer { copy.discard() }
            do throws(FileSystemError) {
                let status = try place(copy, mode, durability: durability, isFresh: true)
                file.discard()
                return status
            } catch  where error.errno == .noSuchFileOrDirectory && file.key.isNested && attempts < 1000 {
                attempts += 1
            }
        }
    }

    /// Calls `body` with the directory of a staged file and the name of its key.
    private func withDirectory(
        of file: StagedFile, isFresh: Bool,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        if isFresh {
            do throws(FileSystemError) {
                return try body(file.directory, file.key.path.splitLast().name)
            } catch {
                throw error.named(file.key.path)
            }
        }
        // Staging has checked that no other store has its root on the way.
        try withParent(of: file.key, creating: false, checkingRoots: false) { (parent, name) throws(FileSystemError) in
            if file.key.isNested { try requireSameDirectory(parent, file.directory) }
            try body(parent, name)
        }
    }

    /// Makes the names in the directories of keys durable.
    package func synchronizeParents(of keys: some Sequence<RelativeKey>) throws(FileSystemError) {
        for parent in Set(keys.map { $0.path.splitLast().parent }) {
            guard !parent.isEmpty else {
                try synchronizeNames(root, nil)
                continue
            }
            do throws(FileSystemError) {
                let directory = try fileSystem.openDirectory(parent, at: root, resolution: Self.resolution)
                defer { fileSystem.discard(directory) }
                try synchronizeNames(directory, parent)
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
