import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

@Suite("Exit statuses")
struct ExitStatusTests {
    // Swift Testing has a type of the same name.
    private typealias ExitStatus = ForgeCommands.ExitStatus

    @Test("the statuses have the documented numbers")
    func numbers() {
        #expect(ExitStatus.allCases.map(\.rawValue) == [0, 1, 2, 4, 5, 6, 7, 8, 64, 69, 130])
    }

    @Test("an error of a library has the status of its cause")
    func ofErrors() {
        let cases: [(any Error, ExitStatus)] = [
            (KVStoreError(.unavailable(.inUse(processID: 1)), .open), .inUse),
            (KVStoreError(.noStore, .open), .notFound),
            (KVStoreError(.damaged, .open), .failure), (FileStoreError(.notFound, .load), .notFound),
            (FileStoreError(.invalidSource(.notFound), .copy), .notFound),
            (FileStoreError(.unavailable(.inUse(processID: nil)), .save), .inUse),
            (FileStoreError(.noSpace, .save), .failure), (FileStoreError(.unavailable(.server), .load), .unreachable),
            (FileStoreError(.unknownOutcome, .save), .unknownOutcome),
            (KVStoreError(.timeout, .read), .unreachable),
            (KVStoreError(.unavailable(.server), .read), .unreachable),
            (KVStoreError(.unknownOutcome, .batch), .unknownOutcome),
            (KVStoreError(.refused, .logIn), .failure), (KVStoreError(.cancelled, .read), .interrupted),
            (CommandFailure.notBuilt("a", trait: "b"), .notBuilt),
            (CryptError(.wrongKey, .get), .wrongKey), (CryptError(.unavailable(.inUse(processID: nil)), .set), .inUse),
            (CryptError(.tampered, .get), .failure), (FileSystemError(.open, .permissionDenied), .failure),
            (CancellationError(), .interrupted), (CommandFailure("", .partial), .partial),
        ]
        for (error, status) in cases { #expect(ExitStatus(of: error) == status, "\(error)") }
    }

    @Test("with --json, an error is one JSON object with the code, its word and the text")
    func errorsAsJSON() async throws {
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url.path
        let vault = ["\(root)/vault/v", "--key-file", "\(root)/other"]
        _ = try VaultKeyFile.loadOrCreate(at: fixture.scratch.url.appendingPathComponent("other"))
        let cases: [([String], Int32, String)] = [
            (["kv", "get", "\(root)/kv", "none"], 4, "notFound"), (["kv", "get", "\(root)/kv"], 64, "usage"),
            (["secret", "get"] + vault + ["token"], 6, "wrongKey"), (["check", "\(root)/none"], 4, "notFound"),
            (["file", "get", "\(root)/files", "a.txt"], 64, "usage"),
        ]
        for (arguments, code, kind) in cases {
            let run = try CommandRun(arguments + ["--json"])
            let failure = try run.failure()
            #expect(run.status == code, "\(run.errors)")
            #expect(failure["code"] as? Int32 == code)
            #expect(failure["kind"] as? String == kind)
            #expect((failure["message"] as? String)?.isEmpty == false)
            #expect(run.output.isEmpty)
        }
    }

    @Test("a store that another process has open exclusively is in use")
    func inUse() async throws {
        let fixture = try await StoreFixture()
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        for arguments in [
            ["kv", "set", fixture.scratch.path("kv"), "a", "1"], ["kv", "rm", fixture.scratch.path("kv"), "name"],
        ] {
            let run = try CommandRun(arguments)
            #expect(run.status == 5, "\(run.errors)")
            #expect(run.errorLines.count == 1)
        }
        withExtendedLifetime(store) {}
    }

    @Test("verbs that change an item print it with --json")
    func actions() async throws {
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url.path
        let vault = ["\(root)/vault/v", "--key-file", "\(root)/vault/key"]
        let cases: [([String], String)] = [
            (["kv", "set", "\(root)/kv", "a", "1"], "set"), (["kv", "rm", "\(root)/kv", "a"], "remove"),
            (["file", "set", "\(root)/files", "b"], "set"),
            (["file", "get", "\(root)/files", "b", "-o", "\(root)/o"], "get"),
            (["file", "rm", "\(root)/files", "b"], "remove"), (["secret", "set"] + vault + ["b"], "set"),
            (["secret", "rm"] + vault + ["b"], "remove"),
        ]
        for (arguments, action) in cases {
            let run = try CommandRun(arguments + ["--json"], input: "x")
            let rows = try run.rows()
            #expect(rows.count == 1)
            #expect(rows.first?["action"] as? String == action, "\(arguments) \(run.errors)")
            #expect(rows.first?["key"] as? String == (arguments[0] == "kv" ? "a" : "b"))
        }
        let secret = try CommandRun(["secret", "get"] + vault + ["token", "--json"])
        #expect(try secret.rows().first?["secret"] as? String == "s3cret")
        let demo = try CommandRun(["demo", "--json", "--directory", "\(root)/demo"])
        #expect(demo.status == 0, "\(demo.errors)")
        #expect(Set(try demo.rows().map { $0["store"] as? String }).count == 5)
    }
}
