import ArgumentParser
import ChildProcesses
import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

@Suite("watch and du")
struct WatchTests {
    /// Starts `forge watch`, calls `change` once it watches, and returns its end and the lines it printed.
    private func watch(
        _ words: [String], prefix: [String] = [], errors: ChildProcess.Stream = .inherited,
        _ change: (ChildProcess) async throws -> Void
    ) async throws -> (end: ChildProcess.End, lines: [String]) {
        let output = Pipe()
        let command = prefix + [try CommandRun.executable(), "watch"] + words
        let process = try ChildProcess(
            command[0], Array(command.dropFirst()), output: .pipe(output), errors: errors)
        var text = ""
        while !text.hasSuffix("\n") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { break }
            text += String(decoding: data, as: UTF8.self)
        }
        try await change(process)
        let end = process.wait(killingAfter: .seconds(60))
        text += String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        return (end, text.split(separator: "\n").map(String.init))
    }

    @Test("changes and removals of keys are printed", .timeLimit(.minutes(10)))
    func keys() async throws {
        let fixture = try await StoreFixture()
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        let words = ["kv:\(fixture.scratch.path("kv"))", "--interval", "0.02", "--count", "3"]
        let (end, lines) = try await watch(words) { _ in
            try store.batch { batch in
                try batch.set(KVKey<Int>("new"), value: 1)
                batch.remove(KVKey<String>("name"))
            }
        }
        #expect(end == .exit(0) && lines == ["resync", "changed  new", "removed  name"], "\(end) \(lines)")
    }

    @Test("a change is printed if a store with equal revisions takes the place of another", .timeLimit(.minutes(10)))
    func otherStore() async throws {
        let fixture = try await StoreFixture()
        let other = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("other"))
        try other.set(KVKey<String>("name"), value: "dawn")
        try other.close()
        let words = ["kv:\(fixture.scratch.path("kv"))", "--interval", "0.02", "--count", "2"]
        let (end, lines) = try await watch(words) { _ in
            try #require(rename(fixture.scratch.path("other/log"), fixture.scratch.path("kv/log")) == 0)
        }
        #expect(end == .exit(0) && lines == ["resync", "changed  name"], "\(end) \(lines)")
    }

    @Test("a signal that asks a watch to end does so, without a message", arguments: [SIGTERM, SIGHUP])
    func signals(signal: CInt) async throws {
        let fixture = try await StoreFixture()
        let errors = try ChildProcess.unnamedFile()
        let (end, lines) = try await watch(["kv:\(fixture.scratch.path("kv"))"], errors: .file(errors)) {
            $0.send(signal)
        }
        #expect(end == .signal(signal) && lines == ["resync"], "\(end) \(lines)")
        #expect(try ChildProcess.content(of: errors).isEmpty)
    }

    @Test("control-C does not end a watch whose caller ignores it")
    func ignoredSignal() async throws {
        let fixture = try await StoreFixture()
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        let (end, lines) = try await watch(
            ["kv:\(fixture.scratch.path("kv"))", "--interval", "0.02", "--count", "2"],
            prefix: ["/bin/sh", "-c", "trap '' INT; exec \"$0\" \"$@\""]
        ) {
            $0.send(SIGINT)
            try store.set(KVKey<Int>("new"), value: 1)
        }
        #expect(end == .exit(0) && lines == ["resync", "changed  new"], "\(end) \(lines)")
    }

    @Test("a key-value store that is removed while it is watched is not found")
    func removedStore() async throws {
        let fixture = try await StoreFixture()
        let errors = try ChildProcess.unnamedFile()
        let path = fixture.scratch.path("kv")
        let (end, lines) = try await watch(["kv:\(path)", "--interval", "0.02"], errors: .file(errors)) { _ in
            try FileManager.default.removeItem(atPath: "\(path)/log")
        }
        #expect(end == .exit(4) && lines == ["resync"], "\(end) \(lines)")
        let message = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
        #expect(message == "Error: no store here: there is no key-value store at \(path)\n")
    }

    @Test(
        "a key-value store that cannot be read any more ends its watch", .enabled(if: CommandRun.obeyingModes != nil))
    func unreadableStore() async throws {
        let fixture = try await StoreFixture()
        let (errors, path) = (try ChildProcess.unnamedFile(), fixture.scratch.path("kv"))
        defer { chmod(path, 0o700) }
        let (end, lines) = try await watch(
            ["kv:\(path)", "--interval", "0.02"], prefix: #require(CommandRun.obeyingModes), errors: .file(errors)
        ) { _ in
            try #require(chmod(path, 0) == 0)
        }
        #expect(end == .exit(1) && lines == ["resync"], "\(end) \(lines)")
        let message = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
        let reason = "unavailable: file system error: open .: Permission denied (EACCES)"
        #expect(message == "Error: read in \(path): \(reason)\n")
    }

    @Test("changes of files are printed", .timeLimit(.minutes(10)))
    func files() async throws {
        let fixture = try await StoreFixture()
        let files = DiskFileStore(root: fixture.scratch.url.appendingPathComponent("files"))
        let words = ["file:\(fixture.scratch.path("files"))", "--count", "2", "--json"]
        let (end, lines) = try await watch(words) { _ in
            try await files.save(Data("new".utf8), to: "a.txt")
        }
        #expect(end == .exit(0))
        #expect(
            lines == [
                "{\"action\":\"resync\",\"type\":\"change\"}",
                "{\"action\":\"changed\",\"key\":\"a.txt\",\"type\":\"change\"}",
            ])
    }

    @Test("the removal of a file is printed, and that of all keys as a change of anything", .timeLimit(.minutes(10)))
    func removals() async throws {
        let fixture = try await StoreFixture()
        let files = DiskFileStore(root: fixture.scratch.url.appendingPathComponent("files"))
        let removed = try await watch(["file:\(fixture.scratch.path("files"))", "--count", "2"]) { _ in
            try await files.delete("a.txt")
        }
        #expect(removed.end == .exit(0) && removed.lines == ["resync", "removed  a.txt"], "\(removed)")
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        let words = ["kv:\(fixture.scratch.path("kv"))", "--interval", "0.02", "--count", "2"]
        let emptied = try await watch(words) { _ in try store.removeAll() }
        #expect(emptied.end == .exit(0) && emptied.lines == ["resync", "resync"], "\(emptied)")
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
