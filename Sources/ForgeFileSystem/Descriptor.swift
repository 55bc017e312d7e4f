/// An open file or directory of one ``POSIXFileSystem``.
///
/// It is valid only for the file system that returned it: a descriptor of an ``InMemoryFileSystem`` is not a descriptor
/// of the process. Close it with ``POSIXFileSystem/close(_:)``.
public struct Descriptor: RawRepresentable, Hashable, Sendable {
    /// The number of the descriptor, the lowest one free when it was opened.
    public let rawValue: Int32

    /// Wraps the number of an open file.
    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// The working directory, from which relative paths start (`AT_FDCWD`).
    public static let workingDirectory = Descriptor(rawValue: -100)
}

extension Descriptor: CustomStringConvertible {
    public var description: String { self == .workingDirectory ? "cwd" : "fd\(rawValue)" }
}
