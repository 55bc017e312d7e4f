import ChildProcesses
package import Foundation
import Synchronization

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
