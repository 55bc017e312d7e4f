import Foundation

/// The files of an image cache, one for each image, by their names.
protocol ImageDirectory: Sendable {
    /// Creates the directory if it is missing.
    func create() throws

    /// The content of a file; nil if there is none.
    func content(of name: String) throws -> Data?

    /// Stores a file, creating the directory if it is missing.
    func store(_ content: Data, as name: String) throws

    /// Removes a file durably; succeeds if there is none.
    func remove(_ name: String) throws

    /// Makes removals durable that other processes may not have flushed, as far as the file system can.
    func synchronize() throws

    /// The names of all files, in no particular order.
    func names() throws -> [String]

    /// The size of a file; nil if there is none.
    func sizeInBytes(of name: String) throws -> Int?
}

/// Thrown for a name that belongs to a symbolic link, a directory or anything else that an image cache does not write.
struct ForeignEntry: Error {}
