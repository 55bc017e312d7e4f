public import ForgeFileSystem
import Synchronization
public import SystemPackage

/// The calls of a ``FaultingFileSystem`` in order, with the acknowledgements of the test.
///
/// Its ``text`` is the same in every run of the same calls: it contains no addresses, wall-clock times, system-assigned
/// numbers or random names.
public final class OperationLog: Sendable {
    /// An entry of the log.
    public enum Entry: Hashable, Sendable {
        /// A call.
        case operation(OperationRecord)

        /// A statement of the test, for example that it has acknowledged data as durable.
        case acknowledgement(sequence: Int, String)
    }

    private struct State: Sendable {
        var entries: [Entry] = []
        var messages: [String] = []
        var inodes: [InodeIdentity: Int] = [:]
        var inodeCount = 0
    }

    private let state = Mutex(State())

    /// Creates an empty log.
    public init() {}

    /// All entries in order.
    public var entries: [Entry] { state.withLock { $0.entries } }

    /// The calls in order.
    public var records: [OperationRecord] {
        entries.compactMap { entry in
            guard case .operation(let record) = entry else { return nil }
            return record
        }
    }

    /// The synchronisations that were falsely reported as successful.
    public var falseSynchronizations: [OperationRecord] {
        records.filter { $0.operation == .synchronize && !$0.isForwarded && $0.outcome == .success(nil) }
    }

    /// The messages of ``FaultingFileSystem/logger``; they are not part of ``text``.
    public var messages: [String] { state.withLock { $0.messages } }

    /// Records that the test has acknowledged everything before this entry as durable, for the durability linter.
    ///
    /// - Parameter what: What was acknowledged, as the log prints it.
    public func acknowledge(_ what: String) {
        state.withLock { $0.entries.append(.acknowledgement(sequence: $0.entries.count + 1, what)) }
    }

    /// Removes all entries and messages; the numbering of inodes continues.
    public func removeAll() {
        state.withLock { state in
            state.entries.removeAll()
            state.messages.removeAll()
        }
    }

    func append(message: String) {
        state.withLock { $0.messages.append(message) }
    }

    func append(_ record: OperationRecord) {
        state.withLock { state in
            var record = record
            record.sequence = state.entries.count + 1
            state.entries.append(.operation(record))
        }
    }

    /// The number of an inode in the log; a new file gets a new number, because systems reuse inode numbers.
    func number(of inode: InodeIdentity, isNew: Bool = false) -> Int {
        state.withLock { state in
            if !isNew, let number = state.inodes[inode] { return number }
            state.inodeCount += 1
            state.inodes[inode] = state.inodeCount
            return state.inodeCount
        }
    }
}

/// The identity of a file among all files that exist at the same time.
struct InodeIdentity: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
    }
}

extension OperationLog {
    /// The log as text, one line per entry.
    ///
    /// Random parts of temporary names are replaced by numbers in order of appearance.
    public var text: String {
        var names = RandomNameNumbers()
        return entries.map { names.replacing(in: $0.description) }.joined(separator: "\n")
    }
}

extension OperationLog: CustomStringConvertible {
    public var description: String { text }
}

extension OperationLog.Entry: CustomStringConvertible {
    public var description: String {
        switch self {
        case .operation(let record): record.description
        case .acknowledgement(let sequence, let what): "\(sequence) acknowledge \(what)"
        }
    }
}

/// The numbers that replace the random parts of `#tmp-…` and `#trash-…` names.
private struct RandomNameNumbers {
    private static let randomLength = 16
    private var numbers: [Substring: Int] = [:]

    /// The line with each random part of a name replaced by its number.
    mutating func replacing(in line: String) -> String {
        var result = ""
        var rest = line[...]
        while let hash = rest.firstIndex(of: "#") {
            result += rest[..<hash]
            rest = rest[hash...]
            guard let prefix = ["#tmp-", "#trash-"].first(where: { rest.hasPrefix($0) }) else {
                result.append(rest.removeFirst())
                continue
            }
            rest.removeFirst(prefix.count)
            let random = rest.prefix(Self.randomLength)
            result += prefix
            guard random.count == Self.randomLength, !random.contains(where: { $0 == "/" || $0 == " " }) else {
                continue
            }
            let number = numbers[random] ?? numbers.count + 1
            numbers[random] = number
            result += String(number)
            rest.removeFirst(Self.randomLength)
        }
        return result + rest
    }
}

/// A log that differs from the expected transcript.
public struct TranscriptMismatch: Error, Hashable, Sendable, CustomStringConvertible {
    /// The lines that were expected.
    public let expected: [String]

    /// The lines of the log.
    public let actual: [String]

    /// The difference: missing lines after `-`, unexpected lines after `+`.
    public var description: String {
        var lines: [String] = []
        var unchanged: [String] = []
        func flush(isLast: Bool) {
            let context = 2
            let leading = lines.isEmpty ? 0 : context
            let trailing = isLast ? 0 : context
            if unchanged.count > leading + trailing + 1 {
                lines += unchanged.prefix(leading).map { "  " + $0 }
                lines.append("  … \(unchanged.count - leading - trailing) lines as expected …")
                lines += unchanged.suffix(trailing).map { "  " + $0 }
            } else {
                lines += unchanged.map { "  " + $0 }
            }
            unchanged = []
        }
        let difference = actual.difference(from: expected)
        var removed: Set<Int> = []
        var inserted: Set<Int> = []
        for change in difference {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var (old, new) = (0, 0)
        while old < expected.count || new < actual.count {
            if removed.contains(old) {
                flush(isLast: false)
                lines.append("- " + expected[old])
                old += 1
            } else if inserted.contains(new) {
                flush(isLast: false)
                lines.append("+ " + actual[new])
                new += 1
            } else {
                unchanged.append(expected[old])
                old += 1
                new += 1
            }
        }
        flush(isLast: true)
        return "the log is not as expected (- missing, + unexpected)\n" + lines.joined(separator: "\n")
    }
}

/// Throws unless the text of `log` equals `transcript`, ignoring empty lines and surrounding spaces.
///
/// - Throws: ``TranscriptMismatch`` with the difference.
public func expectLog(_ log: OperationLog, _ transcript: String) throws(TranscriptMismatch) {
    let expected = meaningfulLines(of: transcript)
    let actual = meaningfulLines(of: log.text)
    guard actual == expected else { throw TranscriptMismatch(expected: expected, actual: actual) }
}

private func meaningfulLines(of text: String) -> [String] {
    text.split(whereSeparator: \.isNewline).compactMap { line in
        let trimmed = line.drop(while: \.isWhitespace)
        guard let last = trimmed.lastIndex(where: { !$0.isWhitespace }) else { return nil }
        return String(trimmed[...last])
    }
}

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

    /// The number of bytes requested, the length of a range, or a file size, in bytes.
    public var count: Int64?

    /// Other arguments as text: access mode, options, permissions, level.
    public var detail: String?

    /// The result.
    public var outcome = Outcome.success(nil)

    /// The number of bytes transferred.
    public var transferredCount: Int?

    /// The number of the file's inode, by order of appearance.
    public var inode: Int?

    /// The faults that applied, as text.
    public var faults: [String] = []

    /// Whether the call reached the base file system; false for one that failed before its effect, and for a
    /// synchronisation falsely reported as successful.
    public var isForwarded = true

    /// The name of the thread, if it has one.
    public var thread: String?

    // MARK: For the linter

    /// The inode number in the log of the directory that contains ``path``.
    package var directory: Int?
    /// The inode number in the log of the directory that contains ``destination``.
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
    /// The number of hard links before the call.
    package var linkCount: UInt64?
    /// The inode number in the log of the file that a rename replaced.
    package var replaced: Int?
    /// Whether the file is a regular one.
    package var isRegular = false
    /// Whether no other descriptor of the same inode was open.
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
