import ForgeFileSystem
package import Foundation
import SystemPackage

/// The path of a file outside the store; the file is to be copied or moved into the store.
struct ExternalSource {
    let fileSystem: any POSIXFileSystem
    let path: POSIXPath
    let operation: FileStoreError.Operation
    let key: String

    init(
        _ url: URL, on fileSystem: any POSIXFileSystem, _ operation: FileStoreError.Operation, key: String
    ) throws(FileStoreError) {
        do {
            path = try POSIXPath(url)
        } catch {
            throw FileStoreError(.invalidSource(.notFileURL), operation, key: key, underlying: error)
        }
        self.fileSystem = fileSystem
        self.operation = operation
        self.key = key
    }

    /// Opens the file and checks that it is a regular one.
    ///
    /// Opening never blocks, not even on a FIFO without a writer. The source of a move is opened without following a
    /// symbolic link, because the move would rename the link, not its target.
    func open() throws(FileStoreError) -> OpenSource {
        let (parent, name) = path.splitLast()
        let directory = try attempt { () throws(FileSystemError) in
            try fileSystem.open(parent.isEmpty ? "." : parent, .readOnly, options: [.directory])
        }
        do throws(FileStoreError) {
            let file = try attempt { () throws(FileSystemError) in
                // Only `/` (or an empty path) has no last component.
                guard !name.isEmpty else { throw FileSystemError(.open, .isDirectory, path: path) }
                return try fileSystem.open(
                    name, at: directory, .readOnly,
                    options: operation == .move ? [.noFollow, .nonBlocking] : [.nonBlocking])
            }
            do throws(FileStoreError) {
                let status = try attempt { () throws(FileSystemError) in
                    try fileSystem.status(of: .descriptor(file))
                }
                guard status.type == .regular else { throw failure(.notRegular, nil) }
                guard operation != .move || !name.isInternalToStore else { throw failure(.storeFile, nil) }
                return OpenSource(origin: self, file: file, status: status, directory: directory, name: name)
            } catch {
                fileSystem.discard(file)
                throw error
            }
        } catch {
            fileSystem.discard(directory)
            throw error
        }
    }

    func failure(_ problem: FileStoreError.SourceProblem, _ underlying: (any Error)?) -> FileStoreError {
        FileStoreError(.invalidSource(problem), operation, key: key, underlying: underlying)
    }

    private func attempt<Result>(_ body: () throws(FileSystemError) -> Result) throws(FileStoreError) -> Result {
        do {
            return try fileSystem.retryingInterrupts(body)
        } catch {
            let problem: FileStoreError.SourceProblem =
                switch error.errno {
                case .noSuchFileOrDirectory, .notDirectory: .notFound
                case .tooManySymbolicLinkLevels where operation == .move: .symbolicLink
                case .isDirectory, .noSuchAddressOrDevice: .notRegular
                default: .unreadable
                }
            // The failed call may have had a part of the path only.
            var error = error
            error.path = path
            throw failure(problem, error)
        }
    }
}

/// The default implementations of ``FileStoring`` for `copy` and `move`, built on `save`.
extension ExternalSource {
    /// Reads the whole content of the source of a copy.
    static func read(_ url: URL, key: String) async throws -> Data {
        try await SourceContent.copying(url, key: key) { try await $0.readUnchanged() }
    }

    /// Moves a file by reading it, saving it with `save`, and removing it.
    static func move(_ url: URL, key: String, save: (Data) async throws -> Void) async throws {
        try await SourceContent.moving(url, key: key) { try await save($0.readUnchanged()) }
    }
}

/// The open file of an ``ExternalSource`` and its open parent directory; `deinit` closes both.
final class OpenSource: Sendable {
    let origin: ExternalSource
    let file: Descriptor
    /// The status of the file when it was opened.
    let status: FileStatus
    let directory: Descriptor
    let name: POSIXPath

    init(
        origin: ExternalSource, file: Descriptor, status: FileStatus, directory: Descriptor, name: POSIXPath
    ) {
        self.origin = origin
        self.file = file
        self.status = status
        self.directory = directory
        self.name = name
    }

    deinit {
        origin.fileSystem.discard(file)
        origin.fileSystem.discard(directory)
    }

    /// Throws `.changed` if another program wrote to the file since it was opened.
    func checkUnchanged() throws(FileStoreError) {
        try checkUnchanged(since: status)
    }

    /// Throws `.changed` if another program wrote to the file since it had this status.
    func checkUnchanged(since earlier: FileStatus) throws(FileStoreError) {
        let now: FileStatus
        do {
            now = try origin.fileSystem.status(of: .descriptor(file))
        } catch {
            throw origin.failure(.unreadable, error)
        }
        // Replacing another hard link of the file changes its status time too.
        guard now.sizeInBytes == earlier.sizeInBytes, now.modified == earlier.modified,
            now.changed == earlier.changed || now.linkCount != earlier.linkCount
        else { throw origin.failure(.changed, nil) }
    }

    /// Appends up to `limit` bytes to a buffer, until it is full or the file ends.
    func read(into buffer: inout OutputRawSpan, upTo limit: Int, at offset: Int64) throws(FileStoreError) {
        do {
            _ = try origin.fileSystem.readFully(file, into: &buffer, upTo: limit, at: offset)
        } catch {
            throw origin.failure(.unreadable, error)
        }
    }

    func readContents() throws(FileStoreError) -> Data {
        do {
            return Data(try origin.fileSystem.readContents(of: file))
        } catch {
            throw origin.failure(.unreadable, error)
        }
    }
}

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

/// The content of a file outside the store that is copied or moved into a store which reads it in parts.
package struct SourceContent: Sendable {
    private let source: OpenSource
    private let check: @Sendable () throws(FileStoreError) -> Void

    package var sizeInBytes: Int64 { source.status.sizeInBytes }

    /// Appends up to `limit` bytes to a buffer, until it is full or the file ends. Blocks the thread.
    package func read(into buffer: inout OutputRawSpan, upTo limit: Int, at offset: Int64) throws(FileStoreError) {
        try source.read(into: &buffer, upTo: limit, at: offset)
    }

    /// Reads everything.
    func readUnchanged() async throws(FileStoreError) -> Data {
        let content = try await BlockingLane.general.run { () throws(FileStoreError) in try source.readContents() }
        try check()
        return content
    }

    /// Throws `.changed` if another program has written to the file. To be called before the content is stored.
    package func checkUnchanged() throws(FileStoreError) { try check() }

    /// Calls `store` with the content of the source of a copy.
    package static func copying<Success>(
        _ url: URL, key: String, _ store: (SourceContent) async throws -> Success
    ) async throws -> Success {
        let source = try ExternalSource(url, on: SystemFileSystem(), .copy, key: key)
        let file = try await BlockingLane.general.run(within: nil) { _ in try source.open() }
        return try await store(
            SourceContent(source: file) { () throws(FileStoreError) in try file.checkUnchanged() })
    }

    /// Calls `store` with the content of the source of a move, under a private name, and removes it afterwards.
    package static func moving(
        _ url: URL, key: String, _ store: (SourceContent) async throws -> Void
    ) async throws {
        let source = try ExternalSource(url, on: SystemFileSystem(), .move, key: key)
        let (file, claim) = try await BlockingLane.general.run(within: nil) { _ in
            let file = try source.open()
            return (file, try ClaimedSource(file))
        }
        do {
            let content = SourceContent(source: file) { () throws(FileStoreError) in try claim.checkUnchanged() }
            try await store(content)
            try claim.checkUnchanged()
        } catch {
            throw claim.restore() ?? error
        }
        // The file is stored, so the move is completed even if the task is cancelled.
        try await BlockingLane.general.run { () throws(any Error) in try claim.remove() }
    }
}
