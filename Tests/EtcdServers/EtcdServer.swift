import Foundation
import ServerTestSupport

/// A server of one member on loopback, with a temporary directory; it ends with the object or the process.
package final class EtcdServer: Sendable {
    /// Whether the tests can run; says so if they cannot.
    package static let isInstalled: Bool = {
        if EtcdProcess.executable == nil {
            print("\n*** NO SERVER TEST RUNS: etcd is not installed (apt-get install etcd-server) ***\n")
        }
        return EtcdProcess.executable != nil
    }()

    private static let first = Task { try await EtcdServer.started() }

    /// The server of the tests that do not stop it; each uses a prefix of its own.
    package static func shared() async throws -> EtcdServer { try await first.value }

    /// Starts a new server.
    package static func started(_ options: [String] = [], scheme: String = "http") async throws -> EtcdServer {
        try await onThread { try EtcdServer(options, scheme: scheme) }
    }

    package let port: UInt16
    private let directory: URL
    private let scheme: String
    private let process: EtcdProcess

    package var endpoint: String { "\(scheme)://127.0.0.1:\(port)" }

    private init(_ options: [String], scheme: String) throws {
        port = try LoopbackSocket.freePort()
        let (endpoint, peer) = ("\(scheme)://127.0.0.1:\(port)", "http://127.0.0.1:\(try LoopbackSocket.freePort())")
        directory = FileManager.default.temporaryDirectory.appending(path: "forge-etcd-\(UUID().uuidString)")
        self.scheme = scheme
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        process = EtcdProcess(
            [
                "--data-dir", directory.appending(path: "data").path, "--listen-client-urls", endpoint,
                "--advertise-client-urls", endpoint, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", "default=\(peer)", "--heartbeat-interval", "20", "--election-timeout", "200",
            ] + options, log: directory.appending(path: "log"))
        try launch()
    }

    deinit {
        process.end()
        do { try FileManager.default.removeItem(at: directory) } catch {}
    }

    /// Starts the server and waits until it serves clients.
    package func start() async throws { try await onThread { try self.launch() } }

    /// Kills the server and starts one without its data at the same address.
    package func replace() async throws {
        try await onThread {
            self.process.end()
            try FileManager.default.removeItem(at: self.directory.appending(path: "data"))
            try self.launch()
        }
    }

    /// Kills the server.
    package func stop() async throws { try await onThread { self.process.end() } }

    package func restart() async throws {
        try await stop()
        try await start()
    }

    private func launch() throws {
        try process.launch()
        try process.waitUntilReady()
    }
}
