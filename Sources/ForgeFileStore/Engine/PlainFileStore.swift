public import ForgeFileSystem
public import Foundation
import SystemPackage

/// A store of plain files below one directory of a `POSIXFileSystem`: what ``DiskFileStore`` and ``InMemoryFileStore``
/// have in common.
///
/// The first call that needs the root opens it; if that fails, the next call tries again. So a store that is created
/// while the device is locked works once the device is unlocked.
///
/// `@unchecked Sendable`, because it has subclasses: they and it have only constants that are `Sendable`.
public class PlainFileStore: StreamingFileStoring, @unchecked Sendable {
    /// The root, the file systems and the options of a store.
    struct Configuration: Sendable {
        var root: Result<POSIXPath, FileStoreError>
        var fileSystem: any POSIXFileSystem
        /// The file system of the URLs of copies, moves and exports; nil for ``fileSystem``.
        var sources: (any POSIXFileSystem)?
        var fileProtection: FileProtection?
        var options: FileStoreOptions
        /// Whether keys have URLs, and calls may wait for a device and must therefore not run on the caller's thread.
        var isOnDisk = true
    }

    let configuration: Configuration
    let location: Result<LazyStoreDirectory, FileStoreError>
    let totals = TreeTotals()

    init(_ configuration: Configuration) {
        self.configuration = configuration
        // A longer wait for a turn needs no thread.
        let turnPatience = configuration.isOnDisk ? Duration.milliseconds(1) : .zero
        location = configuration.root.map { path in
            LazyStoreDirectory(path, of: .files, on: configuration.fileSystem, turnPatience: turnPatience) {
                (path) throws(FileSystemError) in
                try configuration.fileProtection?.apply(to: path, on: configuration.fileSystem)
                if configuration.options.isExcludedFromBackup {
                    try configuration.fileSystem.excludeFromBackup(path)
                }
            }
        }
    }

    var disk: any POSIXFileSystem { configuration.fileSystem }
    var durability: Durability { configuration.options.durability }
}

// MARK: The root

extension PlainFileStore {
    /// Creates the root if it is missing, and removes the recorded temporary files of processes that have ended.
    func openRoot() throws(FileStoreError) {
        let root = try location.get()
        do {
            _ = try root.forWriting()
        } catch {
            throw FileStoreError(opening: error, .open, key: "")
        }
    }

    /// Calls `body` with the root directory; returns nil if the root does not exist, and does not create it.
    func attemptIfExists<Result: ~Copyable>(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result? {
        let root = try location.get()
        let directory: StoreDirectory
        do {
            guard let existing = try root.existing() else { return nil }
            directory = existing
        } catch {
            throw FileStoreError(opening: error, operation, key: key)
        }
        do {
            return try body(directory)
        } catch {
            throw FileStoreError(error, operation, key: key)
        }
    }

    /// Like `attemptIfExists`, but throws `.notFound` if the root does not exist.
    func attempt<Result: ~Copyable>(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result {
        guard let result = try attemptIfExists(operation, key, body) else {
            throw FileStoreError(.notFound, operation, key: key)
        }
        return result
    }

    /// Like `attempt`, but creates a missing root, such as a cache directory that the system has removed.
    /// The operation and key of an error are evaluated after the failure.
    func attemptStoring<Result>(
        _ operation: @autoclosure () -> FileStoreError.Operation, _ key: @autoclosure () -> String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result {
        let root = try location.get()
        var opened: StoreDirectory?
        do {
            return try root.write { (directory) throws(FileSystemError) in
                opened = directory
                return try body(directory)
            }
        } catch {
            guard opened != nil else { throw FileStoreError(opening: error, operation(), key: key()) }
            throw FileStoreError(error, operation(), key: key())
        }
    }
}

// MARK: Threads and deadlines

extension PlainFileStore {
    private var lane: BlockingLane {
        switch location {
        case .success(let root): root.lane
        case .failure: .general  // Not used.
        }
    }

    /// Whether calls can wait for a device; without a root they fail before they reach one.
    private var isOnDevice: Bool {
        switch location {
        case .success: configuration.isOnDisk
        case .failure: false
        }
    }

    /// Runs `body` on a thread of the root's lane if calls can wait for a device, otherwise on the caller's.
    ///
    /// If another process has the turn for a change, `body` ends without it and is called again later; no thread waits.
    /// So `body` must keep what it need not do again.
    ///
    /// - Parameters:
    ///   - operation: The operation for errors.
    ///   - key: The key for errors.
    ///   - kept: Files that `body` keeps for its next call; they are removed if there is none.
    ///   - body: The call. It checks for cancellation before it changes anything, and tells its argument of work that
    ///     takes long without waiting.
    /// - Returns: The result of `body`.
    /// - Throws: ``FileStoreError/Code/deadlineExceeded(_:)``; `CancellationError`; the errors of `body`.
    nonisolated(nonsending) func run<Result: Sendable>(
        _ operation: FileStoreError.Operation, _ key: String, keeping kept: [PendingFile] = [],
        _ body: @escaping @Sendable (Cancellation) throws -> Result
    ) async throws -> Result {
        let attempt: @Sendable (Cancellation) throws -> Result = { cancellation in
            do {
                return try body(cancellation)
            } catch {
                throw Self.endOfAttempt(error, keeping: kept)
            }
        }
        do {
            if !isOnDevice {
                try Task.checkCancellation()
                do { return try attempt(Cancellation()) } catch is BlockingLane.Occupied {}  // Waits in the lane.
            }
            return try await lane.run(within: configuration.options.deadline, attempt)
        } catch {
            let (answer, isOver) = Self.answer(error, operation, key)
            if isOver { await discard(kept) }
            throw answer
        }
    }

    /// The error that an attempt throws to the lane.
    private static func endOfAttempt(_ error: any Error, keeping kept: [PendingFile]) -> any Error {
        guard let cause = (error as? FileStoreError)?.underlying as? FileSystemError else { return error }
        guard !cause.isCancelledWork else { return CancellationError() }
        guard cause.isTakenTurn, let directory = cause.path else { return error }
        return BlockingLane.Occupied(directory, cause) { for file in kept { file.discard() } }
    }

    /// The error of a call, and whether its work is over; work that goes on after its deadline removes its files itself.
    ///
    /// Never inlined: the storage of an asynchronous function's values is kept while its task waits.
    @inline(never)
    private static func answer(
        _ error: any Error, _ operation: FileStoreError.Operation, _ key: String
    ) -> (any Error, isOver: Bool) {
        guard let error = error as? BlockingLane.DeadlineExceeded else { return (error, true) }
        switch error.awaited {
        case .body:
            return (FileStoreError(.deadlineExceeded(.device), operation, key: key), false)
        case .occupied(let cause):
            let error = FileStoreError(.deadlineExceeded(.directoryLock), operation, key: key, underlying: cause)
            return (error, true)
        case .thread:
            return (FileStoreError(.deadlineExceeded(.thread), operation, key: key), true)
        }
    }

    /// Removes the files of a call that has failed, and waits for that a little: neither a cancelled call nor one past
    /// its deadline may wait for a device that does not answer.
    nonisolated(nonsending) private func discard(_ files: [PendingFile]) async {
        guard files.contains(where: { !$0.isEmpty }) else { return }
        let discard: @Sendable () -> Void = { for file in files { file.discard() } }
        guard isOnDevice else { return discard() }
        // The task of the caller may be cancelled.
        await Task.detached { [lane] in
            do {
                try await lane.run(within: Self.patienceOfRemoval) { _ in discard() }
            } catch {
                Task.detached { await lane.run(discard) }
            }
        }.value
    }

    private static let patienceOfRemoval: Duration = .milliseconds(100)

    /// Runs work that must be done even if the task is cancelled.
    nonisolated(nonsending) func runUncancelled(_ body: @escaping @Sendable () -> Void) async {
        guard isOnDevice else { return body() }
        await lane.run(body)
    }
}

extension FileSystemError {
    /// The error of work that a cancellation or a deadline has ended before it changed anything.
    static let cancelledWork = FileSystemError(.write, .canceled)

    fileprivate var isCancelledWork: Bool { operation == .write && errno == .canceled }
}

// MARK: Saving

/// Saves in two steps: the content is written under a temporary name, and the file is renamed to its key later.
extension PlainFileStore {
    nonisolated(nonsending) public func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        _ = try await save(data, to: key, if: overwrite ? .always : .absent, durability: nil, attributes: [:])
    }

    @discardableResult
    nonisolated(nonsending) public func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .save)
        let attributes = try CheckedAttributes(attributes, of: key)
        let durability = durability ?? self.durability
        let pending = PendingFile()
        return try await run(.save, key, keeping: [pending]) { [self] cancellation in
            cancellation.expectWork(ofSize: Int64(data.count))
            return try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                let status = try store(pending, at: checked, condition, durability, cancellation, in: directory) {
                    (file) throws(FileSystemError) in
                    try file.write(data)
                    try file.setAttributes(attributes.values)
                }
                return StoredFile(key: key, status)
            }
        }
    }

    /// Stages a file, unless an earlier attempt did, and places it.
    func store(
        _ pending: PendingFile, at key: RelativeKey, _ condition: SaveCondition, _ durability: Durability,
        _ cancellation: Cancellation, in directory: StoreDirectory, flushesNames: Bool = true,
        content: (StagedFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> FileStatus {
        if pending.isEmpty { try directory.requireFreeTurn(of: key) }
        return try directory.save(
            pending, at: key, condition.renameMode, expecting: condition.expectedRevision, durability: durability,
            flushesNames: flushesNames,
            beforeRename: { () throws(FileSystemError) in
                guard !cancellation.isCancelled else { throw .cancelledWork }
            }, content: content)
    }
}

// MARK: Directories

/// Directories and the whole store.
extension PlainFileStore {
    nonisolated(nonsending) public func list(in directory: String) async throws -> [StoredFile] {
        try await list(in: directory, recursive: false)
    }

    nonisolated(nonsending) public func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        let checked = directory.isEmpty ? nil : try RelativeKey(checking: directory, for: .list)
        return try await run(.list, directory) { [self] cancellation in
            if recursive { cancellation.expectLongWork() }
            return try list(checked, recursive)
        }
    }

    private func list(_ key: RelativeKey?, _ recursive: Bool) throws(FileStoreError) -> [StoredFile] {
        let found = try attemptIfExists(.list, key?.string ?? "") {
            (directory) throws(FileSystemError) -> [StoredFile] in
            var found: [StoredFile] = []
            try directory.forEachEntry(of: key, isRecursive: recursive) {
                (entry, parent, name) throws(FileSystemError) in
                guard entry.path.isKey else { return }
                do throws(FileSystemError) {
                    let status = try disk.status(name, at: parent, followsSymbolicLinks: false)
                    let isForeign = try directory.isUnreadable(name, at: parent, status)
                    found.append(StoredFile(key: String(entry.path), status, isForeign: isForeign))
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return  // Removed since its name was read.
                }
            }
            return found
        }
        guard let found else {
            guard let key else { return [] }
            throw FileStoreError(.notFound, .list, key: key.string)
        }
        return found
    }

    nonisolated(nonsending) public func totalSize() async throws -> Int64 {
        try await run(.list, "") { [self] cancellation in
            cancellation.expectLongWork()
            return try attemptIfExists(.list, "") { (directory) throws(FileSystemError) in
                try totals.sizeInBytes(in: directory)
            } ?? 0
        }
    }

    nonisolated(nonsending) public func createDirectory(_ key: String) async throws {
        let checked = try RelativeKey(checking: key, for: .createDirectory)
        try await run(.createDirectory, key) { [self] _ in
            try attemptStoring(.createDirectory, key) { (directory) throws(FileSystemError) in
                try directory.makeDirectory(checked, durability: durability)
            }
        }
    }

    nonisolated(nonsending) public func deleteDirectory(_ key: String) async throws {
        let checked = try RelativeKey(checking: key, for: .deleteDirectory)
        try await run(.deleteDirectory, key) { [self] cancellation in
            cancellation.expectLongWork()
            try attempt(.deleteDirectory, key) { (directory) throws(FileSystemError) in
                try directory.removeTree(checked, durability: durability)
            }
        }
    }

    nonisolated(nonsending) public func deleteAll() async throws {
        try await run(.deleteAll, "") { [self] cancellation in
            cancellation.expectLongWork()
            _ = try attemptIfExists(.deleteAll, "") { (directory) throws(FileSystemError) in
                try directory.removeAll(durability: durability)
            }
        }
    }
}

extension RelativeKey {
    /// Validates a key for an operation of a store.
    init(checking key: String, for operation: FileStoreError.Operation) throws(FileStoreError) {
        do {
            try self.init(key)
        } catch {
            throw FileStoreError(.invalidKey(error.reason), operation, key: key, underlying: error)
        }
    }

    /// The key of the parent directory; empty for the root.
    var parent: String { String(path.splitLast().parent) }
}
