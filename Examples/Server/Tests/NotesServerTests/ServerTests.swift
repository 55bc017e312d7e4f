import Foundation
import Synchronization
import Testing

/// The built server as a second process.
@Suite(.timeLimit(.minutes(2)))
final class ServerTests: Sendable {
    private let directory = FileManager.default.temporaryDirectory.appendingPathComponent("notes-\(UUID())")

    deinit { try? FileManager.default.removeItem(at: directory) }

    @Test func keepsNotesAndSessionsAfterSIGTERM() async throws {
        let first = try ServerProcess(directory)
        let token = try await first.signIn("Ada")
        #expect(try await first.add("one", token) == ["one"])
        #expect(try await first.status("GET", "health") == 200)
        first.send(SIGTERM)
        let end = await first.end()
        #expect(end.reason == .exit && end.status == 0, "\(end)")

        let second = try ServerProcess(directory)
        #expect(try await second.notes(token) == ["one"])
        #expect(try await second.status("DELETE", "sessions", token: token) == 204)
        #expect(try await second.status("GET", "notes", token: token) == 401)
    }

    /// A note was acknowledged if its request was answered.
    @Test func keepsAcknowledgedNotesAfterAKill() async throws {
        let first = try ServerProcess(directory)
        let token = try await first.signIn("Ada")
        let acknowledged = NoteSet()
        await withTaskGroup(of: Void.self) { group in
            for writer in 0..<4 {
                group.addTask {
                    for number in 0... {
                        let note = "\(writer)-\(number)"
                        do {
                            try await first.add(note, token)
                        } catch {
                            return  // Killed.
                        }
                        if acknowledged.insert(note) == 40 { first.send(SIGKILL) }
                    }
                }
            }
        }
        let end = await first.end()
        #expect(end.reason == .uncaughtSignal && end.status == SIGKILL, "\(end)")

        let notes = try await ServerProcess(directory).notes(token)
        #expect(acknowledged.notes.subtracting(notes) == [])
        #expect(Set(notes).count == notes.count)
    }

    /// Sends SIGTERM after half of a request that adds the note "last", and returns when the server accepts no
    /// connection.
    private func stopDuringRequest(_ server: ServerProcess, _ token: String) async throws -> Connection {
        let connection = try Connection(port: server.port)
        // The answer to the first request shows that the server has read the beginning of the second.
        try connection.write(
            """
            GET /health HTTP/1.1\r
            Host: localhost\r
            \r
            POST /notes HTTP/1.1\r
            Host: localhost\r
            Authorization: \(token)\r
            Content-Length: 4\r
            \r
            la
            """)
        #expect(connection.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 200"))
        server.send(SIGTERM)
        while (try? Connection(port: server.port)) != nil { await Task.yield() }
        return connection
    }

    @Test func answersARequestThatHasBegunBeforeItStops() async throws {
        let server = try ServerProcess(directory)
        let token = try await server.signIn("Ada")
        let connection = try await stopDuringRequest(server, token)
        try connection.write("st")
        let answer = connection.read(until: "]")
        #expect(answer.hasPrefix("HTTP/1.1 200") && answer.hasSuffix(#"["last"]"#), "\(answer)")
        #expect(await server.end().status == 0)
        #expect(try await ServerProcess(directory).notes(token) == ["last"])
    }

    @Test(arguments: [SIGQUIT, nil]) func exitsWithAnErrorIfTheShutdownIsForced(_ second: Int32?) async throws {
        // Without a second signal the request outlasts the time for a shutdown.
        let server = try ServerProcess(directory, "--patience", second == nil ? "1" : "100")
        let token = try await server.signIn("Ada")
        try await server.add("kept", token)
        let connection = try await stopDuringRequest(server, token)
        defer { withExtendedLifetime(connection) {} }
        if let second { server.send(second) }
        let end = await server.end()
        #expect(end.reason == .exit && end.status == 1, "\(end)")
        #expect(end.errors.split(separator: "\n").contains { $0.hasPrefix("Error: the shutdown was forced") }, "\(end)")
        #expect(try await ServerProcess(directory).notes(token) == ["kept"])
    }

    /// Found by the next flush.
    @Test func stopsWithAnErrorIfTheStoreWasRemoved() async throws {
        let server = try ServerProcess(directory)
        _ = try await server.add("lost", server.signIn("Ada"))
        try FileManager.default.removeItem(at: directory)
        let end = await server.end()
        #expect(end.reason == .exit && end.status == 1, "\(end)")
        #expect(end.errors.split(separator: "\n").contains { $0.hasPrefix("Error: synchronize in ") }, "\(end)")
    }

    @Test func refusesADirectoryInUseWithOneLine() async throws {
        let first = try ServerProcess(directory)
        let second = try await ServerProcess.failing(directory.path, "--port", "0")
        #expect(second.status == 1)
        #expect(second.errors.split(separator: "\n").count == 1, "\(second.errors)")
        #expect(second.errors.contains("in use"), "\(second.errors)")
        _ = first
    }

    @Test func twoProcessesShareTheirNotes() async throws {
        let first = try ServerProcess(directory, "--shared")
        let second = try ServerProcess(directory, "--shared")
        let token = try await first.signIn("Ada")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for server in [first, second] {
                group.addTask { for number in 0..<20 { try await server.add("\(server.port)-\(number)", token) } }
            }
            try await group.waitForAll()
        }
        #expect(try await first.notes(token).count == 40)
        #expect(try await first.notes(token) == second.notes(token))
    }

    @Test func refusesUnknownTokensAndLongNotes() async throws {
        let server = try ServerProcess(directory)
        #expect(try await server.status("GET", "notes") == 401)
        #expect(try await server.status("GET", "notes", token: "unknown") == 401)
        let token = try await server.signIn("Ada")
        let error = await #expect(throws: ServerProcess.Refused.self) {
            try await server.add(String(repeating: "x", count: 5_000), token)
        }
        #expect(error?.status == 413)
    }
}

/// The notes that were acknowledged.
private final class NoteSet: Sendable {
    private let state = Mutex<Set<String>>([])

    var notes: Set<String> { state.withLock { $0 } }

    /// Returns the number of notes.
    func insert(_ note: String) -> Int {
        state.withLock { notes in
            notes.insert(note)
            return notes.count
        }
    }
}
