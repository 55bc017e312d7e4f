import ChildProcesses
package import Foundation
import ServerTestSupport
import Synchronization

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

/// A server process with a log; it is killed with the object or this process.
package final class EtcdProcess: Sendable {
    package static let executable = ["/usr/bin/etcd", "/usr/local/bin/etcd", "/opt/homebrew/bin/etcd"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    package struct NotStarted: Error {
        /// The end of the server's log.
        package var log: String
    }

    private let arguments: [String]
    private let log: URL
    private let process = Mutex<ChildProcess?>(nil)
    private static let running = Mutex<Set<Int32>>([])
    private static let killsAtExit: Void = {
        atexit { EtcdProcess.running.withLock { for process in $0 { kill(process, SIGKILL) } } }
    }()

    package init(_ arguments: [String], log: URL) {
        self.arguments = arguments
        self.log = log
        Self.killsAtExit
    }

    deinit { end() }

    /// Whether the process has started and not ended.
    package var isRunning: Bool { process.withLock { $0?.isRunning == true } }

    /// Starts the server.
    package func launch() throws {
        try Data().write(to: log)
        let log = try FileHandle(forWritingTo: log)
        let process = try ChildProcess(
            Self.executable ?? "/usr/bin/etcd", arguments, output: .file(log), errors: .file(log))
        Self.running.withLock { _ = $0.insert(process.id) }
        self.process.withLock { $0 = process }
    }

    /// Waits until the started server serves clients.
    package func waitUntilReady() throws {
        let end = ContinuousClock.now + .seconds(30)
        while FileManager.default.contents(atPath: log.path)?.range(of: Data("ready to serve".utf8)) == nil {
            guard ContinuousClock.now < end, isRunning else {
                let text = FileManager.default.contents(atPath: log.path) ?? Data()
                throw NotStarted(log: String(decoding: text.suffix(500), as: UTF8.self))
            }
            usleep(20_000)
        }
    }

    /// Sends a signal to the process if it runs.
    package func send(_ signal: Int32) {
        process.withLock { $0?.send(signal) }
    }

    /// Kills the process and waits for its end.
    package func end() {
        guard let process = process.withLock({ $0.take() }) else { return }
        process.send(SIGKILL)
        process.wait()
        Self.running.withLock { _ = $0.remove(process.id) }
    }
}

/// Requests to the JSON gateway besides the store.
package struct Gateway: Sendable {
    private let endpoint: String

    package init(_ server: EtcdServer) { self.init(server.endpoint) }

    package init(_ endpoint: String) {
        self.endpoint = endpoint
    }

    package struct Refused: Error {
        package var answer: String
    }

    @discardableResult
    package func post(_ path: String, _ json: String, token: String? = nil) async throws -> String {
        let endpoint = endpoint
        return try await onThread {
            // The request as input: arguments are limited in length.
            let run = try ChildProcess.run(
                "/usr/bin/curl",
                ["-sS", "--fail-with-body", "-m", "10", "-d", "@-"]
                    + (token.map { ["-H", "Authorization: \($0)"] } ?? [])
                    + [endpoint + path], input: Data(json.utf8))
            let answer = String(decoding: run.output + run.errors, as: UTF8.self)
            guard run.end == .exit(0) else { throw Refused(answer: answer) }
            return answer
        }
    }
}

/// A proxy before the peer port of a member, through which the other members reach it.
///
/// While it blocks a sender, the bytes of its connections vanish in both directions, as in a network that drops
/// packets; these connections are cut when the block ends. A connection belongs to the member that its first request
/// names.
final class PeerProxy: Sendable {
    /// The connections that are blocked.
    enum Block: Hashable, Sendable {
        case none
        case all

        /// Those of the member with this identifier, the value of the header `X-Server-From`.
        case sender(String)
    }

    /// The present block, and the connections that any block has affected: their bytes stay lost.
    private final class State: Sendable {
        let block = Mutex((block: Block.none, blocked: Set<Int>()))

        func isBlocked(_ connection: Int, sender: String?) -> Bool {
            block.withLock { state in
                if state.block == .all || (sender != nil && state.block == sender.map(Block.sender)) {
                    state.blocked.insert(connection)
                }
                return state.blocked.contains(connection)
            }
        }
    }

    private let proxy: LoopbackProxy
    private let state: State

    var port: UInt16 { proxy.port }

    init(to target: UInt16) throws {
        let state = State()
        self.state = state
        proxy = try LoopbackProxy(to: target) { connection in
            let sender = SenderName()
            return { side, bytes in
                let name = sender.read(bytes, from: side)
                return state.isBlocked(connection, sender: name) ? .drop : .pass
            }
        }
    }

    /// Blocks connections from now on, and cuts those that were blocked before.
    func set(_ block: Block) {
        let blocked = state.block.withLock { state in
            state.block = block
            return state.blocked
        }
        proxy.cut { blocked.contains($0) }
    }
}

/// The member that the first request of a connection names.
private final class SenderName: Sendable {
    private let name = Mutex<String?>(nil)

    func read(_ bytes: ArraySlice<UInt8>, from side: LoopbackProxy.Side) -> String? {
        name.withLock { name in
            if side == .client, name == nil {
                let lines = String(decoding: bytes.prefix(4096), as: UTF8.self).split(separator: "\r\n")
                name = lines.first { $0.lowercased().hasPrefix("x-server-from: ") }.map { String($0.dropFirst(15)) }
            }
            return name
        }
    }
}

/// A small file system in memory that can be filled; needs Linux and the right to mount.
package final class TemporaryDisk: Sendable {
    package let directory: URL
    private var filler: URL { directory.appending(path: "filler") }

    package struct NotMounted: Error {
        package var reason: String
    }

    /// Mounts a new file system.
    package init(sizeInBytes: Int) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "forge-disk-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        do {
            try Self.run("mount", "-t", "tmpfs", "-o", "size=\(sizeInBytes)", "tmpfs", directory.path)
        } catch {
            try FileManager.default.removeItem(at: directory)
            throw error
        }
    }

    deinit {
        do {
            try Self.run("umount", "-l", directory.path)
            try FileManager.default.removeItem(at: directory)
        } catch {
            print("cannot unmount \(directory.path): \(error)")
        }
    }

    /// Whether file systems can be mounted here.
    package static let isPermitted: Bool = {
        do {
            _ = try TemporaryDisk(sizeInBytes: 1 << 20)
            return true
        } catch {
            return false
        }
    }()

    /// Takes all space.
    package func fill() {
        let file = open(filler.path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        guard file >= 0 else { return }
        for size in [1 << 20, 1 << 12] {
            let block = [UInt8](repeating: 1, count: size)
            while write(file, block, size) > 0 {}
        }
        close(file)
    }

    /// Frees the space.
    package func free() throws {
        if FileManager.default.fileExists(atPath: filler.path) { try FileManager.default.removeItem(at: filler) }
    }

    private static func run(_ command: String, _ arguments: String...) throws {
        let run = try ChildProcess.run("/bin/\(command)", arguments)
        guard run.end == .exit(0) else { throw NotMounted(reason: String(decoding: run.errors, as: UTF8.self)) }
    }
}
