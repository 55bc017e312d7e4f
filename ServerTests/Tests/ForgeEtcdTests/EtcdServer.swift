import Foundation
import Synchronization

/// A server of one member on loopback, with a temporary directory; it ends with the object or the process.
final class EtcdServer: Sendable {
    static let executable = ["/usr/bin/etcd", "/usr/local/bin/etcd", "/opt/homebrew/bin/etcd"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// Whether the tests can run; says so if they cannot.
    static let isInstalled: Bool = {
        if executable == nil {
            print("\n*** NO SERVER TEST RUNS: etcd is not installed (apt-get install etcd-server) ***\n")
        }
        return executable != nil
    }()

    private static let first = Task { try await EtcdServer.started() }

    /// The server of the tests that do not stop it; each uses a prefix of its own.
    static func shared() async throws -> EtcdServer { try await first.value }

    /// Starts a new server.
    static func started(_ options: [String] = [], scheme: String = "http") async throws -> EtcdServer {
        try await onThread { try EtcdServer(options, scheme: scheme) }
    }

    let port: UInt16
    private let peerPort: UInt16
    private let directory: URL
    private let options: [String]
    private let scheme: String
    private let process = Mutex<Process?>(nil)
    private static let running = Mutex<Set<Int32>>([])

    var endpoint: String { "\(scheme)://127.0.0.1:\(port)" }

    private init(_ options: [String], scheme: String) throws {
        (port, peerPort) = try (LoopbackSocket.freePort(), LoopbackSocket.freePort())
        directory = FileManager.default.temporaryDirectory.appending(path: "forge-etcd-\(UUID().uuidString)")
        self.options = options
        self.scheme = scheme
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        atexit { EtcdServer.running.withLock { for process in $0 { kill(process, SIGKILL) } } }
        try launch()
    }

    deinit {
        end()
        do { try FileManager.default.removeItem(at: directory) } catch {}
    }

    /// Starts the server and waits until it serves clients.
    func start() async throws { try await onThread { try self.launch() } }

    /// Kills the server.
    func stop() async throws { try await onThread { self.end() } }

    func restart() async throws {
        try await stop()
        try await start()
    }

    private func launch() throws {
        let process = Process()
        process.executableURL = URL(filePath: EtcdServer.executable ?? "/usr/bin/etcd")
        let peer = "http://127.0.0.1:\(peerPort)"
        process.arguments =
            [
                "--data-dir", directory.appending(path: "data").path, "--listen-client-urls", endpoint,
                "--advertise-client-urls", endpoint, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", "default=\(peer)", "--heartbeat-interval", "20", "--election-timeout", "200",
            ] + options
        try Data().write(to: directory.appending(path: "log"))
        let log = try FileHandle(forWritingTo: directory.appending(path: "log"))
        process.standardOutput = log
        process.standardError = log
        try process.run()
        let id = process.processIdentifier
        Self.running.withLock { _ = $0.insert(id) }
        self.process.withLock { $0 = process }
        let end = ContinuousClock.now + .seconds(20)
        while !FileManager.default.contents(atPath: directory.appending(path: "log").path).contains("ready to serve") {
            guard ContinuousClock.now < end, process.isRunning else { throw NotStarted(log: directory.path) }
            usleep(20_000)
        }
    }

    struct NotStarted: Error {
        var log: String
    }

    private func end() {
        guard let process = process.withLock({ $0.take() }) else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        Self.running.withLock { _ = $0.remove(process.processIdentifier) }
    }
}

/// Runs blocking work on a thread of its own, because the pool has few.
func onThread<Success: Sendable>(_ body: @escaping @Sendable () throws -> Success) async throws -> Success {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
}

extension Data? {
    fileprivate func contains(_ text: String) -> Bool { self?.range(of: Data(text.utf8)) != nil }
}
