import ForgeStorage
import Foundation
import TestDepth
import Testing

@Suite("Standard output that cannot be written")
struct OutputFailureTests {
    @Test(
        "a verb whose output is lost fails with one line on standard error; a verb without output succeeds",
        arguments: TestDepth.pairs(Verb.all, [CommandRun.Destination.full, .closed, .brokenPipe]))
    func lostOutput(verb: Verb, destination: CommandRun.Destination) async throws {
        guard destination != .full || FileManager.default.fileExists(atPath: "/dev/full") else { return }
        let fixture = try await StoreFixture()
        try verb.prepare(fixture.scratch.url.path)
        let run = try CommandRun(
            verb.words(in: fixture.scratch.url.path), input: Data(verb.input.utf8), to: destination)
        #expect(!run.endedBySignal)
        #expect(run.status == (verb.prints ? 1 : 0), "\(run.errors)")
        #expect(run.errorLines.count == (verb.prints ? 1 : 0), "\(run.errors)")
        guard verb.prints else { return }
        let error =
            switch destination {
            case .file: ""
            case .full: "ENOSPC"
            case .closed: "EBADF"
            case .brokenPipe: "EPIPE"
            }
        #expect(run.errors.contains(error), "\(run.errors)")
        #expect(run.output.isEmpty)
    }

    @Test("a file stored while standard output is closed contains only its own content")
    func closedDescriptorIsNotReused() async throws {
        let fixture = try await StoreFixture()
        let before = try Data(contentsOf: fixture.scratch.url.appendingPathComponent("kv/log"))
        _ = try CommandRun(["kv", "list", fixture.scratch.path("kv")], to: .closed)
        #expect(try Data(contentsOf: fixture.scratch.url.appendingPathComponent("kv/log")) == before)
    }

    @Test("a verb that writes to a store of another process fails, any other one succeeds", arguments: Verb.all)
    func storeInUse(verb: Verb) async throws {
        let fixture = try await StoreFixture()
        try verb.prepare(fixture.scratch.url.path)
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(verb.words(in: fixture.scratch.url.path), input: Data(verb.input.utf8))
        #expect(run.status == (verb.needsKeyValueStore ? 5 : 0), "\(run.errors)")
        #expect(run.errorLines.count == (verb.needsKeyValueStore ? 1 : 0), "\(run.errors)")
        withExtendedLifetime(store) {}
    }

    @Test("a missing store is one line on standard error, and nothing is created", arguments: Verb.all)
    func missingStore(verb: Verb) throws {
        guard [.reads, .changes, .copies].contains(verb.access) else { return }
        let scratch = try Scratch()
        let run = try CommandRun(verb.words(in: scratch.path("none")), input: Data(verb.input.utf8))
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1, "\(run.errors)")
        #expect(run.errors.contains("there is no"), "\(run.errors)")
        #expect(run.output.isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }
}
