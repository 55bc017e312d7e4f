import ForgeFileSystem
import SystemPackage

/// A source that was renamed to a private name, so that no other program reaches it by its own name during the move.
///
/// Invariant: the renamed file is the one that was opened, and its link count has not changed. A program that opened
/// the file before can still write to it. ``checkUnchanged()`` detects that by size and times; a write between the last
/// check and ``remove()`` is lost with the file.
struct ClaimedSource: Sendable {
    enum Failure: Error {
        /// The file could not be renamed to its private name; it keeps its own.
        case notClaimed(FileSystemError)

        /// The source's name was missing or led to another file, or the link count had changed. The renamed file was
        /// renamed back, unless the problem is `.notRestored`.
        case refused(FileStoreError)
    }

    let privateName: POSIXPath
    private let source: OpenSource
    private let directory: Descriptor
    /// The path of `directory`, for errors.
    private let directoryPath: POSIXPath
    private let status: FileStatus

    /// Renames the file to a private name in its own directory.
    ///
    /// - Throws: ``FileStoreError``: `.notRemoved` if the rename fails; `.changed` if the name is missing or belongs to
    ///   another file, which was renamed back; `.notRestored` if that failed.
    init(_ source: OpenSource) throws(FileStoreError) {
        do {
            try self.init(
                source, as: ".forge-move-", at: source.directory, path: source.origin.path.splitLast().parent)
        } catch {
            switch error {
            case .notClaimed(let cause): throw source.origin.failure(.notRemoved, cause)
            case .refused(let refusal): throw refusal
            }
        }
    }

    /// Renames the file to a private name with this prefix in another directory of its device.
    ///
    /// The renamed file is inspected under its private name: another program may have replaced the file since it was
    /// opened.
    ///
    /// - Parameters:
    ///   - source: The file.
    ///   - prefix: The prefix of the private name.
    ///   - directory: The directory of the private name, which must stay open while the claim exists. If other programs
    ///     cannot write to it, they cannot replace the file after it was inspected.
    ///   - path: The path of the directory.
    /// - Throws: ``Failure``.
    init(
        _ source: OpenSource, as prefix: String, at directory: Descriptor, path: POSIXPath
    ) throws(Failure) {
        self.source = source
        self.directory = directory
        directoryPath = path
        let fileSystem = source.origin.fileSystem
        privateName = POSIXPath.reserved(prefix, using: fileSystem.randomBits)
        do {
            try Self.rename(source, to: privateName, at: directory)
        } catch {
            guard try Self.isMissing(source, after: error) else { throw .notClaimed(error) }
            throw .refused(source.origin.failure(.changed, error))
        }
        do {
            status = try fileSystem.status(of: .descriptor(source.file))
            let named = try fileSystem.status(privateName, at: directory, followsSymbolicLinks: false)
            guard named.inode == status.inode, named.device == status.device,
                status.linkCount == source.status.linkCount
            else { throw FileSystemError(.rename, .staleNFSFileHandle, path: source.origin.path) }
        } catch {
            throw .refused(
                Self.restore(source, privateName, at: directory, path) ?? source.origin.failure(.changed, error))
        }
    }

    private static func rename(
        _ source: OpenSource, to privateName: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) {
        let fileSystem = source.origin.fileSystem
        do {
            try fileSystem.rename(source.name, at: source.directory, to: privateName, at: directory, .exclusive)
        } catch  where error.errno.isMissingFeature {
            // 80 random bits are unique enough without exclusive rename.
            try fileSystem.rename(source.name, at: source.directory, to: privateName, at: directory, .replacing)
        }
    }

    /// Whether a rename failed because the source's name is missing.
    private static func isMissing(_ source: OpenSource, after error: FileSystemError) throws(Failure) -> Bool {
        guard error.errno == .noSuchFileOrDirectory else { return false }
        do {
            return try !source.origin.fileSystem.exists(
                source.name, at: source.directory, followsSymbolicLinks: false)
        } catch {
            throw .notClaimed(error)
        }
    }

    /// Throws `.changed` if another program wrote to the file after it was renamed.
    func checkUnchanged() throws(FileStoreError) {
        try source.checkUnchanged(since: status)
    }

    /// Removes the file, durably.
    func remove() throws(FileStoreError) {
        let fileSystem = source.origin.fileSystem
        do {
            try fileSystem.unlink(privateName, at: directory)
        } catch {
            throw restore() ?? source.origin.failure(.notRemoved, error)
        }
        do {
            try fileSystem.synchronizeDirectory(directory)
        } catch {
            throw FileStoreError(
                .durabilityUnknown, source.origin.operation, key: source.origin.key, underlying: error)
        }
    }

    /// Renames the file back; returns the error to throw if that fails.
    ///
    /// It does not replace a file that another program has created under the name meanwhile. The returned error has the
    /// path of the private name, which the file keeps.
    func restore() -> FileStoreError? {
        Self.restore(source, privateName, at: directory, directoryPath)
    }

    private static func restore(
        _ source: OpenSource, _ privateName: POSIXPath, at directory: Descriptor, _ path: POSIXPath
    ) -> FileStoreError? {
        let fileSystem = source.origin.fileSystem
        do throws(FileSystemError) {
            do throws(FileSystemError) {
                try fileSystem.rename(
                    privateName, at: directory, to: source.name, at: source.directory, .exclusive)
            } catch  where error.errno.isMissingFeature {
                // A link also fails if the name exists.
                try fileSystem.link(privateName, at: directory, to: source.name, at: source.directory)
                try fileSystem.unlink(privateName, at: directory)
            }
        } catch {
            var failure = error
            failure.path = path.isEmpty ? privateName : path.appending(privateName)
            failure.destination = source.origin.path
            return source.origin.failure(.notRestored, failure)
        }
        // Best effort: without the flush a power cut could restore the private name. The caller throws the original
        // error.
        do { try fileSystem.synchronizeDirectory(source.directory) } catch _ {}
        return nil
    }
}
