import ForgeFileSystem
import Synchronization
import SystemPackage

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

    /// Records that everything so far has been acknowledged as durable, for the linter.
    public func acknowledge(_ what: String) {
        state.withLock { $0.entries.append(.acknowledgement(sequence: $0.entries.count + 1, what)) }
    }

    /// Removes all entries and messages; inode numbers continue.
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

    /// The log number of an inode; a new one for a new file, because systems reuse inode numbers.
    func number(of inode: InodeIdentity, isNew: Bool = false) -> Int {
        state.withLock { state in
            if !isNew, let number = state.inodes[inode] { return number }
            state.inodeCount += 1
            state.inodes[inode] = state.inodeCount
            return state.inodeCount
        }
    }
}

/// The identity of a file among all files at the same time.
struct InodeIdentity: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
    }
}
