public import ForgeFileSystem
public import Foundation

/// A file store that also reads and writes files in parts, replaces a file only if it is unchanged, saves many files
/// with few flushes, and lists trees of any size.
///
/// ``DiskFileStore`` and ``InMemoryFileStore`` conform. Calls throw ``FileStoreError``, or `CancellationError` if the
/// task was cancelled before anything was changed.
public protocol StreamingFileStoring: FileStoring {
    associatedtype Reader: FileReading
    associatedtype Writer: FileWriting

    /// Stores `data` as the whole content of the file at `key`, with attributes, if the existing file meets a
    /// condition.
    ///
    /// Attributes are small texts that belong to the content, such as its media type or where it came from: they are
    /// stored and replaced with it atomically, and a save without attributes, such as
    /// ``FileStoring/save(_:to:overwrite:)``, leaves none. A name has 1 to 64 bytes of `a`–`z`, `0`–`9`, `-`, `_` and
    /// `.`, and begins with a letter or a digit. All names and values together have at most 2,048 bytes in UTF-8; there
    /// are at most 50. Other users and programs that can read the file can read them.
    ///
    /// Atomic like ``FileStoring/save(_:to:overwrite:)``. Of several concurrent saves that expect the same revision, in
    /// all processes, exactly one succeeds, and none replaces what a save without a condition has stored since. For
    /// that, stores lock the directory while they rename a file or delete one (`flock(2)`). Where directories cannot be
    /// locked, as on some network file systems, a save without a condition at the same time may be replaced.
    ///
    /// - Parameters:
    ///   - data: The content.
    ///   - key: The key of the file.
    ///   - condition: The existing file that may be replaced.
    ///   - durability: The durability of this save; nil for that of the store.
    ///   - attributes: The attributes of the file.
    /// - Returns: The stored file, with its revision.
    /// - Throws: ``FileStoreError``; ``FileStoreError/Code/invalidAttribute(_:)`` before any change,
    ///   ``FileStoreError/Code/unsupported`` if there are attributes and the file system cannot store them;
    ///   ``FileStoreError/Code/conflict`` or ``FileStoreError/Code/alreadyExists`` if the
    ///   condition is not met, ``FileStoreError/Code/deadlineExceeded(_:)`` if another program locks the directory until
    ///   ``FileStoreOptions/deadline``. The old content is kept, unless the code is ``FileStoreError/Code/durabilityUnknown``.
    @discardableResult
    func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile

    /// Performs the changes of a batch in their order.
    ///
    /// All files of up to 64 saves are written and flushed under temporary names before the first of them is renamed to
    /// its key, and every directory is flushed once at the end, so a batch takes a fraction of the time of single
    /// saves. Only after the call are the changes durable. The directories of the keys are created first, so a batch
    /// cannot use a name both for a file and for a directory.
    ///
    /// - Parameters:
    ///   - batch: The changes.
    ///   - durability: The durability of the changes; nil for that of the store.
    /// - Throws: ``FileStoreError`` with the key of the change that failed: the changes before it may be made, those
    ///   after it are not. An invalid key or attribute is found before any change.
    func apply(_ batch: FileBatch, durability: Durability?) async throws

    /// Opens the file at `key` for reading in parts.
    ///
    /// The reader sees the content as it is now, also after the file was replaced or deleted.
    func reader(for key: String) async throws -> Reader

    /// Creates a file that is written in parts and appears at `key` when it is committed.
    ///
    /// Until then the old file is unchanged. Memory use is constant. The directories of the key are created at once. A
    /// writer that is cancelled or released leaves no file; that of a killed process is removed by the next store that
    /// writes.
    ///
    /// - Parameters:
    ///   - key: The key of the file.
    ///   - condition: The existing file that may be replaced, checked by the commit.
    ///   - durability: The durability of the file; nil for that of the store.
    ///   - attributes: The attributes of the file; see ``save(_:to:if:durability:attributes:)``.
    /// - Returns: The writer.
    /// - Throws: ``FileStoreError``; the old file is unchanged.
    func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> Writer

    /// Copies the file at `source` to `key` and reports the progress; otherwise as
    /// ``FileStoring/copy(from:to:overwrite:)``. The copy has no attributes.
    ///
    /// - Parameters:
    ///   - source: The URL of the file.
    ///   - key: The key of the copy.
    ///   - overwrite: Whether to replace an existing file; see ``FileStoring/save(_:to:overwrite:)``.
    ///   - progress: Gets the size of the source in bytes as its total, and the number of bytes copied, from the thread
    ///     that copies. Cancelling it cancels the copy, as cancelling the task does.
    /// - Throws: ``FileStoreError``, or `CancellationError`; nothing is stored, unless the code is
    ///   ``FileStoreError/Code/durabilityUnknown``.
    func copy(from source: URL, to key: String, overwrite: Bool, progress: Progress?) async throws

    /// Writes a copy of the content of the file at `key` to a URL outside the store, readable by its owner only.
    ///
    /// Atomic: there is the old file or the new one at the URL, also after a crash as far as the durability of the
    /// store says. The copy is written to a temporary file beside the destination, whose name begins with `#tmp-`, and
    /// renamed. If the process is killed before that, the temporary file remains. A symbolic link at the URL is not
    /// followed; with `overwrite` it is replaced itself. A file that is replaced or deleted in the store meanwhile is
    /// exported as it was when the call began. Attributes are not exported.
    ///
    /// - Parameters:
    ///   - key: The key of the file.
    ///   - destination: The URL of the copy; its directory must exist.
    ///   - overwrite: Whether to replace a regular file or a link at the URL. If not, the export fails with
    ///     ``FileStoreError/Code/alreadyExists``; of many concurrent ones exactly one succeeds.
    ///   - progress: Gets the size of the file in bytes as its total, and the number of bytes copied, from the thread
    ///     that copies. Cancelling it cancels the export, as cancelling the task does.
    /// - Throws: `CancellationError`, or ``FileStoreError``: ``FileStoreError/Code/invalidDestination(_:)``,
    ///   ``FileStoreError/Code/conflict`` if another program wrote to the file meanwhile. An underlying error with the
    ///   path of the destination says that the problem is there. Nothing is changed and nothing is left behind, unless
    ///   the code is ``FileStoreError/Code/durabilityUnknown``.
    func export(_ key: String, to destination: URL, overwrite: Bool, progress: Progress?) async throws

    /// The files and directories below a directory, read page by page; `""` is the root directory.
    ///
    /// A file that is added or removed meanwhile may be included or not; every other one is included exactly once.
    /// Memory use is that of the names in the directories on the current path.
    func files(in directory: String, _ options: FileListingOptions) -> FileListing

    /// The changes of the files in a directory, on all levels, by this process and by others; `""` is the root
    /// directory.
    ///
    /// The directory, and the root, need not exist; they are not created. See ``FileChanges`` for what is reported. The
    /// default implementation throws ``FileStoreError/Code/unsupported``.
    ///
    /// - Parameter directory: The key of a directory, or of a file, to watch that alone.
    /// - Returns: The changes. The first is ``FileChange/resync``, as soon as the files are watched. Iterating throws
    ///   ``FileStoreError``: ``FileStoreError/Code/watchLimit`` if the system permits no further watch,
    ///   ``FileStoreError/Code/unsupported`` if the file system cannot watch; the sequence then ends.
    func changes(in directory: String) -> FileChanges
}

extension StreamingFileStoring {
    /// Stores `data` without attributes; see ``save(_:to:if:durability:attributes:)``.
    @discardableResult
    public func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?
    ) async throws -> StoredFile {
        try await save(data, to: key, if: condition, durability: durability, attributes: [:])
    }

    /// Stores `data` with attributes, replacing an existing file; see ``save(_:to:if:durability:attributes:)``.
    @discardableResult
    public func save(
        _ data: Data, to key: String, attributes: [String: String]
    ) async throws -> StoredFile {
        try await save(data, to: key, if: .always, durability: nil, attributes: attributes)
    }

    /// The attributes that were stored with the file at `key`; empty if there are none.
    ///
    /// To get content and attributes of the same save, use a ``reader(for:)`` for both.
    ///
    /// - Throws: ``FileStoreError``, or `CancellationError`; ``FileStoreError/Code/notFound`` if there is no such file.
    nonisolated(nonsending) public func attributes(of key: String) async throws -> [String: String] {
        try await reader(for: key).attributes()
    }

    /// Stores `data` if the existing file meets a condition, with the durability of the store.
    @discardableResult
    public func save(_ data: Data, to key: String, if condition: SaveCondition) async throws -> StoredFile {
        try await save(data, to: key, if: condition, durability: nil)
    }

    /// Stores `data`, replacing an existing file, with a durability of its own.
    @discardableResult
    public func save(_ data: Data, to key: String, durability: Durability) async throws -> StoredFile {
        try await save(data, to: key, if: .always, durability: durability)
    }

    /// Performs the changes that `body` adds to a batch; see ``apply(_:durability:)``.
    nonisolated(nonsending) public func batch(
        durability: Durability? = nil, _ body: (inout FileBatch) throws -> Void
    ) async throws {
        var batch = FileBatch()
        try body(&batch)
        try await apply(batch, durability: durability)
    }

    /// Replaces the content of the file at `key` by the result of `change`, which is called again if the file was
    /// replaced meanwhile, by any process, at most 10,000 times, and must not write the file itself. The new file has no
    /// attributes.
    ///
    /// - Parameters:
    ///   - key: The key of the file.
    ///   - durability: The durability of the save; nil for that of the store.
    ///   - change: Gets the current content, nil if there is no file, and returns the new one.
    /// - Returns: The stored file.
    /// - Throws: The error of `change`; ``FileStoreError/Code/conflict`` if the file has changed during every run;
    ///   otherwise as ``save(_:to:if:durability:)``.
    @discardableResult
    nonisolated(nonsending) public func update(
        _ key: String, durability: Durability? = nil, _ change: (Data?) throws -> Data
    ) async throws -> StoredFile {
        // Far more than concurrent writers need: each of their conflicts means that another one has succeeded.
        try await update(key, durability: durability, runLimit: 10_000, change)
    }

    @discardableResult
    nonisolated(nonsending) package func update(
        _ key: String, durability: Durability?, runLimit: Int, _ change: (Data?) throws -> Data
    ) async throws -> StoredFile {
        for _ in 0..<runLimit {
            var current: Reader?
            do {
                current = try await reader(for: key)
            } catch let error as FileStoreError where error.code == .notFound {
                current = nil
            }
            let new = try change(await current?.readAll())
            do {
                let condition = current.map { $0.file.revision.map(SaveCondition.unchanged) ?? .always } ?? .absent
                return try await save(new, to: key, if: condition, durability: durability)
            } catch let error as FileStoreError where error.code == .conflict || error.code == .alreadyExists {
                try Task.checkCancellation()
            }
        }
        throw FileStoreError(.conflict, .save, key: key, underlying: EndlessUpdate(runCount: runLimit))
    }

    /// Creates a file that is written in parts, replacing an existing one when it is committed.
    public func writer(for key: String) async throws -> Writer {
        try await writer(for: key, if: .always, durability: nil)
    }

    /// Creates a file without attributes that is written in parts; see ``writer(for:if:durability:attributes:)``.
    public func writer(
        for key: String, if condition: SaveCondition, durability: Durability?
    ) async throws -> Writer {
        try await writer(for: key, if: condition, durability: durability, attributes: [:])
    }

    /// Calls `body` with a writer, and commits the file when it returns; if it throws, nothing is stored.
    @discardableResult
    nonisolated(nonsending) public func write(
        to key: String, if condition: SaveCondition = .always, durability: Durability? = nil,
        attributes: [String: String] = [:], _ body: nonisolated(nonsending) (Writer) async throws -> Void
    ) async throws -> StoredFile {
        let writer = try await writer(for: key, if: condition, durability: durability, attributes: attributes)
        do {
            try await body(writer)
            return try await writer.commit()
        } catch {
            await writer.cancel()
            throw error
        }
    }

    /// Stores a copy of the file at `source`, replacing an existing file, and reports the progress.
    public func copy(from source: URL, to key: String, progress: Progress?) async throws {
        try await copy(from: source, to: key, overwrite: true, progress: progress)
    }

    /// Writes a copy of the file at `key` to a URL outside the store; see ``export(_:to:overwrite:progress:)``.
    public func export(_ key: String, to destination: URL, overwrite: Bool = false) async throws {
        try await export(key, to: destination, overwrite: overwrite, progress: nil)
    }

    /// Writes a copy of the file at `key` to a URL where there is no file, and reports the progress.
    public func export(_ key: String, to destination: URL, progress: Progress?) async throws {
        try await export(key, to: destination, overwrite: false, progress: progress)
    }

    /// All files and directories of the store, read page by page.
    public func files() -> FileListing {
        files(in: "", FileListingOptions())
    }

    /// The changes of all files of the store.
    public func changes() -> FileChanges {
        changes(in: "")
    }

    public func changes(in directory: String) -> FileChanges {
        FileChanges {
            var hasEnded = false
            return {
                guard !hasEnded else { return nil }
                hasEnded = true
                throw FileStoreError(.unsupported, .watch, key: directory)
            }
        }
    }
}

/// The cause of a conflict in an update whose closure has run as often as it may.
private struct EndlessUpdate: FileStoreCause {
    var runCount: Int

    var description: String { "during each of \(runCount) runs of the closure, which must not write the file itself" }
}
