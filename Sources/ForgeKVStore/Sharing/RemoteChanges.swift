import ForgeFileSystem
import Synchronization
import SystemPackage

/// The issues and released values after changes of other processes were applied, for when no lock is held.
struct RemoteChanges: Sendable {
    var issues: [KVStoreIssue] = []

    /// Releasing a value may run code of its type.
    private var garbage: [Garbage] = []

    private final class Garbage: Sendable {
        private let content: DeferredReclamation.Garbage

        init(_ content: consuming DeferredReclamation.Garbage) {
            self.content = content
        }
    }

    /// Applies a valid record of another process to a table, beside readers, and reports what it changes.
    mutating func apply(
        _ record: LogReader.Record, _ bytes: Span<UInt8>, to table: inout TableWriter, reportingTo changes: ChangeHub
    ) {
        let isWatched = changes.hasSubscribers
        if record.content.code == .removeAll {
            table.removeAll()
            if isWatched { changes.appendAll() }
        }
        var reported: [ChangeHub.Change] = []
        var revision = record.firstSequence
        LogRecord.forEachChange(in: bytes) { change in
            let name = KeyName(bytes.extracting(change.name))
            let value = change.value.map { [UInt8](bytes.extracting($0)) }
            if let value {
                table.store(EncodedCell(value, revision: revision), name)
            } else {
                table.remove(name)
            }
            if isWatched { reported.append(ChangeHub.Change(name, value, revision)) }
            revision += 1
        }
        if isWatched { changes.append(reported) }
    }

    /// Makes a table equal to what was read from a log that was opened anew, and reports the differences; what is the
    /// same stays untouched, so that no reader sees anything missing meanwhile.
    mutating func apply(
        _ contents: [(name: KeyName, cell: ValueCell)], to table: inout TableWriter, reportingTo changes: ChangeHub
    ) {
        var reported: [ChangeHub.Change] = []
        let isWatched = changes.hasSubscribers
        var kept: Set<KeyName> = []
        kept.reserveCapacity(contents.count)
        for (name, cell) in contents {
            kept.insert(name)
            guard table.revision(of: name) != cell.revision else { continue }
            table.store(cell, name)
            if isWatched { reported.append(ChangeHub.Change(name, cell.bytes, cell.revision)) }
        }
        for name in table.names.lazy.map(KeyName.init) where !kept.contains(name) {
            table.remove(name)
            if isWatched { reported.append(ChangeHub.Change(name, nil, 0)) }
        }
        changes.append(reported)
    }

    /// Takes over what was taken out of a table.
    mutating func collect(from table: inout TableWriter) {
        if let collected = table.collectGarbage() { garbage.append(Garbage(collected)) }
    }
}

/// Reads the records of a log that follow those which this process knows.
///
/// It is strict: unless there is an intact record for each sequence number after the known ones, one after the other up
/// to exactly the expected end, the log has to be opened anew. Where it begins is therefore not trusted.
struct LogFollower {
    /// The maximum plausible size; the end of another log may look like any number.
    static let limit: Int64 = 1 << 40

    private let start: Int64
    private let end: Int64
    private let known: UInt64
    private var reader: LogReader
    private let checksum: CRC32C

    /// The state after the last record.
    private(set) var sequence: UInt64 = 0
    private(set) var flushedSequence: UInt64 = 0
    private(set) var endsFlushed = false

    /// The records in a range of a log, those after the change `known`; the first of them may be known.
    init(_ file: LogFile, _ range: Range<Int64>, after known: UInt64) {
        (start, end) = (range.lowerBound, range.upperBound)
        self.known = known
        reader = LogReader(file.descriptor, size: range.upperBound, on: file.fileSystem)
        checksum = file.header.fileID.checksum
    }

    /// One that begins at the first of several places from where all records are there; nil if there is none.
    static func strict(
        _ file: LogFile, _ starts: [Int64], _ end: Int64, after known: UInt64
    ) throws(FileSystemError) -> LogFollower? {
        for start in starts where start < end {
            var follower = LogFollower(file, start..<end, after: known)
            if try follower.isStrict() { return follower }
        }
        return nil
    }

    /// Whether the records are there, and nothing else; changes nothing.
    mutating func isStrict() throws(FileSystemError) -> Bool {
        var offset = start
        while offset < end {
            guard let record = try next(at: offset) else { return false }
            sequence = record.frame.sequence
            flushedSequence = max(flushedSequence, record.frame.flushedSequence)
            endsFlushed = record.content.code == .flushed
            offset = record.end
        }
        return sequence >= known
    }

    /// Calls `body` with every unknown record and its bytes, after ``isStrict()``.
    mutating func forEach(_ body: (LogReader.Record, Span<UInt8>) -> Void) throws(FileSystemError) {
        var offset = start
        sequence = 0
        while offset < end {
            // A short tail is in the window of the reader, a long one is read and verified again.
            guard let record = try next(at: offset) else {
                throw FileSystemError(.read, .ioError, path: .logName)
            }
            if record.firstSequence > known {
                _ = try reader.withBytes(at: offset, count: record.size) { body(record, $0) }
            }
            sequence = record.frame.sequence
            offset = record.end
        }
    }

    /// The record that follows the last one; the first one is known, or is the next after the known ones.
    private mutating func next(at offset: Int64) throws(FileSystemError) -> LogReader.Record? {
        guard let record = try reader.record(at: offset, after: sequence, checksum) else { return nil }
        let isNext = offset == start ? record.firstSequence <= known + 1 : record.firstSequence == sequence + 1
        // A batch is known as a whole or not at all.
        guard isNext, record.firstSequence > known || record.frame.sequence <= known else { return nil }
        return record
    }
}

/// Looks for what other processes publish in a shared store, while there are subscribers.
///
/// It looks when a process signals that it has published something. Where the system has no signals it polls, at first
/// after the interval of the options, then after twice the time, up to a second. After a look that has failed it tries
/// again in the same way, at first after 20 milliseconds.
final class SharingWatch: Sendable {
    /// The result of a look.
    enum Outcome {
        case nothing
        case changes
        /// There is something that could not be read.
        case failure
    }

    private let page: SharedPage
    private let interval: Duration
    private let state = Mutex(State())

    private struct State {
        weak var observation: Observation?
        var isStopped = false
    }

    init(_ page: SharedPage, pollingInterval: Duration) {
        self.page = page
        // A day is as good as never.
        interval = min(max(pollingInterval, .milliseconds(1)), .seconds(86_400))
    }

    /// The observation that calls `look` until the last subscriber has released it; nil once the store is closed.
    func start(_ look: @escaping @Sendable () -> Outcome) -> Observation? {
        state.withLock { state in
            if state.isStopped { return nil }
            if let observation = state.observation { return observation }
            let new = Observation(page, interval, look)
            state.observation = new
            return new
        }
    }

    /// Ends the observation, if there is one, for good.
    func stop() {
        // Released outside the lock.
        let observation = state.withLock { state in
            state.isStopped = true
            return state.observation
        }
        observation?.end()
    }

    /// An observation of the shared page that ends when it is released.
    final class Observation: Sendable {
        private let page: SharedPage
        private let current: Mutex<(any FileSignalObservation)?>

        fileprivate init(_ page: SharedPage, _ interval: Duration, _ look: @escaping @Sendable () -> Outcome) {
            self.page = page
            let pauses = Pauses(interval)
            current = Mutex(page.observe { isSignalled in pauses.next(after: look(), isSignalled) })
        }

        deinit { end() }

        fileprivate func end() {
            if let observation = current.withLock({ $0.take() }) { page.endObserving(observation) }
        }
    }

    /// The times until the next look without a signal.
    private final class Pauses: Sendable {
        private let interval: Duration
        private let last = Mutex(Duration.zero)

        private static let afterFailure = Duration.milliseconds(20)
        private static let longest = Duration.seconds(1)

        init(_ interval: Duration) { self.interval = interval }

        /// Nil if only a signal leads to another look.
        func next(after outcome: Outcome, _ isSignalled: Bool) -> Duration? {
            last.withLock { last in
                guard outcome != .changes, outcome == .failure || !isSignalled else {
                    last = .zero
                    return isSignalled ? nil : interval
                }
                let first = outcome == .failure ? min(interval, Self.afterFailure) : interval
                last = max(first, min(last * 2, Self.longest))
                return last
            }
        }
    }
}
