public import Foundation

/// A store of files: bytes under keys such as `avatars/current.jpg`.
///
/// A key is a relative path whose components are separated by single slashes. Directories come into being with the first
/// file in them; a key is a file or a directory, never both. Depend on `any FileStoring`; hand in a ``DiskFileStore``
/// in the app and an ``InMemoryFileStore`` in its tests.
///
/// A store of an app's own needs the first six calls only; everything else has a default made of them. Calls throw
/// ``FileStoreError``, and `CancellationError` if the task was cancelled before anything was changed.
///
/// All calls may come from any number of tasks at once. A load that runs together with a save of the same key gives the
/// old content or the new, never a mixture.
public protocol FileStoring: Sendable {
    /// Stores `data` as the whole content of the file at `key`, creating its directories.
    ///
    /// Atomic: a load, and a crash, see the old content or the new.
    ///
    /// - Parameters:
    ///   - data: The content.
    ///   - key: Where to store it.
    ///   - overwrite: Whether a file that exists is replaced. If not, the save fails with
    ///     ``FileStoreError/Code/alreadyExists``; of many such saves at once exactly one succeeds.
    /// - Throws: ``FileStoreError``; the old content stands, unless the code is ``FileStoreError/Code/durabilityUnknown``.
    func save(_ data: Data, to key: String, overwrite: Bool) async throws

    /// The whole content of the file at `key`.
    ///
    /// ``FileStoreError/Code/notFound`` means that there is no such file; a file that could not be read is another error.
    func load(_ key: String) async throws -> Data

    /// Whether there is a file or a directory at `key`.
    ///
    /// `false` also when the store could not look, or refuses the key. Where that difference matters, call
    /// ``info(_:)`` and look at the error. Stores on this machine answer without suspending, so no `await` is needed on them.
    func exists(_ key: String) async -> Bool

    /// Removes the file at `key`; ``FileStoreError/Code/notFound`` if there is none.
    func delete(_ key: String) async throws

    /// What the directory at `directory` holds, one level deep and in no particular order; `""` is the whole store's
    /// directory.
    func list(in directory: String) async throws -> [StoredFile]

    /// Removes everything in the store. Not atomic: if it throws, part of the files may be gone.
    func deleteAll() async throws

    /// The sum of the sizes of all files, in bytes of content.
    func totalSize() async throws -> Int64

    /// What there is to know of the file or directory at `key` without reading it.
    func info(_ key: String) async throws -> StoredFile

    /// What the directory at `directory` holds; with `recursive`, on all levels, a directory before what is in it.
    func list(in directory: String, recursive: Bool) async throws -> [StoredFile]

    /// Stores the content of the file at `source` as the file at `key`, a piece at a time; otherwise as
    /// ``save(_:to:overwrite:)``.
    ///
    /// A symbolic link at `source` is followed. A source that is no regular file is refused with
    /// ``FileStoreError/Code/invalidSource(_:)``.
    func copy(from source: URL, to key: String, overwrite: Bool) async throws

    /// Moves the file at `source` to `key`; otherwise as ``save(_:to:overwrite:)``.
    ///
    /// The source is removed only after the file is as durable as the store ever makes it; if the call throws, the source
    /// is still there, unless the error is ``FileStoreError/Code/durabilityUnknown``. A symbolic link at `source` is
    /// refused: it is not the file that would be moved.
    ///
    /// During the move the source has a private name: in the root of a ``DiskFileStore`` if it can be renamed into the
    /// store, otherwise, such as on another device, beside its own, to be copied. What another program puts under the
    /// source's name is not stored: a move that meets it fails with ``FileStoreError/SourceProblem/changed``, and it has its
    /// name again. Only if yet another file has taken the name by then does the private name stay, which
    /// ``FileStoreError/SourceProblem/notRestored`` gives. A process that is killed during the move leaves the source under
    /// its private name.
    ///
    /// If a program that has the source open changes it during a copy, the move fails with
    /// ``FileStoreError/SourceProblem/changed`` too; what such a program writes between the last check and the removal is
    /// lost.
    func move(from source: URL, to key: String, overwrite: Bool) async throws

    /// Where other code, such as a player of videos, can read the file at `key`, whether or not there is one yet.
    ///
    /// The store keeps its promises only for what is written through it. ``FileStoreError/Code/unsupported`` where files
    /// have no URL.
    func url(for key: String) async throws -> URL

    /// Creates a directory and its parents; one that exists already is a success.
    func createDirectory(_ key: String) async throws

    /// Removes the directory at `key` and all it holds.
    ///
    /// On disk the directory vanishes at once; other stores may remove one file after the other.
    func deleteDirectory(_ key: String) async throws
}

extension FileStoring {
    /// Stores `data` as the whole content of the file at `key`, replacing a file that exists.
    public func save(_ data: Data, to key: String) async throws {
        try await save(data, to: key, overwrite: true)
    }

    /// What the store's own directory holds; with `recursive`, on all levels.
    public func list(recursive: Bool = false) async throws -> [StoredFile] {
        try await list(in: "", recursive: recursive)
    }

    /// Stores a copy of the file at `source`, replacing a file that exists.
    public func copy(from source: URL, to key: String) async throws {
        try await copy(from: source, to: key, overwrite: true)
    }

    /// Moves the file at `source` into the store, replacing a file that exists.
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
