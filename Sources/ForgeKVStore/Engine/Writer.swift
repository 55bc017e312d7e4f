import ForgeCoding

extension KVEngine {
    /// The state that the lock `writer` protects.
    struct Writer: ~Copyable, Sendable {
        var log: AppendLog
        var table: TableWriter
        var encoder = PlainEncoder()

        /// Why nothing can be written, if the log was found in a state that could not be repaired.
        var obstacle: KVStoreError?

        /// The superseded bytes at which compaction is tried again after a failure; `.max` while one runs.
        var compactionThreshold: Int64 = 0

        var isWritable: Bool { obstacle == nil && !log.isPoisoned }
    }

    /// The tasks that a write runs after it has released the locks.
    struct PostWriteTasks: OptionSet, Sendable {
        let rawValue: UInt8

        static let compaction = PostWriteTasks(rawValue: 1)
        static let garbage = PostWriteTasks(rawValue: 2)
        static let space = PostWriteTasks(rawValue: 4)
    }
}

extension KVEngine.Writer {
    /// The bytes of superseded records.
    @inline(__always)
    var supersededBytes: Int64 { log.recordBytes - table.liveBytes }

    /// Whether more than half of the log is superseded, which is worth a compaction when the store is closed.
    var isMostlySuperseded: Bool { supersededBytes > table.liveBytes && supersededBytes > 4096 }

    /// Whether so much of the log is superseded that compaction is worth its cost.
    @inline(__always)
    func isCompactionDue(floor: Int) -> Bool {
        let superseded = supersededBytes
        return superseded - table.liveBytes > Int64(floor) && superseded > compactionThreshold
    }

    /// Postpones the next attempt after a failed compaction.
    mutating func postponeCompaction() { compactionThreshold = 2 * supersededBytes }

    @inline(__always)
    func tasks(compactionFloor: Int) -> KVEngine.PostWriteTasks {
        var tasks: KVEngine.PostWriteTasks = []
        if isCompactionDue(floor: compactionFloor) { tasks.insert(.compaction) }
        if table.hasGarbage { tasks.insert(.garbage) }
        if log.wantsSpace { tasks.insert(.space) }
        return tasks
    }
}
