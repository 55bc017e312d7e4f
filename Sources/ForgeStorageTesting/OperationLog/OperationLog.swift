import ForgeFileSystem
import Synchronization
import SystemPackage

/// Everything that was called on a ``FaultingFileSystem``, in order, and the marks that the test set in between.
///
/// Its ``text`` is the same in every run of the same calls: it holds no addresses, no times but those of the virtual
/// clock, and no numbers or random names that the system chose.
public final class OperationLog: Sendable {
    /// A line of the log.
    public enum Entry: Hashable, Sendable {
        /// A call.
        case operation(OperationRecord)

        /// Something that the test says, such as that it has told its user that the data is safe.
        case acknowledgement(sequence: Int, String)
    }

    private struct State: Sendable {
        var entries: [Entry] = []
        var inodes: [InodeIdentity: Int] = [:]
        var inodeCount = 0
    }

    private let state = Mutex(State())

    /// An empty log.
    public init() {}

    /// All lines, in order.
    public var entries: [Entry] { state.withLock { $0.entries } }

    /// The calls, in order.
    public var records: [OperationRecord] {
        entries.compactMap { entry in
            guard case .operation(let record) = entry else { return nil }
            return record
        }
    }

    /// The synchronisations that were reported as done and were not.
    public var falseSynchronizations: [OperationRecord] {
        records.filter { $0.operation == .synchronize && !$0.isForwarded && $0.outcome == .success(nil) }
    }

    /// Notes that whatever was done so far has been promised to somebody, so that the linter can tell what a power cut
    /// would make of the promise.
    public func acknowledge(_ what: String) {
        state.withLock { $0.entries.append(.acknowledgement(sequence: $0.entries.count + 1, what)) }
    }

    /// Forgets all lines; the numbers of inodes go on.
    public func removeAll() {
        state.withLock { $0.entries.removeAll() }
    }

    func append(_ record: OperationRecord) {
        state.withLock { state in
            var record = record
            record.sequence = state.entries.count + 1
            state.entries.append(.operation(record))
        }
    }

    /// The number of an inode in this log, a new one for a file that was just created: systems use theirs again.
    func number(of inode: InodeIdentity, isNew: Bool = false) -> Int {
        state.withLock { state in
            if !isNew, let number = state.inodes[inode] { return number }
            state.inodeCount += 1
            state.inodes[inode] = state.inodeCount
            return state.inodeCount
        }
    }
}

/// What tells a file from all others at the same time.
struct InodeIdentity: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
    }
}
