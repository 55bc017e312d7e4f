import ChildProcesses
import EtcdServers
import Foundation
import S3Servers
import ServerTestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// `Examples/Fleet` as processes that share a real etcd, and moto as S3.
@Suite(
    "A fleet of two servers", .enabled(if: EtcdServer.isInstalled && MotoServer.isInstalled), .timeLimit(.minutes(10)))
struct FleetTests {
    @Test("shares sessions, settings and avatars; one is killed, the other goes on, and the first comes back")
    func sharing() async throws {
        let (etcd, s3) = (try await EtcdServer.started(), try await MotoServer.shared())
        var a = try await FleetProcess.started(etcd, s3)
        let b = try await FleetProcess.started(etcd, s3)
        let image = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })

        let token = try await a.signIn("Ada")
        #expect(try await b.greeting(token) == "Hello, Ada")
        #expect(try await b.status("GET", "greeting", token: "unknown") == 401)

        #expect(try await a.status("PUT", "greeting", token: token, body: Data("Welcome".utf8)) == 204)
        #expect(try await a.greeting(token) == "Welcome, Ada", "a server sees its own change at once")
        try await b.waitForGreeting("Welcome, Ada", token, within: .seconds(1))

        #expect(try await b.status("GET", "avatar", token: token) == 404)
        #expect(try await a.status("PUT", "avatar", token: token, body: image) == 204)
        #expect(try await b.request("GET", "avatar", token: token).body == image)

        await a.kill()
        await #expect(throws: (any Error).self) { try await a.greeting(token) }
        #expect(try await b.greeting(token) == "Welcome, Ada")
        #expect(try await b.request("GET", "avatar", token: token).body == image)
        #expect(try await b.status("PUT", "greeting", token: token, body: Data("Hi".utf8)) == 204)
        let other = try await b.signIn("Grace")
        #expect(try await b.status("DELETE", "sessions", token: token) == 204)
        #expect(try await b.status("GET", "health") == 200)

        a = try await FleetProcess.started(etcd, s3)
        #expect(try await a.greeting(other) == "Hi, Grace")
        #expect(
            try await a.status("GET", "greeting", token: token) == 401, "the session was cleared at the other server")
        #expect(try await a.status("PUT", "greeting", token: other, body: Data("Again".utf8)) == 204)
        try await b.waitForGreeting("Again, Grace", other, within: .seconds(1))
        let returned = try await a.signIn("Ada")
        #expect(try await a.request("GET", "avatar", token: returned).body == image)
    }

    @Test("starts without etcd from its copy of the settings, says so, and catches up")
    func withoutEtcd() async throws {
        let (etcd, s3) = (try await EtcdServer.started(), try await MotoServer.shared())
        let copy = FileManager.default.temporaryDirectory.appending(path: "fleet-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: copy) } catch {} }
        let first = try await FleetProcess.started(etcd, s3, "--settings-copy", copy.path)
        let token = try await first.signIn("Ada")
        #expect(try await first.status("PUT", "greeting", token: token, body: Data("Welcome".utf8)) == 204)
        await first.kill()

        try await etcd.stop()
        await #expect(throws: FleetProcess.NotStarted.self) { _ = try await FleetProcess.started(etcd, s3) }
        let second = try await FleetProcess.started(etcd, s3, "--settings-copy", copy.path)
        #expect(try await second.status("GET", "health") == 503)
        #expect(try await second.status("GET", "greeting", token: token) == 503, "there is no session without etcd")

        try await etcd.start()
        while try await second.status("GET", "health") != 200 { try await Task.sleep(for: .milliseconds(50)) }
        #expect(try await second.greeting(token) == "Welcome, Ada")
    }

    @Test("stops at SIGTERM without an error")
    func stopping() async throws {
        let server = try await FleetProcess.started(try await EtcdServer.shared(), try await MotoServer.shared())
        #expect(try await server.status("GET", "health") == 200)
        #expect(await server.stop() == 0)
    }
}

/// The built example as a process of its own, on a free port; it is killed with the object.
final class FleetProcess: Sendable {
    struct NotStarted: Error {
        var output: String
    }

    private let process: ChildProcess
    private let port: Int

    /// Starts a server and waits until it listens.
    static func started(_ etcd: EtcdServer, _ s3: MotoServer, _ options: String...) async throws -> FleetProcess {
        try await onThread { try FleetProcess(etcd, s3, options) }
    }

    private init(_ etcd: EtcdServer, _ s3: MotoServer, _ options: [String]) throws {
        let arguments =
            ["--port", "0", "--etcd", etcd.endpoint, "--s3", s3.endpoint, "--bucket", MotoServer.bucket] + options
        let credentials = ["AWS_ACCESS_KEY_ID": s3.accessKeyID, "AWS_SECRET_ACCESS_KEY": s3.secretAccessKey]
        let errors = Pipe()
        process = try ChildProcess(
            Self.executable(), arguments, environment: ProcessInfo.processInfo.environment.merging(credentials) { $1 },
            errors: .pipe(errors))
        var text = ""
        while true {
            let data = errors.fileHandleForReading.availableData
            guard !data.isEmpty else {
                process.wait()
                throw NotStarted(output: text)
            }
            text += String(decoding: data, as: UTF8.self)
            if let match = text.firstMatch(of: /listening on 127\.0\.0\.1:(\d+)\n/), let port = Int(match.1) {
                self.port = port
                break
            }
        }
        // A full pipe would stop the server.
        Thread.detachNewThread { while !errors.fileHandleForReading.availableData.isEmpty {} }
    }

    deinit { process.send(SIGKILL) }

    /// Kills the server and waits for its end.
    func kill() async { _ = await end(by: SIGKILL) }

    /// Asks the server to stop and returns its exit status.
    func stop() async -> Int32 { await end(by: SIGTERM) }

    private func end(by signal: Int32) async -> Int32 {
        process.send(signal)
        let process = process
        do {
            return try await onThread {
                switch process.wait() {
                case .exit(let status), .signal(let status): status
                }
            }
        } catch {
            return -1
        }
    }

    /// The executable that the same build has put beside the test bundle.
    private static func executable() throws -> String {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appendingPathComponent("FleetServer")
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate.path }
        }
        throw NotStarted(output: "the server was not built")
    }
}

// MARK: Requests

extension FleetProcess {
    func signIn(_ name: String) async throws -> String {
        let answer = try await request("POST", "sessions", body: Data(#"{"name":"\#(name)"}"#.utf8))
        try #require(answer.status == 200)
        return try JSONDecoder().decode([String: String].self, from: answer.body)["token"] ?? ""
    }

    func greeting(_ token: String) async throws -> String {
        let answer = try await request("GET", "greeting", token: token)
        try #require(answer.status == 200)
        return String(decoding: answer.body, as: UTF8.self)
    }

    /// Waits until the server greets as expected, and requires that it took no longer than a time.
    func waitForGreeting(_ expected: String, _ token: String, within limit: Duration) async throws {
        let start = ContinuousClock.now
        while true {
            let greeting = try await greeting(token)
            let time = ContinuousClock.now - start
            guard greeting != expected else { return print("the setting arrived after \(time)") }
            try #require(time < limit, "still \(greeting) after \(time)")
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    func status(_ method: String, _ path: String, token: String? = nil, body: Data? = nil) async throws -> Int {
        try await request(method, path, token: token, body: body).status
    }

    func request(
        _ method: String, _ path: String, token: String? = nil, body: Data? = nil
    ) async throws -> (status: Int, body: Data) {
        guard let url = URL(string: "http://127.0.0.1:\(port)/\(path)") else { throw URLError(.badURL) }
        var request = URLRequest(url: url, timeoutInterval: 60)
        request.httpMethod = method
        request.httpBody = body
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.setValue(token, forHTTPHeaderField: "Authorization")
        let (data, response) = try await URLSession.shared.data(for: request)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, data)
    }
}
