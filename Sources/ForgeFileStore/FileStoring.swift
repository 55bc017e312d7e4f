import ForgeFileSystem
public import Foundation

/// A store of files: bytes under keys such as `avatars/current.jpg`.
///
/// A key is a relative path whose components are separated by single slashes. Saving a file creates its directories; a
/// key names a file or a directory, never both. Every call but ``exists(_:)`` refuses an invalid key with
/// ``FileStoreError/Code/invalidKey(_:)``; `RelativeKey` of `ForgeFileSystem` validates keys. A call for a key below a file,
/// such as `a/b` or `a/b/c` where `a` is a file, fails with ``FileStoreError/Code/notDirectory``, and one for the content
/// of a directory with ``FileStoreError/Code/isDirectory``. Depend on `any FileStoring`; pass a ``DiskFileStore`` in the app and an
/// ``InMemoryFileStore`` in tests.
///
/// A custom store must implement only the first six requirements; the others have default implementations built on
/// them. Calls throw ``FileStoreError``, or `CancellationError` if the task was cancelled before anything was changed.
///
/// All calls may be made from any number of concurrent tasks. A load concurrent with a save of the same key returns the
/// old content or the new, never a mixture.
public protocol FileStoring: Sendable {
    /// Stores `data` as the whole content of the file at `key`, creating its directories.
    ///
    /// Atomic: a load, and a crash, see the old content or the new.
    ///
    /// - Parameters:
    ///   - data: The content.
    ///   - key: The key of the file.
    ///   - overwrite: Whether to replace an existing file. If not, the save fails with
    ///     ``FileStoreError/Code/alreadyExists``; of many concurrent saves exactly one succeeds.
    /// - Throws: ``FileStoreError``; the old content is kept, unless the code is
    ///   ``FileStoreError/Code/durabilityUnknown``, or on a server ``FileStoreError/Code/unknownOutcome``. The space that a
    ///   failed save has taken is free again.
    func save(_ data: Data, to key: String, overwrite: Bool) async throws

    /// The whole content of the file at `key`.
    ///
    /// ``FileStoreError/Code/notFound`` means that there is no such file; a file that cannot be read is another error.
    func load(_ key: String) async throws -> Data

    /// Whether there is a file or a directory at `key`.
    ///
    /// Also `false` if the store cannot be read or the key is invalid; ``info(_:)`` throws a different error in each
    /// case. ``DiskFileStore`` and ``InMemoryFileStore`` implement it synchronously: calling them needs no `await`.
    func exists(_ key: String) async -> Bool

    /// Removes the file at `key`; ``FileStoreError/Code/notFound`` if there is none.
    func delete(_ key: String) async throws

    /// Lists the directory at `directory`, one level deep and in no particular order; `""` is the root directory.
    ///
    /// Throws ``FileStoreError/Code/notFound`` if there is no such directory; the root is empty until it exists.
    func list(in directory: String) async throws -> [StoredFile]

    /// Removes all files and directories of the store. Not atomic: if it throws, some of them may be removed.
    ///
    /// This includes files of other programs whose paths are valid keys. The stores of this package remove each entry
    /// of the root atomically: after a crash, all or nothing of a directory is visible, and the next store that writes
    /// completes the removal. A directory that contains files of other programs is emptied file by file instead.
    /// Entries that cannot be removed do not prevent the removal of others; the error is that of the first, and the
    /// underlying error has its path.
    func deleteAll() async throws

    /// The sum of the sizes of all files, in bytes of content.
    ///
    /// ``DiskFileStore`` lists a directory only if it has changed since the last call, through whichever process. A
    /// file that another program writes in place is counted with its new size once its directory changes.
    func totalSize() async throws -> Int64

    /// The metadata of the file or directory at `key`.
    func info(_ key: String) async throws -> StoredFile

    /// Lists the directory at `directory`; with `recursive`, on all levels, each directory before its content.
    ///
    /// The default implementation calls ``list(in:)`` for each directory. It throws ``FileStoreError/Code/unavailable(_:)``
    /// if that returns an entry that is not a child of the directory.
    func list(in directory: String, recursive: Bool) async throws -> [StoredFile]

    /// Copies the file at `source` to `key`; otherwise like ``save(_:to:overwrite:)``.
    ///
    /// The stores of this package copy in pieces; on Linux the kernel copies, or lets both files share their blocks,
    /// where the file system can. Holes stay holes. The default implementation reads the whole file into memory.
    ///
    /// A symbolic link at `source` is followed. A source that is not a regular file is refused with
    /// ``FileStoreError/Code/invalidSource(_:)``. If its size, modification time or change time differs after the copy,
    /// because another program changed it meanwhile, the copy fails with ``FileStoreError/SourceProblem/changed``, and
    /// nothing is stored. The stores of this package copy the content only, not the attributes that a store has given
    /// the source (``StreamingFileStoring/save(_:to:if:durability:attributes:)``).
    func copy(from source: URL, to key: String, overwrite: Bool) async throws

    /// Moves the file at `source` to `key`; otherwise as ``save(_:to:overwrite:)``.
    ///
    /// The source is removed only after the stored file is at least as durable as a saved one. If the call throws, the
    /// source still exists, unless the error is ``FileStoreError/Code/durabilityUnknown``. A symbolic link at `source`
    /// is refused, because the move would rename the link, not its target.
    ///
    /// The stores of this package keep the attributes of a file that a store has saved with some
    /// (``StreamingFileStoring/save(_:to:if:durability:attributes:)``), also if it must be copied; if the file system
    /// of the store has no attributes then, the move fails with ``FileStoreError/Code/unsupported``.
    ///
    /// The move first renames the source to a private name, so that other programs cannot reach it by its own name. The
    /// private name is in the root of a ``DiskFileStore`` if the source can be renamed into the store, and beside the
    /// source if it must be copied, for example from another device. If another program has replaced the source before
    /// that, the replacement is renamed back, and the move fails with ``FileStoreError/SourceProblem/changed``. If a
    /// file cannot be renamed back, for example because the name is taken again, it keeps the private name, and the
    /// move fails with ``FileStoreError/SourceProblem/notRestored``, whose underlying error has the path. If the
    /// process is killed during the move, the source keeps its private name.
    ///
    /// Another program may have the source open and write to it while the move copies it. The move then fails with
    /// ``FileStoreError/SourceProblem/changed`` too; writes between the last check and the removal are lost. If the
    /// source is renamed into the store instead, such a program can still write to the stored file, also after the
    /// move; ``copy(from:to:overwrite:)`` prevents that.
    func move(from source: URL, to key: String, overwrite: Bool) async throws

    /// The URL at which other code, such as a video player, can read the file at `key`; the file need not exist.
    ///
    /// The promises of the store do not cover writes to this URL. Throws ``FileStoreError/Code/unsupported`` if the
    /// store's files have no URL.
    func url(for key: String) async throws -> URL

    /// Creates a directory and its missing parents; succeeds if the directory exists.
    func createDirectory(_ key: String) async throws

    /// Removes the directory at `key` with its whole tree; ``FileStoreError/Code/notFound`` if there is none.
    ///
    /// The stores of this package remove the directory atomically, by a rename; if a crash interrupts the removal of
    /// the files, the next store that writes completes it. If a file cannot be removed, for example because it is
    /// immutable, the call throws, and the directory has its name again, with the files that are left. The default
    /// implementation removes the files one by one.
    func deleteDirectory(_ key: String) async throws
}

extension FileStoring {
    /// Stores `data` as the whole content of the file at `key`, replacing an existing file.
    public func save(_ data: Data, to key: String) async throws {
        try await save(data, to: key, overwrite: true)
    }

    /// Lists the root directory; with `recursive`, on all levels.
    public func list(recursive: Bool = false) async throws -> [StoredFile] {
        try await list(in: "", recursive: recursive)
    }

    /// Stores a copy of the file at `source`, replacing an existing file.
    public func copy(from source: URL, to key: String) async throws {
        try await copy(from: source, to: key, overwrite: true)
    }

    /// Moves the file at `source` into the store, replacing an existing file.
    public func move(from source: URL, to key: String) async throws {
        try await move(from: source, to: key, overwrite: true)
    }

    /// The size of the file at `key`, in bytes of content; ``FileStoreError/Code/isDirectory`` for a directory.
    public func size(_ key: String) async throws -> Int64 {
        let info = try await info(key)
        guard !info.isDirectory else { throw FileStoreError(.isDirectory, .info, key: key) }
        return info.sizeInBytes
    }
}

/// Default implementations, built on the required calls.
extension FileStoring {
    public func totalSize() async throws -> Int64 {
        try await list(in: "", recursive: true).totalSizeInBytes
    }

    public func info(_ key: String) async throws -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .info)
        let siblings: [StoredFile]
        do {
            siblings = try await list(in: checked.parent)
        } catch let error as FileStoreError {
            throw FileStoreError(error.code, .info, key: key, underlying: error.underlying)
        }
        guard let found = siblings.first(where: { $0.key.utf8.elementsEqual(key.utf8) }) else {
            throw FileStoreError(.notFound, .info, key: key)
        }
        return found
    }

    public func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        var found = try await list(in: directory)
        guard recursive else { return found }
        try check(found, listedIn: directory)
        var next = 0
        while next < found.count {
            let file = found[next]
            next += 1
            guard file.isDirectory else { continue }
            let children = try await list(in: file.key)
            try check(children, listedIn: file.key)
            found += children
        }
        return found
    }

    /// Refuses a list that has other entries than children, such as the directory itself: following them never ends.
    private func check(_ files: [StoredFile], listedIn directory: String) throws {
        let prefix = Array(directory.utf8) + (directory.isEmpty ? [] : [UInt8(ascii: "/")])
        for file in files {
            let key = Array(file.key.utf8)
            let isChild =
                key.count > prefix.count && key.starts(with: prefix)
                && !key[prefix.count...].contains(UInt8(ascii: "/"))
            guard isChild else {
                throw FileStoreError(
                    .unavailable(.inputOutput), .list, key: file.key, underlying: NotAChild(directory: directory))
            }
        }
    }

    /// Reads the whole source into memory and saves it.
    public func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        _ = try RelativeKey(checking: key, for: .copy)
        try await save(ExternalSource.read(source, key: key), to: key, overwrite: overwrite)
    }

    /// Renames the source to a private name, reads it into memory, saves it and removes the source.
    public func move(from source: URL, to key: String, overwrite: Bool) async throws {
        _ = try RelativeKey(checking: key, for: .move)
        try await ExternalSource.move(source, key: key) { content in
            try await save(content, to: key, overwrite: overwrite)
        }
    }

    public func url(for key: String) async throws -> URL {
        _ = try RelativeKey(checking: key, for: .url)
        throw FileStoreError(.unsupported, .url, key: key)
    }

    /// Only validates the key: such a store has a directory as soon as there is a file in it.
    public func createDirectory(_ key: String) async throws {
        _ = try RelativeKey(checking: key, for: .createDirectory)
    }

    public func deleteDirectory(_ key: String) async throws {
        _ = try RelativeKey(checking: key, for: .deleteDirectory)
        for file in try await list(in: key, recursive: true) where !file.isDirectory {
            try await delete(file.key)
        }
    }
}

/// A store has listed a key in a directory of which it is no child.
private struct NotAChild: FileStoreCause {
    var directory: String

    var description: String { "listed in \(POSIXPath(String(directory.prefix(200)))), but not a child of it" }
}

/// Codable values as JSON files.
extension FileStoring {
    /// Stores a value as a JSON file.
    ///
    /// - Throws: ``FileStoreError`` with ``FileStoreError/Code/unencodable`` if the value cannot be encoded as JSON;
    ///   nothing was stored. Otherwise as ``save(_:to:overwrite:)``.
    public func saveJSON<Value: Encodable>(
        _ value: Value, to key: String, overwrite: Bool = true, encoder: JSONEncoder = JSONEncoder()
    ) async throws {
        let data: Data
        do {
            data = try encoder.encode(value)
        } catch {
            throw FileStoreError(.unencodable, .save, key: key, underlying: error)
        }
        try await save(data, to: key, overwrite: overwrite)
    }

    /// The value in a JSON file.
    ///
    /// - Throws: ``FileStoreError`` with ``FileStoreError/Code/undecodable`` if the file does not contain such a value;
    ///   the `DecodingError` is its underlying error, and the file is unchanged. Otherwise as ``load(_:)``.
    public func loadJSON<Value: Decodable>(
        _ key: String, as type: Value.Type = Value.self, decoder: JSONDecoder = JSONDecoder()
    ) async throws -> Value {
        let data = try await load(key)
        do {
            return try decoder.decode(type, from: data)
        } catch {
            throw FileStoreError(.undecodable, .load, key: key, underlying: error)
        }
    }

    /// The value in a JSON file, or nil if there is no such file.
    ///
    /// Nil means only ``FileStoreError/Code/notFound``: a file that cannot be read or decoded is an error.
    public func loadJSONIfExists<Value: Decodable>(
        _ key: String, as type: Value.Type = Value.self, decoder: JSONDecoder = JSONDecoder()
    ) async throws -> Value? {
        do {
            return try await loadJSON(key, as: type, decoder: decoder)
        } catch let error as FileStoreError where error.code == .notFound {
            return nil
        }
    }
}

/// A call of a Codable storage, declared unavailable so that the compiler suggests the right one.
extension FileStoring {
    @available(*, unavailable, message: "a file store is written with save(data, to: key)")
    public func save(_ data: Data, for key: String) async throws { fatalError("unavailable") }
}
