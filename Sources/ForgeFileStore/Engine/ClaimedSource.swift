import ForgeFileSystem
import SystemPackage

/// A file outside a store whose name was taken away, so that no program opens it by its name while it is copied.
///
/// A program that opened the file before can still write to it. ``checkUnchanged()`` detects that by size and times until
/// ``remove()``; a write between the last check and the removal is lost with the file.
struct ClaimedSource: Sendable {
    private let source: OpenSource
    private let privateName: POSIXPath
    private let status: FileStatus

    /// Renames the file to a private name beside its own, on its own device.
    ///
    /// - Throws: ``FileStoreError``: `.notRemoved` if the name cannot be taken away, `.changed` if the name led to
    ///   another file meanwhile; the name is as it was.
    init(_ source: OpenSource) throws(FileStoreError) {
        self.source = source
        let fileSystem = source.origin.fileSystem
        privateName = POSIXPath.reserved(".forge-move-", using: fileSystem.randomBits)
        do throws(FileSystemError) {
            try fileSystem.rename(
                source.name, at: source.directory, to: privateName, at: source.directory, .exclusive)
        } catch  where error.errno.isMissingFeature {
            do {
                // 80 random bits are unique enough where there is no exclusive rename.
                try fileSystem.rename(
                    source.name, at: source.directory, to: privateName, at: source.directory, .replacing)
            } catch {
                throw source.origin.failure(.notRemoved, error)
            }
        } catch {
            throw source.origin.failure(.notRemoved, error)
        }
        do {
            status = try fileSystem.status(of: .descriptor(source.file))
            let named = try fileSystem.status(privateName, at: source.directory, followsSymbolicLinks: false)
            guard named.inode == status.inode, named.device == status.device else {
                throw FileSystemError(.rename, .staleNFSFileHandle, path: source.origin.path)
            }
        } catch {
            throw Self.restore(source, privateName) ?? source.origin.failure(.changed, error)
        }
    }

    /// Throws `.changed` if another program wrote to the file after its name was taken away.
    func checkUnchanged() throws(FileStoreError) {
        let now: FileStatus
        do {
            now = try source.origin.fileSystem.status(of: .descriptor(source.file))
        } catch {
            throw source.origin.failure(.unreadable, error)
        }
        guard now.sizeInBytes == status.sizeInBytes, now.modified == status.modified, now.changed == status.changed
        else { throw source.origin.failure(.changed, nil) }
    }

    /// Removes the file, durably.
    func remove() throws(FileStoreError) {
        let fileSystem = source.origin.fileSystem
        do {
            try fileSystem.unlink(privateName, at: source.directory)
        } catch {
            throw Self.restore(source, privateName) ?? source.origin.failure(.notRemoved, error)
        }
        do {
            try fileSystem.synchronize(source.directory, .full)
        } catch {
            throw FileStoreError(
                .durabilityUnknown, source.origin.operation, key: source.origin.key, underlying: error)
        }
    }

    /// Gives the file its name back and returns the error to throw: `failure`, or `.notRestored` if that fails too.
    ///
    /// A file that another program created under the name meanwhile is not replaced. The error of a failed restoration
    /// names the private name that the source still has.
    func restored<Failure: Error>(after failure: Failure) -> any Error {
        Self.restore(source, privateName) ?? failure
    }

    private static func restore(_ source: OpenSource, _ privateName: POSIXPath) -> FileStoreError? {
        let fileSystem = source.origin.fileSystem
        do throws(FileSystemError) {
            do throws(FileSystemError) {
                try fileSystem.rename(
                    privateName, at: source.directory, to: source.name, at: source.directory, .exclusive)
            } catch  where error.errno.isMissingFeature {
                // A link fails as well if the name is taken.
                try fileSystem.link(privateName, at: source.directory, to: source.name, at: source.directory)
                try fileSystem.unlink(privateName, at: source.directory)
            }
            return nil
        } catch {
            return source.origin.failure(.notRestored, error)
        }
    }
}
