import ArgumentParser
import ChildProcesses
import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

@Suite("watch and du")
struct WatchTests {
    /// Starts `forge watch`, calls `change` once it watches, and returns the lines it printed.
    private func watch(_ words: [String], _ change: () async throws -> Void) async throws -> [String] {
        let output = Pipe()
        let process = try ChildProcess(CommandRun.executable(), ["watch"] + words, output: .pipe(output))
        var text = ""
        while !text.hasSuffix("\n") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { break }
            text += String(decoding: data, as: UTF8.self)
        }
        try await change()
        text += String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(process.wait() == .exit(0))
        return text.split(separator: "\n").map(String.init)
    }

    @Test("changes and removals of keys are printed", .timeLimit(.minutes(10)))
    func keys() async throws {
        let fixture = try await StoreFixture()
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        let words = ["kv:\(fixture.scratch.path("kv"))", "--interval", "0.02", "--count", "3"]
        let lines = try await watch(words) {
            try store.batch { batch in
                try batch.set(KVKey<Int>("new"), value: 1)
                batch.remove(KVKey<String>("name"))
            }
        }
        #expect(lines == ["resync", "changed  new", "removed  name"])
    }

    @Test("changes of files are printed", .timeLimit(.minutes(10)))
    func files() async throws {
        let fixture = try await StoreFixture()
        let files = DiskFileStore(root: fixture.scratch.url.appendingPathComponent("files"))
        let lines = try await watch(["file:\(fixture.scratch.path("files"))", "--count", "2", "--json"]) {
            try await files.save(Data("new".utf8), to: "a.txt")
        }
        #expect(
            lines == [
                "{\"action\":\"resync\",\"type\":\"change\"}",
                "{\"action\":\"changed\",\"key\":\"a.txt\",\"type\":\"change\"}",
            ])
    }

    @Test("the interval and the number of lines have limits, which are allowed themselves")
    func limits() throws {
        for words in [["--interval", "0.01"], ["--interval", "86400"], ["--count", "1"]] {
            _ = try WatchCommand.parse(["kv:a"] + words)
        }
        for words in [
            ["--interval", "0.0099"], ["--interval", "86400.1"], ["--interval", "nan"], ["--count", "0"],
            ["--count=-1"],
        ] {
            #expect(throws: (any Error).self, "\(words)") { try WatchCommand.parse(["kv:a"] + words) }
        }
    }

    @Test("a place without a store is one line on standard error", arguments: ["kv", "file"], ["none", "regular"])
    func noStore(scheme: String, name: String) throws {
        let scratch = try Scratch()
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("regular"))
        let run = try CommandRun(["watch", "\(scheme):\(scratch.path(name))", "--count", "1"])
        #expect(run.status == 4 && run.output.isEmpty, "\(run.status) \(run.output)")
        #expect(run.errorLines.count == 1, "\(run.errors)")
    }

    @Test("the sizes of all stores are printed with their sum")
    func diskUsage() async throws {
        let fixture = try await StoreFixture()
        try Data(count: 100).write(to: fixture.scratch.url.appendingPathComponent("mine"))
        try FileManager.default.createDirectory(
            at: fixture.scratch.url.appendingPathComponent("files/d"), withIntermediateDirectories: true)
        try Data(count: 7).write(to: fixture.scratch.url.appendingPathComponent("files/d/b"))
        let run = try CommandRun(["du", fixture.scratch.url.path, "--json"])
        #expect(run.status == 0, "\(run.errors)")
        let rows = try run.rows()
        #expect(rows.map { $0["path"] as? String } == ["", "files", "kv", "vault"])
        #expect(rows.map { $0["kind"] as? String } == ["directory", "file store", "key-value store", "vaults"])
        let sizes = rows.compactMap { $0["bytes"] as? Int }
        let paths = try FileManager.default.subpathsOfDirectory(atPath: fixture.scratch.url.path)
        let lengths = try paths.map { path in
            let attributes = try FileManager.default.attributesOfItem(atPath: fixture.scratch.path(path))
            return attributes[.type] as? FileAttributeType == .typeRegular ? attributes[.size] as? Int ?? 0 : 0
        }
        #expect(sizes[0] == 100)
        #expect(try run.summary()["bytes"] as? Int == lengths.reduce(0, +))
        #expect(sizes.reduce(0, +) == lengths.reduce(0, +))
        #expect(try CommandRun(["du", fixture.scratch.url.path]).output.contains("file store"))
    }
}
