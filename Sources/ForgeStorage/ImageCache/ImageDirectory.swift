import Foundation

/// The directory of an image cache, with one file per image.
protocol ImageDirectory: Sendable {
    /// Creates the directory if it is missing.
    func create() throws

    /// The content of a file; nil if there is none.
    func content(of name: String) throws -> Data?

    /// Stores a file, creating the directory if it is missing.
    func store(_ content: Data, as name: String) throws

    /// Removes a file, durably if the file system can flush a directory; succeeds if the file does not exist.
    func remove(_ name: String) throws

    /// Flushes the directory, because other processes may have removed files without a flush. Does nothing if the file
    /// system cannot flush a directory.
    func synchronize() throws

    /// The names of all files, in no particular order.
    func names() throws -> [String]

    /// The size of a file; nil if there is none.
    func sizeInBytes(of name: String) throws -> Int?

    /// The files with these names, the least recently modified first if the file system knows times; without those that
    /// are missing or foreign.
    func files(_ names: [String]) throws -> [FileIndex.Listed]
}

/// Thrown for a name that belongs to an entry that no image cache creates, such as a symbolic link.
struct ForeignEntry: Error {}
