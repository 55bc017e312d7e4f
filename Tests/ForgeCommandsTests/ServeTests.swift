import ChildProcesses
import Foundation
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

@Suite("forge serve") struct ServeTests {
    #if Inspector
    private func withDirectory(_ body: (URL) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "forge-serve-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        try body(directory)
    }

    @Test("prints one line for a directory that is missing, or is a file", arguments: ["missing", "file"])
    func noDirectory(name: String) throws {
        try withDirectory { directory in
            try Data().write(to: directory.appending(path: "file"))
            let run = try CommandRun(["serve", directory.appending(path: name).path])
            #expect(run.status == 4)
            #expect(run.output.isEmpty)
            #expect(run.errorLines.count == 1)
        }
    }

    @Test("prints one line if its URL cannot be printed, or a key not be read")
    func cannotServe() throws {
        try withDirectory { directory in
            let runs = [
                (try CommandRun(["serve", directory.path], to: .full), 1),
                (try CommandRun(["serve", directory.path, "--vault-key", "/missing"]), 4),
            ]
            for (run, status) in runs {
                #expect(run.status == Int32(status))
                #expect(run.errorLines.count == 1)
                #expect(run.errors.hasPrefix("Error: "))
            }
        }
    }

    @Test(
        "serves the page with the given keys until control-C, and permits edits only with --write",
        .timeLimit(.minutes(10)), arguments: [true, false])
    func serves(isWritable: Bool) async throws {
        let fixture = try await StoreFixture()
        #expect(try CommandRun(["backup", fixture.scratch.path("kv"), fixture.scratch.path("b")]).status == 0)
        let (output, errors) = (Pipe(), try ChildProcess.unnamedFile())
        let words = ["serve", fixture.scratch.url.path, "--vault-key", fixture.scratch.path("vault/key")]
        let process = try ChildProcess(
            CommandRun.executable(), words + (isWritable ? ["--write"] : []), output: .pipe(output),
            errors: .file(errors))
        defer { process.send(SIGKILL) }
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        let page = try #require(URL(string: String(line.dropLast())), "\(line)")
        let (port, token) = (try #require(page.port), try #require(page.fragment))
        #expect(line == "http://127.0.0.1:\(port)/#\(token)\n")
        func answer(_ path: String, posting body: String? = nil) async throws -> String {
            var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)/api/\(path)")))
            request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
            if let body {
                request.httpMethod = "POST"
                request.httpBody = Data(body.utf8)
                request.setValue("application/json", forHTTPHeaderField: "Content-Type")
                request.setValue("http://127.0.0.1:\(port)", forHTTPHeaderField: "Origin")
            }
            return String(decoding: try await URLSession.shared.data(for: request).0, as: UTF8.self)
        }
        let stores = try await answer("stores")
        #expect(stores.contains("\"isWritable\":\(isWritable)"), "\(stores)")
        let vault = try await answer("unlock", posting: "{\"store\":\"vault/v\"}")
        #expect(vault.contains("\"names\":[\"token\"]"), "\(vault)")
        let edits = "\"edits\":[{\"key\":\"new\",\"json\":\"1\"}]"
        let refused = try await answer("edits", posting: "{\"store\":\"b/content\",\(edits)}")
        #expect(refused.contains(isWritable ? "in a backup" : "--write"), "\(refused)")
        let made = try await answer("edits", posting: "{\"store\":\"kv\",\(edits)}")
        #expect(made.contains("\"applied\":1") == isWritable, "\(made)")
        #expect(try CommandRun(["restore", fixture.scratch.path("b"), fixture.scratch.path("r")]).status == 0)
        let second = try CommandRun(["serve", fixture.scratch.url.path, "--port", "\(port)"])
        #expect(second.status == 1 && second.output.isEmpty, "\(second.status) \(second.output)")
        #expect(second.errorLines.count == 1, "\(second.errors)")
        #expect(second.errors.hasPrefix("Error: cannot serve on 127.0.0.1:\(port): "), "\(second.errors)")
        process.send(SIGINT)
        #expect(process.wait(killingAfter: .seconds(60)) == .exit(0))
        #expect(try ChildProcess.content(of: errors).isEmpty)
    }
    #else
    @Test("says how to build it, with status 69, if it was built without the trait")
    func notBuilt() throws {
        let run = try CommandRun(["serve", "."])
        #expect(run.status == 69)
        #expect(run.output.isEmpty)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("swift build --traits Inspector"))
    }
    #endif

    @Test(
        "refuses an empty path and a port that is none",
        arguments: [["serve", ""], ["serve", ".", "--port", "70000"]])
    func usage(arguments: [String]) throws {
        #expect(try CommandRun(arguments).status == 64)
    }
}
