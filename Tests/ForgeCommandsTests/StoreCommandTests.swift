import ArgumentParser
import ChildProcesses
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeCommands

/// A store in memory, in which another process sets a key after each of the first reads.
private final class ContestedStore: CommandKVStore {
    private let base = LocalAsyncKVStore(InMemoryKVStore())
    /// What the other process sets, in the order of the reads.
    private let others: [[UInt8]]
    let readCount = Mutex(0)

    init(_ others: [[UInt8]]) {
        self.others = others
    }

    func capabilities() async -> AsyncKVCapabilities { await base.capabilities() }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        let entry = try await base.entry(named: name)
        let number = readCount.withLock { count -> Int in
            count += 1
            return count - 1
        }
        if number < others.count {
            var batch = KVBatch()
            batch.append(.set(name: name, bytes: others[number]))
            _ = try await base.commit(batch, timeToLive: nil)
        }
        return entry
    }

    func leasedEntry(named name: String) async throws(KVStoreError) -> (entry: KVEntry, isLeased: Bool)? {
        guard let entry = try await entry(named: name) else { return nil }
        return (entry, false)
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try await base.commit(batch, timeToLive: timeToLive)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}

struct StoreCommandTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("a file store whose creation was interrupted after its journal is completed by the next change")
    func interruptedCreation() throws {
        let store = scratch.url.appendingPathComponent("files")
        try FileManager.default.createDirectory(at: store, withIntermediateDirectories: true)
        try Data().write(to: store.appendingPathComponent("#journal-0"))
        try Data("content".utf8).write(to: scratch.url.appendingPathComponent("source"))
        for key in ["a", "d/b"] {
            let run = try CommandRun(["file", "set", store.path, key, scratch.path("source")])
            #expect(run.status == 0, "\(run.errors)")
        }
        let list = try CommandRun(["file", "list", "--json", store.path])
        #expect(try list.rows().compactMap { $0["key"] as? String }.sorted() == ["a", "d/b"])
    }

    @Test("several processes store in a file store that does not exist yet, and none fails", arguments: 0..<4)
    func concurrentCreation(round: Int) throws {
        let store = scratch.path("files")
        // Started before the first one is waited for: they meet while they create the store.
        let processes = try (0..<12).map { number in
            let errors = try ChildProcess.unnamedFile()
            let words = ["file", "set", store, "\(number)"]
            return (try ChildProcess(CommandRun.executable(), words, output: .null, errors: .file(errors)), errors)
        }
        for (process, errors) in processes {
            let end = process.wait()
            let text = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
            #expect(end == .exit(0), "\(text)")
        }
        #expect(try CommandRun(["file", "list", "--json", store]).rows().count == 12)
    }

    @Test("a value stored as JSON or text is read back by another process")
    func keyValue() throws {
        let store = scratch.path("settings")
        for (key, value) in [("count", "42"), ("name", "dusk"), ("flag", "true"), ("list", "[1,2.5,null]")] {
            #expect(try CommandRun(["kv", "set", store, key, value]).status == 0)
        }
        #expect(try CommandRun(["kv", "set", store, "text", "42", "--string"]).status == 0)
        #expect(try CommandRun(["kv", "get", store, "count"]).output == "42\n")
        #expect(try CommandRun(["kv", "get", store, "name"]).output == "dusk\n")
        #expect(try CommandRun(["kv", "get", store, "name", "--json"]).output == "\"dusk\"\n")
        #expect(try CommandRun(["kv", "get", store, "text", "--json"]).output == "\"42\"\n")
        let list = "[\n  1,\n  2.5,\n  null\n]\n"
        for options in [[], ["--json"]] {
            #expect(try CommandRun(["kv", "get", store, "list"] + options).output == list)
        }
        let listing = try CommandRun(["kv", "list", store, "--json"])
        let rows = try listing.rows()
        #expect(rows.map { $0["key"] as? String } == ["count", "flag", "list", "name", "text"])
        #expect(rows[1]["value"] as? Bool == true)
        #expect(try CommandRun(["kv", "list", store]).output.contains("dusk"))
        #expect(try CommandRun(["kv", "rm", store, "count"]).status == 0)
        let gone = try CommandRun(["kv", "get", store, "count"])
        #expect(gone.status == 4)
        #expect(gone.errorLines.count == 1)
        #expect(try CommandRun(["kv", "rm", store, "count"]).status == 4)
    }

    @Test("setting the output of get keeps a date's type and a value's schema version")
    func whatGetShows() throws {
        let store = scratch.path("settings")
        let date = KVKey<Date>("date")
        let versioned = KVKey<Int>("versioned", migrations: [.from(1) { (old: String) in old.count }])
        do {
            let settings = try FileKVStore(at: URL(filePath: store))
            try settings.set(date, value: Date(timeIntervalSince1970: 1_000_000.125))
            try settings.set(versioned, value: 1)
        }
        for key in ["date", "versioned"] {
            let shown = try CommandRun(["kv", "get", store, key]).output.dropLast()
            #expect(try CommandRun(["kv", "set", store, key, String(shown)]).status == 0)
        }
        #expect(try CommandRun(["kv", "set", store, "date", "soon"]).status != 0)
        let settings = try FileKVStore(at: URL(filePath: store))
        #expect(try settings.read(date) == Date(timeIntervalSince1970: 1_000_000.125))
        #expect(try settings.read(versioned) == 1)
        let bytes = try #require(try settings.rawValue(named: "versioned"))
        #expect(try ValueEnvelope(decoding: bytes).schemaVersion == 2)
    }

    @Test("a date is replaced by the text of another one as a date, and by any other value as that value")
    func replacedDate() throws {
        let (store, date) = (scratch.path("settings"), KVKey<Date>("date"))
        do {
            try FileKVStore(at: URL(filePath: store)).set(date, value: Date(timeIntervalSince1970: 1))
        }
        #expect(try CommandRun(["kv", "set", store, "date", "2020-01-01T00:00:00.000Z"]).status == 0)
        do {
            let settings = try FileKVStore(at: URL(filePath: store))
            #expect(try settings.read(date) == Date(timeIntervalSince1970: 1_577_836_800))
        }
        let refused = try CommandRun(["kv", "set", store, "date", "soon"])
        #expect(refused.status == 64, "\(refused.errors)")
        #expect(refused.errors.contains("date is a date, but soon is not. Pass --string to store a text."))
        #expect(try CommandRun(["kv", "set", store, "date", "5"]).status == 0)
        #expect(try CommandRun(["kv", "get", store, "date"]).output == "5\n")
    }

    @Test("kv set replaces what another process writes meanwhile and keeps its version, but gives up at the ninth time")
    func contestedKey() async throws {
        let values = try (1...9).map { version in
            try ValueEnvelope(schemaVersion: UInt32(version), payload: CodedValue.bool(true).encoded()).encoded
        }
        let set = try KVCommand.Set.parse(["store", "key", "text"])
        let store = ContestedStore(Array(values.prefix(8)))
        try await set.setValue(in: OpenedKVStore(store))
        #expect(store.readCount.withLock { $0 } == 9)
        let entry = try await store.entry(named: "key")
        let envelope = try ValueEnvelope(decoding: #require(entry).bytes)
        #expect(envelope.schemaVersion == 8)
        #expect(try CodedValue(decoding: envelope) == .string("text"))

        let busy = ContestedStore(values)
        let error = await #expect(throws: KVStoreError.self) { try await set.setValue(in: OpenedKVStore(busy)) }
        #expect(error?.code == .conflict)
        #expect(busy.readCount.withLock { $0 } == 9)
        #expect(try await busy.entry(named: "key")?.bytes == values[8])
    }

    @Test("kv set and kv rm fail if the change cannot be flushed", arguments: ["set", "rm"])
    func unflushed(verb: String) async throws {
        let isFailing = Mutex(false)
        let fileSystem = InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
            guard call.operation == .synchronize, isFailing.withLock({ $0 }) else { return }
            throw FileSystemError(.synchronize, .ioError)
        }
        let store = try FileKVStore(at: POSIXPath("/kv"), fileSystem: fileSystem)
        try store.set(KVKey<Int>("key"), value: 1)
        let opened = OpenedKVStore(store)
        let set = try KVCommand.Set.parse(["store", "key", "2"])
        let remove = try KVCommand.Remove.parse(["store", "key"])
        isFailing.withLock { $0 = true }
        await #expect(throws: KVStoreError.self) {
            if verb == "set" { try await set.setValue(in: opened) } else { try await remove.removeValue(in: opened) }
        }
        isFailing.withLock { $0 = false }
    }

    @Test("a list truncates a long value with an ellipsis, get prints all of it")
    func longValue() throws {
        let store = scratch.path("settings")
        let value = String(repeating: "x", count: 200)
        #expect(try CommandRun(["kv", "set", store, "long", value]).status == 0)
        let list = try CommandRun(["kv", "list", store])
        #expect(list.output.contains("xxx…\n"), "\(list.output)")
        #expect(!list.output.contains(value))
        #expect(try CommandRun(["kv", "get", store, "long"]).output == value + "\n")
    }

    @Test("a mistyped store is reported, not created", arguments: [["kv", "list"], ["file", "list"], ["kv", "get"]])
    func missingStore(command: [String]) throws {
        let extra = command[1] == "get" ? ["key"] : []
        let run = try CommandRun(command + [scratch.path("typo")] + extra)
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1)
        #expect(!FileManager.default.fileExists(atPath: scratch.path("typo")))
    }

    @Test("a file stored from a path or standard input is read back")
    func files() throws {
        let store = scratch.path("files")
        try Data("from a file".utf8).write(to: scratch.url.appendingPathComponent("source"))
        #expect(try CommandRun(["file", "set", store, "a/one.txt", scratch.path("source")]).status == 0)
        #expect(try CommandRun(["file", "set", store, "a/two.txt"], input: "from input").status == 0)
        #expect(try CommandRun(["file", "get", store, "a/one.txt"]).output == "from a file")
        #expect(try CommandRun(["file", "get", store, "a/two.txt"]).output == "from input")
        let taken = try CommandRun(["file", "set", store, "a/two.txt", "--new"], input: "again")
        #expect(taken.status == 1)
        #expect(taken.errorLines.count == 1)
        // Not made by a store: listed, but not as files.
        try FileManager.default.createSymbolicLink(atPath: store + "/a/link", withDestinationPath: "one.txt")
        let rows = try CommandRun(["file", "list", store, "--json"]).rows()
        #expect(rows.compactMap { $0["key"] as? String } == ["a/link", "a/one.txt", "a/two.txt"])
        #expect(rows.map { $0["kind"] as? String } == ["other", nil, nil])
        #expect(rows.map { $0["bytes"] as? Int } == [nil, 11, 10])
        let table = try CommandRun(["file", "list", store, "a"]).output
        #expect(table.contains("one.txt") && table.contains("not a file"), "\(table)")
        try FileManager.default.removeItem(atPath: store + "/a/link")
        #expect(try CommandRun(["file", "rm", store, "a/one.txt"]).status == 0)
        #expect(try CommandRun(["file", "rm", store, "a", "--recursive"]).status == 0)
        #expect(try CommandRun(["file", "get", store, "a/two.txt"]).status == 4)
    }

    @Test("a key that would leave the store is one line on standard error", arguments: ["../x", "/etc/passwd", "a//b"])
    func hostileKey(key: String) throws {
        let run = try CommandRun(["file", "set", scratch.path("files"), key], input: "x")
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
    }

    @Test("a secret is read from standard input and printed only by get")
    func secrets() throws {
        let vault = [scratch.path("vault/v"), "--key-file", scratch.path("key")]
        #expect(try CommandRun(["secret", "set"] + vault + ["token", "--create"], input: "s3cret\n").status == 0)
        #expect(try CommandRun(["secret", "get"] + vault + ["token"]).output == "s3cret\n")
        #expect(try CommandRun(["secret", "list"] + vault).output == "token\n")
        #expect(try CommandRun(["secret", "list"] + vault + ["--json"]).output.contains("\"token\""))
        #expect(try CommandRun(["secret", "get"] + vault + ["other"]).status == 4)
        #expect(try CommandRun(["secret", "set"] + vault + ["empty"], input: "").status == 1)
        // Another key: one clear line, and nothing is overwritten.
        let wrong = [scratch.path("vault/v"), "--key-file", scratch.path("other-key")]
        let missing = try CommandRun(["secret", "list"] + wrong)
        #expect(missing.status == 4)
        #expect(missing.errors.contains("key file"))
        let refused = try CommandRun(["secret", "set"] + wrong + ["token"], input: "new")
        #expect(refused.status == 4)
        #expect(refused.errorLines.count == 1)
        #expect(try CommandRun(["secret", "get"] + vault + ["token"]).output == "s3cret\n")
        #expect(try CommandRun(["secret", "rm"] + vault + ["token"]).status == 0)
        #expect(try CommandRun(["secret", "rm"] + vault + ["token"]).status == 4)
    }

    @Test("an argument that is not valid UTF-8 is refused before anything is read or changed")
    func invalidArgument() throws {
        let store = scratch.path("files")
        // U+FFFD is the repaired form of the argument below.
        #expect(try CommandRun(["file", "set", store, "k\u{FFFD}"], input: "x").status == 0)
        let run = try CommandRun(
            ["file", "rm", store], prefix: ["/bin/sh", "-c", "exec \"$@\" \"$(printf 'k\\376')\"", "sh"])
        #expect(run.status == 64)
        #expect(run.errors == "Error: argument 4 is not valid UTF-8\n")
        #expect(try CommandRun(["file", "get", store, "k\u{FFFD}"]).output == "x")
    }

    @Test(
        "an empty path is a usage error, not the current directory",
        arguments: [
            ["kv", "get", "", "a"], ["kv", "set", "", "a", "1"], ["kv", "list", ""], ["kv", "rm", "", "a"],
            ["file", "get", "", "a"], ["file", "get", "s", "a", "-o", ""], ["file", "set", "", "a"],
            ["file", "set", "s", "a", ""], ["file", "list", ""], ["file", "rm", "", "a"],
            ["secret", "list", "", "--key-file", "k"], ["secret", "list", "v", "--key-file", ""], ["check", ""],
            ["check", "d", "--key-file", ""], ["demo", "--directory", ""], ["demo", "--avatar", ""],
            ["du", ""], ["repair", ""], ["backup", "", "b"], ["backup", "s", ""], ["restore", "", "r"],
            ["restore", "b", ""],
        ])
    func emptyPath(arguments: [String]) throws {
        let inScratch = ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", scratch.url.path]
        let run = try CommandRun(arguments, prefix: inScratch)
        #expect(run.status == 64)
        #expect(run.errors.contains("is empty"), "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test("set stores standard input of any size, and get writes files of any size")
    func largeFile() throws {
        let store = scratch.path("files")
        #expect(try CommandRun(["file", "set", store, "a"], input: "x").status == 0)
        let large = scratch.path("files/large")
        try Data().write(to: URL(filePath: large))
        try #require(chmod(large, 0o600) == 0 && truncate(large, 256 << 20 + 1) == 0)
        let stored = try CommandRun(
            ["file", "set", store, "copy"], prefix: ["/bin/sh", "-c", "exec \"$@\" <\"$0\"", large])
        #expect(stored.status == 0, "\(stored.errors)")
        let copy = try FileManager.default.attributesOfItem(atPath: scratch.path("files/copy"))
        #expect(copy[.size] as? Int == 256 << 20 + 1)
        let counted = try CommandRun(
            ["file", "get", store, "large"], prefix: ["/bin/sh", "-c", "\"$0\" \"$@\" | wc -c"])
        #expect(counted.output == "\(256 << 20 + 1)\n", "\(counted.errors)")
        #expect(try CommandRun(["file", "get", store, "large", "-o", "/dev/null"]).status == 0)
    }

    @Test("get writes a file of several chunks to another file, and leaves that file unchanged if the key is missing")
    func outputFile() throws {
        let content = Data((0..<3 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })
        try content.write(to: scratch.url.appendingPathComponent("source"))
        let store = scratch.path("files")
        #expect(try CommandRun(["file", "set", store, "a", scratch.path("source")]).status == 0)
        let output = scratch.url.appendingPathComponent("output")
        #expect(try CommandRun(["file", "get", store, "a", "-o", output.path]).status == 0)
        #expect(try Data(contentsOf: output) == content)
        let missing = try CommandRun(["file", "get", store, "b", "-o", output.path])
        #expect(missing.status == 4)
        #expect(missing.errors == "Error: load b: not found (open b: No such file or directory (ENOENT))\n")
        #expect(try Data(contentsOf: output) == content)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).count == 3)
    }

    @Test("the error of removing a directory names the option that removes it")
    func removeDirectory() throws {
        let store = scratch.path("files")
        #expect(try CommandRun(["file", "set", store, "a/b"], input: "x").status == 0)
        let run = try CommandRun(["file", "rm", store, "a"])
        #expect(run.status == 1)
        #expect(run.errors.contains("--recursive"), "\(run.errors)")
    }

    @Test("backup, check and du list a directory that is moved while it is walked, or its files, and no removed one")
    func movedMeanwhile() throws {
        for (operation, argument, place, expected) in [
            (.open, "z", "s/0", ["z"]), (.status, "p", "s/0", ["z/p", "z/q"]), (.open, "z", "gone", []),
        ] as [(FileSystemOperation, POSIXPath, String, [String])] {
            let scratch = try Scratch()
            for file in ["s/a/x", "s/z/p", "s/z/q", "b/other"] { try scratch.plant(file) }
            try FileManager.default.removeItem(atPath: scratch.path("b/other"))
            func tree() throws -> ConfinedDirectory {
                try scratch.walked("s", moving: "s/z", to: place, before: operation, of: argument)
            }
            func moveBack() throws {
                try FileManager.default.moveItem(atPath: scratch.path(place), toPath: scratch.path("s/z"))
            }
            let checker = StoreChecker(keys: [], progress: ForgeCommands.Progress("files", .none))
            let findings = try #require(try checker.check(tree()))
            #expect(findings.map(\.path) == ["a/x"] + expected && findings.first?.state == .readable)
            for finding in findings.dropFirst() {
                #expect(finding.state == .skipped && finding.details == ["moved or removed after it was listed"])
            }
            if expected.isEmpty {
                try CheckCommand.show(findings, json: false)
            } else {
                let failure = #expect(throws: CommandFailure.self) { try CheckCommand.show(findings, json: false) }
                #expect(failure?.status == .partial)
            }
            try moveBack()
            let usage = try DiskUsage.stores(below: tree())
            #expect(usage.stores.map(\.files) == [operation == .open ? 1 : 3])
            #expect(usage.failures.map(\.path) == (operation == .open ? expected : []))
            #expect(usage.failures.allSatisfy { $0.reason == "moved or removed after it was listed" })
            try moveBack()
            let report = BackupReport("saved", json: false)
            var writer = try BackupWriter(tree(), to: POSIXPath(scratch.path("b")), report)
            try writer.run()
            #expect(try scratch.files("b/content") == ["a/x": "x"])
            guard !expected.isEmpty else {
                try report.finish("b")
                continue
            }
            let failure = #expect(throws: CommandFailure.self) { try report.finish("b") }
            #expect(failure?.description == "\(expected.count) failed, 0 left out: see the list")
            #expect(failure?.status == .partial)
        }
    }

    @Test("du prints the sizes of all stores and their sums, as JSON and as a table, also of a store given itself")
    func diskUsage() async throws {
        let scratch = try await StoreFixture().scratch
        try scratch.plant("note", "0123456789")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: "note")
        let all = ["directory", "file store", "key-value store", "vaults"]
        for (place, kinds) in [(scratch.url.path, all), (scratch.path("kv"), ["key-value store"])] {
            var sums = [0, 0, 0]
            for path in try FileManager.default.subpathsOfDirectory(atPath: place) {
                let status = try SystemFileSystem().status(POSIXPath("\(place)/\(path)"), followsSymbolicLinks: false)
                guard status.type == .regular else { continue }
                sums[0] += 1
                sums[1] += Int(status.sizeInBytes)
                sums[2] += Int(status.allocatedSizeInBytes)
            }
            let run = try CommandRun(["du", place, "--json"])
            #expect(run.status == 0, "\(run.errors)")
            #expect(try run.rows().map { $0["kind"] as? String } == kinds)
            let summary = try run.summary()
            #expect(["files", "bytes", "space"].map { summary[$0] as? Int ?? -1 } == sums)
            var lines = try run.rows().map { row -> String in
                let path = row["path"] as? String ?? ""
                let numbers = ["files", "bytes", "space"].map { "\(row[$0] as? Int ?? -1)" }
                let cells = [path.isEmpty ? "." : path, row["kind"] as? String ?? ""] + numbers
                return cells.joined(separator: " ")
            }
            lines.append("\(sums[0]) files, \(readableSize(sums[1])), \(readableSize(sums[2])) on the device")
            let table = try CommandRun(["du", place]).output.split(separator: "\n").dropFirst(2)
            #expect(table.map { $0.split(separator: " ").joined(separator: " ") } == lines)
        }
    }
}
