public import ForgeFileSystem
public import SystemPackage

/// A file-system call and its result.
///
/// Numbers that vary between runs are replaced: descriptors by the lowest number that is free in the log, inodes by the
/// order of appearance.
public struct OperationRecord: Hashable, Sendable {
    /// The result of a call.
    public enum Outcome: Hashable, Sendable {
        /// Success, with the result as text if it is relevant.
        case success(String?)

        /// An error with this number.
        case failure(Errno)
    }

    /// The position in the log, counted from 1, including acknowledgements.
    public internal(set) var sequence = 0

    /// The virtual time of the call.
    public var time: Duration

    /// The operation.
    public var operation: FileSystemOperation

    /// The path argument, or the path that opened the descriptor argument; see ``FaultingFileSystem/path(of:)``.
    public var path: POSIXPath?

    /// The second path of a rename or a link, the target of a symbolic link.
    public var destination: POSIXPath?

    /// The descriptor argument or result.
    public var descriptor: Int?

    /// The offset argument; nil if the call used the file offset.
    public var offset: Int64?

    /// The number of bytes requested, the length of a range, or a file size.
    public var count: Int64?

    /// Other arguments as text: access mode, options, permissions, level.
    public var detail: String?

    /// The result.
    public var outcome = Outcome.success(nil)

    /// The number of bytes transferred.
    public var transferredCount: Int?

    /// The file, by order of appearance.
    public var inode: Int?

    /// The faults that applied, as text.
    public var faults: [String] = []

    /// Whether the call reached the base file system; false for one that failed before its effect, and for a
    /// synchronisation falsely reported as successful.
    public var isForwarded = true

    /// The name of the thread, if it has one.
    public var thread: String?

    // MARK: For the linter

    /// The directory that contains the first name.
    package var directory: Int?
    /// The directory that contains the second name.
    package var newDirectory: Int?
    /// Whether the file or directory did not exist before.
    package var isCreation = false
    /// Whether the call took effect, even if it threw.
    package var isEffective = false
    /// The offset of the transferred bytes.
    package var position: Int64?
    /// The size of the file before the call.
    package var sizeBefore: Int64?
    /// The size that the call sets.
    package var newSize: Int64?
    /// The number of names before the call.
    package var linkCount: UInt64?
    /// The file that a rename replaced.
    package var replaced: Int?
    /// Whether the file is a regular one.
    package var isRegular = false
    /// Whether no other descriptor of the same file, by its inode, was open.
    package var isLastDescriptorOfFile = false

    init(_ operation: FileSystemOperation, time: Duration) {
        self.operation = operation
        self.time = time
    }
}

extension OperationRecord: CustomStringConvertible {
    /// The record as one line.
    public var description: String {
        var words = [String(sequence), "\(time.nanoseconds)ns"]
        if let thread { words.append("[\(thread)]") }
        words.append(operation.rawValue)
        if let descriptor { words.append("fd\(descriptor)") }
        if let path { words.append(path.isEmpty ? "\"\"" : path.description) }
        if let destination { words += ["to", destination.description] }
        if let inode { words.append("i\(inode)") }
        if let offset { words.append("at \(offset)") }
        if let count { words.append("count \(count)") }
        if let detail { words.append(detail) }
        switch outcome {
        case .success(let result): words.append("= " + (transferredCount.map(String.init) ?? result ?? "ok"))
        case .failure(let errno): words.append("= " + errno.name)
        }
        if !faults.isEmpty { words.append("! " + faults.joined(separator: ", ")) }
        if !isForwarded, case .success = outcome { words.append("(not forwarded)") }
        return words.joined(separator: " ")
    }
}
