import CForgeKVStore
import Dispatch
import ForgeFileSystem
import Foundation
import Logging
import Synchronization
import SystemPackage

/// A store: its table, and on disk its log. All `FileKVStore` objects of this process over one directory share an
/// engine; every `InMemoryKVStore` has one of its own, without a directory and a log file.
///
/// Reads are lock-free. Lock order: `compacting`, `flushing`, `writer`. Writes do not hold `writer` across a flush; the
/// end of a compaction, `removeAll` on a full device and the removal of a failed record do.
final class KVEngine: Sendable {
    /// The directory of the store; nil in memory.
    let directory: StoreHandle?

    /// State for sharing; nil unless other processes may have the store open.
    let sharing: EngineSharing?

    /// The path of the directory as errors show it; nil in memory.
    let name: String?

    let table: ValueTable
    let options: FileKVStore.Options
    /// The limit on values, in bytes.
    let valueLimit: Int

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

    let closing = SingleRun()

    /// Jobs in other threads.
    let background = DispatchGroup()

    /// Locked while a value is copied to the quarantine of a store that other processes do not share.
    let quarantining = Mutex(())

    /// The threads for asynchronous calls that may wait for the device or another process.
    let lane: BlockingLane

    /// Opens the store in a directory that is locked.
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
        if options.access == .readWrite, opened.obstacle == nil { handle.removalReserve.fill() }
        openingIssues = Mutex(opening.issues)
        writer = Mutex(Writer(log: opened.log, table: opening.table, obstacle: opened.obstacle))
        directory = handle
        lane = handle.fileSystem is SystemFileSystem ? .lane(of: handle.path) : BlockingLane()
        sharing = handle.sharing
        name = handle.name
        self.table = table
        self.options = options
        valueLimit = options.valueLimit
    }

    /// An empty store in memory.
    init(inMemory options: FileKVStore.Options) {
        let table = ValueTable()
        openingIssues = Mutex([])
        writer = Mutex(Writer(log: AppendLog(), table: TableWriter(table)))
        directory = nil
        lane = .general
        sharing = nil
        name = nil
        self.table = table
        self.options = options
        valueLimit = options.valueLimit
    }

    /// The directory of a store on disk.
    var handle: StoreHandle {
        guard let directory else { preconditionFailure("a store in memory has no directory") }
        return directory
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
    /// Does something in another thread, or in this one if there can be no other. Work that takes a lock of the engine
    /// may not be begun while that is held.
    ///
    /// ``close()`` waits for the jobs that have begun. A write that ends beside it may begin one afterwards, which finds
    /// the store closed; it retains the engine, because the last object of the app may be released meanwhile.
    func inBackground(_ work: @escaping @Sendable (KVEngine) -> Void) {
        BackgroundJob.start(in: background) { work(self) }
    }
}

// MARK: Reading

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

    /// The value of a key as `get` returns it, or the error of a value that cannot be decoded.
    func read<Value>(_ key: KVKey<Value>) throws(KVStoreError) -> Value? {
        try key.identity.validate(.read, in: name)
        try loadRemoteChanges(.read, about: key.identity)
        do throws(UndecodableValue) {
            do throws(TableView.Interruption) {
                return try table.view.value(of: key)
            } catch {
                return try value(of: key, after: error)
            }
        } catch {
            throw KVStoreError(decoding: error.cause, .read, key: key.name, store: name)
        }
    }

    /// The cell of a name, with what other processes have written.
    func cell(named text: String) throws(KVStoreError) -> ValueCell? {
        let name = KeyName(text)
        try name.validate(.read, in: self.name)
        try loadRemoteChanges(.read, about: name)
        return cell(of: name)
    }

    /// The cell of a name as ``cell(named:)`` returns it, if that takes no lock and reads no file; otherwise nil.
    func cellWithoutWaiting(named text: String) throws(KVStoreError) -> ValueCell?? {
        let name = KeyName(text)
        try name.validate(.read, in: self.name)
        guard sharing?.mayHaveRemoteChanges != true else { return nil }
        do throws(TableView.Interruption) {
            return .some(try table.view.cell(of: name))
        } catch {
            return nil
        }
    }

    /// The names of all keys.
    func names() throws(KVStoreError) -> [String] {
        try loadRemoteChanges(.keys)
        try checkFork(.keys)
        return collect(withValues: false).names
    }

    /// The first names after one, in the order of their bytes, as they are at one moment.
    ///
    /// - Complexity: O(*n*) in the number of all names, with memory for twice the limit.
    func names(after previous: String?, limit: Int) throws(KVStoreError) -> [String] {
        try loadRemoteChanges(.keys)
        try checkFork(.keys)
        return TableScan.collect(withValues: false, slice: NameSlice(after: previous, limit: limit)) { piece in
            writer.withLock { writer in piece(&writer.table) }
        }.sortedNames
    }

    /// All names and values at one moment.
    func snapshot() throws(KVStoreError) -> KVSnapshot {
        try loadRemoteChanges(.snapshot)
        try checkFork(.snapshot)
        var snapshot = collect(withValues: true).takeSnapshot()
        snapshot.store = name
        return snapshot
    }

    private func collect(withValues: Bool) -> TableScan {
        TableScan.collect(withValues: withValues) { piece in
            writer.withLock { writer in piece(&writer.table) }
        }
    }
}

/// The error of a value that could not be decoded, and the revision of the value.
struct UndecodableValue: Error {
    var cause: any Error
    var revision: UInt64
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
        if !startThread({ job.run() }) { job.run() }
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
