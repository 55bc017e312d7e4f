import CForgeKVStore
import Dispatch
import ForgeCoding
import ForgeFileSystem
import Foundation
import Logging
import Synchronization
import SystemPackage

/// The one object of this process that reads and writes a store's log; all `FileKVStore` objects over the store share
/// it.
///
/// Reads are lock-free. Lock order: `compacting`, `flushing`, `writer`. Writes do not hold `writer` across a flush; the
/// end of a compaction, `removeAll` on a full device and the removal of a failed record do.
final class KVEngine: Sendable {
    let handle: StoreHandle
    let table: ValueTable
    let options: FileKVStore.Options

    /// The issues found when the log was opened, until the first object over the store takes them.
    private let openingIssues: Mutex<[KVStoreIssue]>

    let writer: Mutex<Writer>
    let flushing = GroupCommit()
    let compacting = Mutex(())

    /// The changes for subscribers, also of other processes while there is a subscriber.
    let changes = ChangeHub()

    /// Detects that this process is a forked child, which may not touch the store.
    let fork = ForkDetector()

    /// How far the store is closed.
    enum Life: UInt8, AtomicRepresentable {
        case open

        /// Writes throw and reads return what it held before; only the closing itself still uses the files.
        case leaving

        /// Nothing is written any more, neither to the log nor to the shared page.
        case left
    }

    /// Changed under `writer`, in a shared store while no call of this process holds the lock of the store.
    let life = Atomic(Life.open)

    var isClosed: Bool { life.load(ordering: .acquiring) != .open }

    let closing = SingleRun()

    /// Jobs in other threads.
    let background = DispatchGroup()

    init(_ handle: StoreHandle, options: FileKVStore.Options) throws(KVStoreError) {
        defer { handle.sharing?.lock.release() }
        var options = options
        // Other processes may truncate a shared log: storing into mapped memory would fault. And a flush must not
        // succeed if a page could not be written.
        if handle.sharing != nil || !handle.fileSystem.reportsErrorsOfMappings { options.isMapped = false }
        let table = ValueTable()
        var opening = LogOpening(handle, table: table, options: options)
        var opened = options.access == .readOnly ? try opening.openForReading() : try opening.openForWriting()
        try Self.share(&opened, at: handle)
        openingIssues = Mutex(opening.issues)
        writer = Mutex(Writer(log: opened.log, table: opening.table, obstacle: opened.obstacle))
        self.handle = handle
        self.table = table
        self.options = options
    }
}

extension KVEngine {
    /// The issues found when the log was opened; none for later callers, so that each is reported once.
    func takeOpeningIssues() -> [KVStoreIssue] {
        openingIssues.withLock { issues in
            defer { issues = [] }
            return issues
        }
    }
}

// MARK: In the background

extension KVEngine {
    /// Does something in another thread, or in this one if there can be no other. No lock of the engine may be held.
    ///
    /// The job does not retain the engine, which outlives it all the same: ``close()`` waits for jobs. A weak reference
    /// would make every use of the engine slower.
    func inBackground(_ work: @escaping @Sendable (KVEngine) -> Void) {
        BackgroundJob.start(in: background) { [unowned(unsafe) self] in work(self) }
    }
}

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

extension KVEngine {
    /// The value of a key whose look-up was interrupted.
    @inline(never)
    func value<Value>(
        of key: KVKey<Value>, after first: TableView.Interruption
    ) throws(UndecodableValue) -> Value? {
        var interruption = first
        while true {
            switch interruption {
            case .busy: writer.withLock { _ in }
            case .encoded(let cell):
                return try table.decode(cell, of: key) { content in
                    writer.withLock { $0.table.replace(cell, by: content, key.identity) }
                }
            }
            do throws(TableView.Interruption) {
                return try table.view.value(of: key)
            } catch {
                interruption = error
            }
        }
    }

    /// The cell of a name.
    func cell(of name: KeyName) -> ValueCell? {
        while true {
            do throws(TableView.Interruption) {
                return try table.view.cell(of: name)
            } catch {
                writer.withLock { _ in }
            }
        }
    }

    /// The names of all keys.
    func names() throws(KVStoreError) -> [String] {
        try checkFork(.keys)
        return collect(withValues: false).names
    }

    /// All names and values at one moment.
    func snapshot() throws(KVStoreError) -> KVSnapshot {
        try checkFork(.snapshot)
        return collect(withValues: true).snapshot
    }

    private func collect(withValues: Bool) -> TableScan {
        TableScan.collect(withValues: withValues) { piece in
            writer.withLock { writer in piece(&writer.table) }
        }
    }
}

/// A value that could not be decoded, and whether this is the first report of it.
struct UndecodableValue: Error {
    var cause: any Error
    var isFirstReport: Bool
}

/// Work of an engine in a thread of its own.
///
/// A thread and not a queue: closing a store waits for its jobs, and stores that are closed on a dispatch queue would
/// use up the threads that jobs on another queue need.
final class BackgroundJob: Sendable {
    private let work: @Sendable () -> Void
    private let group: DispatchGroup
    private let deferred = Mutex<[@Sendable () -> Void]>([])

    private static let key = "ForgeKVStore.BackgroundJob"

    private init(_ group: DispatchGroup, _ work: @escaping @Sendable () -> Void) {
        self.group = group
        self.work = work
    }

    /// The job that the calling thread runs; nil in any other thread.
    static var current: BackgroundJob? { Thread.current.threadDictionary[key] as? BackgroundJob }

    /// Runs `work`, during which `group` is not empty: in another thread, or in this one if there can be no other.
    static func start(in group: DispatchGroup, _ work: @escaping @Sendable () -> Void) {
        group.enter()
        let job = BackgroundJob(group, work)
        let context = Unmanaged.passRetained(job)
        let isStarted = forge_run_in_thread(
            { context in
                guard let context else { return }
                Unmanaged<BackgroundJob>.fromOpaque(context).takeRetainedValue().run()
            }, context.toOpaque())
        guard isStarted == 0 else { return }
        context.release()
        job.run()
    }

    /// Does something in the same thread when the job is done, and `group` may be empty.
    func afterwards(_ work: @escaping @Sendable () -> Void) { deferred.withLock { $0.append(work) } }

    private func run() {
        let dictionary = Thread.current.threadDictionary
        let outer = dictionary[Self.key]
        dictionary[Self.key] = self
        work()
        dictionary[Self.key] = outer
        group.leave()
        for work in deferred.withLock({ $0 }) { work() }
    }
}

/// Detects that the process has forked since the detector was created (`pthread_atfork(3)`).
///
/// A forked child has copies of the parent's descriptors and mappings: what it wrote would overwrite what the parent
/// writes, and its unlocking would release the parent's lock. A child made by a bare `clone(2)` is not detected.
struct ForkDetector: Sendable {
    private let count = forge_start_counting_forks()

    /// Whether this process is a forked child of the process that created the detector.
    @inline(__always)
    var isForkedChild: Bool { forge_forks() != count }
}
