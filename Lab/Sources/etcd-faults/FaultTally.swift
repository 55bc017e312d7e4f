import Histories

/// The sums over all runs with one fault.
struct FaultTally: Sendable {
    static let header =
        "fault                        runs  operations  answered   failed  unknown  parts  search  changes  resyncs"
        + "  violations  undecided"

    private(set) var runs = 0
    private var counts = HistoryRecorder.Counts()
    private var partitions = 0
    private var largestSearch = 0
    private var changes = 0
    private var resyncs = 0
    private(set) var happened: [String: Int] = [:]
    var violations: [String] = []
    var undecided: [String] = []

    var operations: Int { counts.all }

    mutating func note(_ happened: String) {
        runs += 1
        self.happened[happened, default: 0] += 1
    }

    mutating func add(_ counts: HistoryRecorder.Counts) {
        self.counts.answered += counts.answered
        self.counts.failed += counts.failed
        self.counts.unknown += counts.unknown
    }

    mutating func add(_ report: HistoryChecker.Report) {
        partitions += report.partitions
        largestSearch = max(largestSearch, report.largestSearch)
        violations += report.violations
        undecided += report.undecided
    }

    mutating func add(_ watches: [WatchRecorder], of history: [HistoryOperation]) {
        var checker = WatchChecker(history)
        let events = watches.map(\.events)
        checker.check(events)
        violations += checker.violations
        let count = events.joined().count { $0 == .resync }
        resyncs += count
        changes += events.joined().count - count
    }

    mutating func add(_ other: FaultTally) {
        runs += other.runs
        add(other.counts)
        partitions += other.partitions
        largestSearch = max(largestSearch, other.largestSearch)
        changes += other.changes
        resyncs += other.resyncs
        happened.merge(other.happened, uniquingKeysWith: +)
        violations += other.violations
        undecided += other.undecided
    }

    func row(_ name: String) -> String {
        func column(_ value: Int, _ width: Int) -> String {
            let text = String(value)
            return String(repeating: " ", count: max(0, width - text.count)) + text
        }
        let columns = [
            column(runs, 5), column(operations, 10), column(counts.answered, 8), column(counts.failed, 7),
            column(counts.unknown, 7), column(partitions, 5), column(largestSearch, 6), column(changes, 7),
            column(resyncs, 7), column(violations.count, 10), column(undecided.count, 9),
        ]
        return name + String(repeating: " ", count: max(0, 28 - name.count)) + columns.joined(separator: "  ")
    }
}
