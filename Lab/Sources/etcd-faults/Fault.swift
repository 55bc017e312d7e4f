import EtcdServers
import Foundation

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
