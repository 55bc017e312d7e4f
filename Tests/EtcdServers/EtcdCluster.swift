import Foundation
import ServerTestSupport

/// Three servers on loopback, whose connections to each other go through proxies.
package final class EtcdCluster: Sendable {
    private struct Member: Sendable {
        var endpoint: String
        var directory: URL
        var disk: TemporaryDisk?
        var proxy: PeerProxy
        var process: EtcdProcess
    }

    /// How data directories are made.
    package enum Disks: Hashable, Sendable {
        case shared

        /// A file system of its own for each server.
        case small(sizeInBytes: Int)
    }

    package static let size = 3

    private let members: [Member]

    /// Starts a new cluster.
    package static func started(_ options: [String] = [], disks: Disks = .shared) async throws -> EtcdCluster {
        let cluster = try EtcdCluster(options, disks)
        try await cluster.start()
        return cluster
    }

    private init(_ options: [String], _ disks: Disks) throws {
        let ports = try (0..<Self.size).map { _ in (try LoopbackSocket.freePort(), try LoopbackSocket.freePort()) }
        let proxies = try ports.map { try PeerProxy(to: $0.1) }
        let peers = proxies.map { "http://127.0.0.1:\($0.port)" }
        let cluster = peers.enumerated().map { "m\($0)=\($1)" }.joined(separator: ",")
        var members: [Member] = []
        for (index, (client, peer)) in ports.enumerated() {
            var disk: TemporaryDisk?
            if case .small(let size) = disks { disk = try TemporaryDisk(sizeInBytes: size) }
            let directory = FileManager.default.temporaryDirectory.appending(path: "forge-etcd-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            let endpoint = "http://127.0.0.1:\(client)"
            let arguments = [
                "--name", "m\(index)", "--data-dir", (disk?.directory ?? directory).appending(path: "data").path,
                "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
                "--listen-peer-urls", "http://127.0.0.1:\(peer)", "--initial-advertise-peer-urls", peers[index],
                "--initial-cluster", cluster, "--heartbeat-interval", "50", "--election-timeout", "500",
            ]
            members.append(
                Member(
                    endpoint: endpoint, directory: directory, disk: disk, proxy: proxies[index],
                    process: EtcdProcess(arguments + options, log: directory.appending(path: "log"))))
        }
        self.members = members
    }

    deinit {
        for member in members {
            member.process.end()
            do { try FileManager.default.removeItem(at: member.directory) } catch {}
        }
    }

    /// The addresses for clients.
    package var endpoints: [String] { members.map(\.endpoint) }

    /// The addresses, beginning with that of one member.
    package func endpoints(from index: Int) -> [String] {
        let index = index % members.count
        return Array(endpoints[index...] + endpoints[..<index])
    }

    /// The member that leads, and the identifiers of all.
    private func status() async throws -> (leader: Int, identifiers: [UInt64]) {
        var identifiers: [UInt64] = []
        var leader: UInt64 = 0
        for member in members {
            let answer = try await Gateway(member.endpoint).post("/v3/maintenance/status", "{}")
            let status = try JSONDecoder().decode(Status.self, from: Data(answer.utf8))
            identifiers.append(UInt64(status.header.member_id) ?? 0)
            leader = status.leader.flatMap { UInt64($0) } ?? 0
        }
        guard let index = identifiers.firstIndex(of: leader) else { throw NoLeader() }
        return (index, identifiers)
    }

    package struct NoLeader: Error {}

    private struct Status: Decodable {
        struct Header: Decodable {
            var member_id: String
        }

        var header: Header
        var leader: String?
    }

    /// The member that leads; waits until there is one and all members answer.
    package func leader() async throws -> Int {
        for _ in 0..<100 {
            do { return try await status().leader } catch { try await Task.sleep(for: .milliseconds(100)) }
        }
        return try await status().leader
    }

    /// Kills members at once.
    package func kill(_ indices: [Int]) async throws {
        for index in indices { members[index].process.send(SIGKILL) }
        try await onThread { [members] in for index in indices { members[index].process.end() } }
    }

    /// Starts the members that do not run, and waits until they serve clients.
    package func start() async throws {
        try await onThread { [members] in
            let ended = members.filter { !$0.process.isRunning }
            for member in ended {
                member.process.end()
                try member.process.launch()
            }
            for member in ended { try member.process.waitUntilReady() }
        }
    }

    /// Stops the process of a member until ``resume(_:)``.
    package func pause(_ index: Int) { members[index].process.send(SIGSTOP) }

    package func resume(_ index: Int) { members[index].process.send(SIGCONT) }

    /// Separates a member from the others until ``join()``.
    package func isolate(_ index: Int) async throws {
        let identifier = try await status().identifiers[index]
        for (other, member) in members.enumerated() {
            member.proxy.set(other == index ? .all : .sender(String(identifier, radix: 16)))
        }
    }

    /// Connects all members again.
    package func join() { for member in members { member.proxy.set(.none) } }

    /// Fills the disks of members; those that need space end.
    package func fillDisks(_ indices: [Int]) async throws {
        try await onThread { [members] in for index in indices { members[index].disk?.fill() } }
    }

    /// The number of members whose processes have ended.
    package var endedCount: Int { members.count { !$0.process.isRunning } }

    /// Frees the space of all disks.
    package func freeDisks() throws { for member in members { try member.disk?.free() } }
}
