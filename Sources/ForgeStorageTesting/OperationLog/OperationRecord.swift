public import ForgeFileSystem
public import SystemPackage

/// One call to a file system and what came of it.
///
/// Numbers that differ from run to run are replaced: descriptors by the lowest number that is free in the log's file
/// system, inodes by the order in which the log met them.
public struct OperationRecord: Hashable, Sendable {
    /// How a call ended.
    public enum Outcome: Hashable, Sendable {
        /// It returned; the text tells what, where that is worth telling.
        case success(String?)

        /// It threw an error with this number.
        case failure(Errno)
    }

    /// The place in the log, from 1 on, marks included.
    public internal(set) var sequence = 0

    /// The time on the virtual clock when the call was made.
    public var time: Duration

    /// What was called.
    public var operation: FileSystemOperation

    /// The path that was given, or by which the descriptor that was given was opened; see
    /// ``FaultingFileSystem/path(of:)``.
    public var path: POSIXPath?

    /// The second path of a rename or a link, the target of a symbolic link.
    public var destination: POSIXPath?

    /// The descriptor that was given, or given out.
    public var descriptor: Int?

    /// The offset that was given; nil also where the file's own was used.
    public var offset: Int64?

    /// The bytes asked for or given, the length of a range, the size of a file.
    public var count: Int64?

    /// Access mode, options, permissions, level and so on, as text.
    public var detail: String?

    /// How it ended.
    public var outcome = Outcome.success(nil)

    /// How many bytes were read or written.
    public var transferredCount: Int?

    /// The file that the call was about, by the order of appearance.
    public var inode: Int?

    /// The faults that struck, as text.
    public var faults: [String] = []

    /// Whether the call reached the file system below; `false` for one that failed before its effect, and for a
    /// synchronisation that was reported as done and was not.
    public var isForwarded = true

    /// The name of the thread, where it has one.
    public var thread: String?

    // MARK: For the linter

    /// The directory that holds the (first) name.
    package var directory: Int?
    /// The directory that holds the second name.
    package var newDirectory: Int?
    /// Whether the file or directory did not exist before.
    package var isCreation = false
    /// Whether the call had its effect, even if it threw.
    package var isEffective = false
    /// Where the bytes went.
    package var position: Int64?
    /// The size of the file before the call.
    package var sizeBefore: Int64?
    /// The size that the call gives the file, if that is what it does.
    package var newSize: Int64?
    /// How many names the file had before the call.
    package var linkCount: UInt64?
    /// The file that a rename took the name from.
    package var replaced: Int?
    /// Whether the file is a regular one.
    package var isRegular = false
    /// Whether the descriptor was the last one of its file.
    package var isLastDescriptor = false

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
