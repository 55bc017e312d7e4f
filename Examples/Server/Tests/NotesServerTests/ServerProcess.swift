import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The built server as a process of its own, on a free port.
final class ServerProcess: Sendable {
    let port: Int
    private let process: Process
    private let errors: Pipe
    private let ending: Task<Void, Never>

    /// Starts a server and waits until it accepts connections.
    init(_ directory: URL, _ options: String...) throws {
        (process, errors, ending) = try Self.start([directory.path, "--port", "0"] + options)
        var text = ""
        while true {
            let data = errors.fileHandleForReading.availableData
            guard !data.isEmpty else { throw NotStarted(output: text) }
            text += String(decoding: data, as: UTF8.self)
            if let match = text.firstMatch(of: /listening on 127\.0\.0\.1:(\d+)\n/), let port = Int(match.1) {
                self.port = port
                return
            }
        }
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// Starts a server that is expected to fail; returns its exit status and what it prints.
    static func failing(_ arguments: String...) async throws -> (status: Int32, errors: String) {
        let (process, errors, ending) = try start(arguments)
        await ending.value
        return (process.terminationStatus, Self.rest(errors))
    }

    /// Sends a signal, without waiting.
    func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    /// Waits for the end of the process; returns its exit status, or the number of the signal that killed it.
    func end() async -> (reason: Process.TerminationReason, status: Int32, errors: String) {
        await ending.value
        return (process.terminationReason, process.terminationStatus, Self.rest(errors))
    }

    private static func start(_ arguments: [String]) throws -> (Process, Pipe, Task<Void, Never>) {
        let process = Process()
        let errors = Pipe()
        process.executableURL = try executable()
        process.arguments = arguments
        process.standardError = errors
        let (ended, continuation) = AsyncStream<Void>.makeStream()
        process.terminationHandler = { _ in continuation.finish() }
        try process.run()
        return (process, errors, Task { for await _ in ended {} })
    }

    private static func rest(_ pipe: Pipe) -> String {
        String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    }

    /// The executable that the same build has put beside the test bundle.
    private static func executable() throws -> URL {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appendingPathComponent("NotesServer")
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        throw NotStarted(output: "the server was not built")
    }

    struct NotStarted: Error {
        var output: String
    }
}

// MARK: Requests

extension ServerProcess {
    struct Refused: Error {
        var status: Int
    }

    func signIn(_ name: String) async throws -> String {
        let answer: [String: String] = try await send("POST", "sessions", body: #"{"name":"\#(name)"}"#)
        return answer["token"] ?? ""
    }

    func notes(_ token: String) async throws -> [String] { try await send("GET", "notes", token: token) }

    @discardableResult
    func add(_ note: String, _ token: String) async throws -> [String] {
        try await send("POST", "notes", token: token, body: note)
    }

    func status(_ method: String, _ path: String, token: String? = nil) async throws -> Int {
        try await request(method, path, token: token).status
    }

    private func send<Answer: Decodable>(
        _ method: String, _ path: String, token: String? = nil, body: String? = nil
    ) async throws -> Answer {
        let (status, data) = try await request(method, path, token: token, body: body)
        guard status == 200 else { throw Refused(status: status) }
        return try JSONDecoder().decode(Answer.self, from: data)
    }

    private func request(
        _ method: String, _ path: String, token: String?, body: String? = nil
    ) async throws -> (status: Int, body: Data) {
        guard let url = URL(string: "http://127.0.0.1:\(port)/\(path)") else { throw URLError(.badURL) }
        var request = URLRequest(url: url, timeoutInterval: 30)
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.setValue(token, forHTTPHeaderField: "Authorization")
        let (data, response) = try await URLSession.shared.data(for: request)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, data)
    }
}
