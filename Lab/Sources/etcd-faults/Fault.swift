import EtcdServers
import Foundation
import Histories

/// A fault that is injected into a cluster while clients use it.
enum Fault: String, CaseIterable, Sendable {
    case none
    case leaderKilled = "leader-killed"
    case allKilled = "all-killed"
    case memberPaused = "member-paused"
    case memberIsolated = "member-isolated"

    /// Needs the right to mount.
    case diskFull = "disk-full"

    case quotaExceeded = "quota-exceeded"
    case compaction

    static let quotaInBytes = 16 << 20

    /// A cluster for runs with this fault.
    func cluster() async throws -> EtcdCluster {
        switch self {
        // Two preallocated parts of the log of 64 MB each, and the database.
        case .diskFull: try await EtcdCluster.started(disks: .small(sizeInBytes: 160 << 20))
        case .quotaExceeded: try await EtcdCluster.started(["--quota-backend-bytes", "\(Self.quotaInBytes)"])
        default: try await EtcdCluster.started()
        }
    }

    /// The affected member: the leader in every other run.
    private func target(_ cluster: EtcdCluster, _ run: Int) async throws -> Int {
        let leader = try await cluster.leader()
        return run.isMultiple(of: 2) ? leader : (leader + 1) % EtcdCluster.size
    }

    /// Makes the fault happen, lets it last, and ends it. Returns what happened.
    func happen(to cluster: EtcdCluster, run: Int) async throws -> String {
        let duration = Duration.milliseconds(Int.random(in: 500...1500))
        switch self {
        case .none: try await Task.sleep(for: duration)
        case .leaderKilled:
            let leader = try await cluster.leader()
            try await cluster.kill([leader])
            try await Task.sleep(for: duration)
            try await cluster.start()
        case .allKilled:
            try await cluster.kill(Array(0..<EtcdCluster.size))
            try await Task.sleep(for: duration / 2)
            try await cluster.start()
        case .memberPaused:
            let member = try await target(cluster, run)
            cluster.pause(member)
            defer { cluster.resume(member) }
            try await Task.sleep(for: duration)
        case .memberIsolated:
            let member = try await target(cluster, run)
            try await cluster.isolate(member)
            defer { cluster.join() }
            try await Task.sleep(for: duration)
        case .diskFull: return try await fillDisks(cluster, run)
        case .quotaExceeded: try await Quota(cluster).exceed(for: duration)
        case .compaction:
            let end = ContinuousClock.now + duration
            while ContinuousClock.now < end { try await Quota(cluster).compact() }
        }
        return rawValue
    }

    private func fillDisks(_ cluster: EtcdCluster, _ run: Int) async throws -> String {
        let members = run.isMultiple(of: 2) ? [try await cluster.leader()] : Array(0..<EtcdCluster.size)
        try await cluster.fillDisks(members)
        let end = ContinuousClock.now + .seconds(5)
        while cluster.endedCount < members.count, ContinuousClock.now < end {
            try await Task.sleep(for: .milliseconds(20))
        }
        let ended = cluster.endedCount
        try await Task.sleep(for: .milliseconds(500))
        try cluster.freeDisks()
        try await cluster.start()
        return "disk-full: \(ended) of \(members.count) ended"
    }
}

/// Maintenance of a cluster through the gateways of its members.
struct Quota {
    private let cluster: EtcdCluster

    /// A key outside of the names of any store.
    private static let key = Data("filler".utf8).base64EncodedString()

    init(_ cluster: EtcdCluster) {
        self.cluster = cluster
    }

    /// Writes until the database exceeds its quota, waits, and makes room again.
    func exceed(for duration: Duration) async throws {
        let value = Data(repeating: 1, count: 512 << 10).base64EncodedString()
        let gateway = Gateway(cluster.endpoints[0])
        var isExceeded = false
        // Twice what fits.
        for _ in 0..<(2 * Fault.quotaInBytes / (512 << 10)) where !isExceeded {
            do {
                try await gateway.post("/v3/kv/put", #"{"key":"\#(Self.key)","value":"\#(value)"}"#)
            } catch let error as Gateway.Refused {
                isExceeded = error.answer.contains("space exceeded")
            }
        }
        guard isExceeded else { throw NotExceeded() }
        try await Task.sleep(for: duration)
        try await gateway.post("/v3/kv/deleterange", #"{"key":"\#(Self.key)"}"#)
        try await compact()
        for endpoint in cluster.endpoints { try await Gateway(endpoint).post("/v3/maintenance/defragment", "{}") }
        // Each member has raised an alarm of its own.
        let alarms = try JSONDecoder().decode(
            Alarms.self, from: Data(try await gateway.post("/v3/maintenance/alarm", #"{"action":"GET"}"#).utf8))
        for alarm in alarms.alarms ?? [] {
            try await gateway.post(
                "/v3/maintenance/alarm",
                #"{"action":"DEACTIVATE","memberID":"\#(alarm.memberID)","alarm":"\#(alarm.alarm)"}"#)
        }
    }

    struct NotExceeded: Error {}

    private struct Alarms: Decodable {
        struct Alarm: Decodable {
            var memberID: String
            var alarm: String
        }

        var alarms: [Alarm]?
    }

    /// Removes all revisions before the present one.
    func compact() async throws {
        let gateway = Gateway(cluster.endpoints.randomElement() ?? cluster.endpoints[0])
        let answer = try await gateway.post("/v3/kv/range", #"{"key":"\#(Self.key)"}"#)
        let range = try JSONDecoder().decode(Range.self, from: Data(answer.utf8))
        do {
            try await gateway.post("/v3/kv/compaction", #"{"revision":"\#(range.header.revision)","physical":true}"#)
        } catch let error as Gateway.Refused where error.answer.contains("compacted") {}
    }

    private struct Range: Decodable {
        struct Header: Decodable {
            var revision: String
        }

        var header: Header
    }
}

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
