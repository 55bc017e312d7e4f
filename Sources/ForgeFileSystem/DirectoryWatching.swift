/// A watch of any number of open directories for changes of their entries (`inotify(7)`).
///
/// ``POSIXFileSystem/makeDirectoryWatch(on:onEvents:onCancel:)`` creates it. Calls must be made on its queue.
public protocol DirectoryWatching: Sendable {
    /// Starts to watch a directory, but not the directories below it.
    ///
    /// A directory is watched as such, whatever its path: a rename does not end its watch. The watch ends with its
    /// removal. Every change after this call is reported, or covered by a later ``DirectoryEvent/lost``.
    ///
    /// - Parameters:
    ///   - directory: An open directory; it may be closed immediately afterwards.
    ///   - includesWrites: Whether ``DirectoryEvent/written(_:in:)`` is reported.
    /// - Returns: The number of the directory in events; the same for a directory that is already watched, otherwise
    ///   one that is not in use and was not used by an earlier directory.
    /// - Throws: ``FileSystemError``: `ENOSPC` at the limit of watched directories; `EACCES` without the permission to
    ///   read the directory; `ENOTDIR`; `EBADF`.
    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int

    /// Starts to watch whether a directory keeps its name: its removal and its rename are reported, and changes of its
    /// entries need not be.
    ///
    /// On systems that report changes without names (`kqueue(2)`), every new name in a busy directory would otherwise
    /// be an event. By default, as ``watch(_:includesWrites:)`` without writes.
    ///
    /// - Returns: As ``watch(_:includesWrites:)``. A directory that is watched for its entries already stays so.
    /// - Throws: As ``watch(_:includesWrites:)``.
    func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int

    /// Stops watching a directory; succeeds if it is not watched. Its earlier events may still arrive.
    func unwatch(_ number: Int)

    /// Stops watching and releases all resources; may be called on any thread and more than once.
    func cancel()
}

extension DirectoryWatching {
    public func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int {
        try watch(directory, includesWrites: false)
    }
}

/// A change of an entry of a watched directory, which is identified by its number.
///
/// The events of all directories of a watch are in the order of the changes.
public enum DirectoryEvent: Hashable, Sendable {
    /// The name appeared, or leads to another file: by a creation, a link or a rename.
    case added(POSIXPath, in: Int)

    /// The name disappeared, or led to a file that was exchanged.
    case removed(POSIXPath, in: Int)

    /// A file that was open for writing was closed.
    case written(POSIXPath, in: Int)

    /// Events were lost, of any of the directories.
    case lost
}
