import ArgumentParser
import ChildProcesses
import ForgeStorage
import Foundation
import Synchronization
import Testing

@testable import ForgeCommands

@Suite("A copy of keys and values")
struct KeyValueTransferTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("a source of which nothing can be read creates no destination", arguments: ["kv", "json"])
    func unreadableSource(scheme: String) throws {
        try scratch.plant("directory/file")
        try scratch.plant("lines", "no line\n")
        for (source, options) in [
            ("directory", []), ("lines", []), ("lines", scheme == "kv" ? ["--verify"] : []),
        ] as [(String, [String])] {
            let words = ["copy", "json:\(scratch.path(source))", "\(scheme):\(scratch.path("new"))"]
            let run = try CommandRun(words + options)
            #expect(run.status == 1 && run.errorLines.count == 1, "\(run.errors)")
            #expect(!FileManager.default.fileExists(atPath: scratch.path("new")))
        }
    }

    @Test("lines are read from a pipe that has a path")
    func pipe() throws {
        let pipe = scratch.path("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        let writer = Thread {
            FileHandle(forWritingAtPath: pipe)?.write(Data("{\"key\":\"a\",\"value\":1}\n".utf8))
        }
        writer.start()
        let run = try CommandRun(["copy", "json:\(pipe)", "kv:\(scratch.path("kv"))"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(try scratch.values("kv").keys.sorted() == ["a"])
    }

    @Test("a file with the name - is not standard input or output")
    func fileNamedHyphen() throws {
        let line = "{\"key\":\"a\",\"value\":1}\n"
        try scratch.plant("-", line)
        let inScratch = ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", scratch.url.path]
        let run = try CommandRun(["copy", "json:./-", "json:-"], prefix: inScratch)
        #expect(run.status == 0 && run.output == line, "\(run.output) \(run.errors)")
    }

    @Test(
        "a copy between places in etcd of which one contains the other is wrong usage, and no server is asked",
        arguments: [("etcd://h:1/a", "etcd://h:1/a/b"), ("etcd://h:1/a/b", "etcd://h:1/a")])
    func nestedPlaces(source: String, target: String) async throws {
        let arguments = try TransferArguments.parse([source, target])
        let failure = await #expect(throws: CommandFailure.self) {
            try await KeyValueTransfer(arguments, TransferLog(arguments)).run()
        }
        #expect(failure?.status == .usage)
        #expect(failure?.description == "\(source) and \(target) contain one another")
    }

    @Test("a value that another process changes or removes after it was copied is a failure with --verify")
    func changedCopy() throws {
        try scratch.fillStore()
        let options = FileKVStore.Options(sharing: .shared)
        let target = try FileKVStore(at: scratch.url.appendingPathComponent("t"), options: options)
        let words = ["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("t"))", "--verify"]
        var missed: Set = ["differs when read back", "is missing when read back"]
        let isDone = Mutex(false)
        let failure = Mutex<(any Error)?>(nil)
        let writer = Thread {
            do {
                while !isDone.withLock({ $0 }) {
                    try target.set(KVKey<String>("name"), value: "other")
                    try target.remove(KVKey<String>("name"))
                }
            } catch {
                failure.withLock { $0 = error }
            }
        }
        writer.start()
        defer {
            isDone.withLock { $0 = true }
            while !writer.isFinished { usleep(1000) }
        }
        // Between two writes of the other process, a copy may be complete.
        for _ in 0..<100 where !missed.isEmpty {
            let run = try CommandRun(words)
            #expect(run.status == (run.output.contains("fail  ") ? 2 : 0), "\(run.output) \(run.errors)")
            missed = missed.filter { !run.output.contains($0) }
        }
        #expect(failure.withLock { $0 } == nil)
        #expect(missed.isEmpty, "\(missed)")
    }

    @Test(
        "a destination that is moved meanwhile is written to its end, named in an error, and nothing is deleted from it",
        arguments: ["moved", "replaced"])
    func movedDestination(how: String) throws {
        for name in ["t", "other"] {
            #expect(try CommandRun(["kv", "set", scratch.path(name), "old", "1"]).status == 0)
        }
        let (input, output, errors) = (Pipe(), try ChildProcess.unnamedFile(), try ChildProcess.unnamedFile())
        let target = "kv:\(scratch.path("t"))"
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "json:-", target, "--delete"], input: .pipe(input),
            output: .file(output), errors: .file(errors))
        func write(_ numbers: Range<Int>) throws {
            let lines = numbers.map { "{\"key\":\"key.\($0)\",\"value\":1}\n" }.joined()
            try input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
        }
        // Until a batch is stored.
        try write(0..<100)
        while try scratch.values("t").count == 1, copy.isRunning { usleep(200) }
        try FileManager.default.moveItem(atPath: scratch.path("t"), toPath: scratch.path("moved"))
        if how == "replaced" {
            try FileManager.default.moveItem(atPath: scratch.path("other"), toPath: scratch.path("t"))
        }
        try write(100..<200)
        try input.fileHandleForWriting.close()
        #expect(copy.wait(killingAfter: .seconds(60)) == .exit(2))
        let message = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
        let reason = "the destination was moved or replaced meanwhile, the keys are in the store that was opened"
        #expect(message == "Error: \(reason): \(target)\n")
        let text = String(decoding: try ChildProcess.content(of: output), as: UTF8.self)
        #expect(text == "200 copied (600 B), 0 equal, 0 deleted\n")
        #expect(try scratch.values("moved").count == 201)
        #expect(try scratch.values(how == "replaced" ? "t" : "other").keys.sorted() == ["old"])
    }

    @Test("of two lines with the same key the last one wins, however often they are imported")
    func repeatedKeys() throws {
        func line(_ value: String) throws -> String {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent(value))
            try store.set(KVKey<String>("a"), value: value)
            try store.close()
            return try CommandRun(["copy", "kv:\(scratch.path(value))", "json:-"]).output
        }
        try scratch.plant("lines", line("first") + line("second"))
        for _ in 0..<2 {
            let run = try CommandRun(["copy", "json:\(scratch.path("lines"))", "kv:\(scratch.path("kv"))"])
            #expect(run.status == 0, "\(run.errors)")
            #expect(try CommandRun(["kv", "get", scratch.path("kv"), "a"]).output == "second\n")
        }
    }

    @Test("one object of names and values is read as a store, on one line or several; a damaged line is not")
    func plainObject() throws {
        let object = "{\n  \"theme\": \"dusk\",\n  \"size\": 3, \"old\": {\"@schema\": 2, \"@value\": [1]}\n}\n"
        let line = object.replacing("\n", with: " ")
        for (name, text) in [("a", object), ("b", line), ("e", "\u{FEFF}\(object)"), ("f", "\u{FEFF} \(line)")] {
            let run = try CommandRun(["copy", "json:-", "kv:\(scratch.path(name))", "--json"], input: text)
            #expect(run.status == 0, "\(run.output) \(run.errors)")
            #expect(try CommandRun(["kv", "get", scratch.path(name), "theme"]).output == "dusk\n")
            #expect(try CommandRun(["kv", "get", scratch.path(name), "size"]).output == "3\n")
            let lines = try CommandRun(["copy", "kv:\(scratch.path(name))", "json:-"]).output
            #expect(lines.contains("{\"key\":\"old\",\"version\":2,\"value\":[1]}"), "\(lines)")
        }
        for text in ["{\"key\":\"a\"}\n", "{\"a\":1}\n{\"b\":2}\n", "{\"a\":1,\n", "[1]\n", "{\"a\":1,\"a\":2}\n"] {
            let run = try CommandRun(["copy", "json:-", "kv:\(scratch.path("c"))"], input: text)
            #expect(run.status == 1, "\(text): \(run.output)")
        }
        // One that has the name of a line's member, and a line that was spread over several.
        let named = try CommandRun(
            ["copy", "json:-", "kv:\(scratch.path("n"))"], input: "{\"key\":\"a\",\n\"size\":3}\n")
        #expect(named.status == 0 && named.output.hasPrefix("2 copied"), "\(named.output) \(named.errors)")
        #expect(try CommandRun(["kv", "get", scratch.path("n"), "key"]).output == "a\n")
        let spread = "{\n\"key\":\"a\",\n\"value\":3}\n"
        #expect(try CommandRun(["copy", "json:-", "kv:\(scratch.path("c"))"], input: spread).status == 1)
        let lines = "{\n{\"key\":\"k\",\"value\":1}\n"
        let run = try CommandRun(["copy", "json:-", "kv:\(scratch.path("d"))"], input: lines)
        #expect(run.status == 2 && run.output.contains("1 copied"), "\(run.output)")
    }

    @Test("a value of the largest depth comes back from its line")
    func deepestValue() throws {
        let tree = (0..<CodedValue.maximumDepth).reduce(CodedValue.integer(1)) { tree, _ in .array([tree]) }
        let bytes = ValueEnvelope(schemaVersion: 1, payload: try tree.encoded()).encoded
        let line = try KeyValueLine.encode("deep", bytes)
        #expect(!line.contains("base64"))
        #expect(try KeyValueLine.decode(line).bytes == bytes)
    }

    @Test("a line with other members is refused, since it may be an object of names and values")
    func otherMembers() {
        for line in [#"{"key":"k","value":"v","other":3}"#, #"{"other":3,"key":"k","value":1}"#] {
            #expect(throws: CommandFailure.self) { try KeyValueLine.decode(line) }
        }
    }

    @Test("a file of lines is complete, whatever processes write it at the same time")
    func linesTarget() throws {
        try scratch.fillStore()
        let words = ["copy", "kv:\(scratch.path("kv"))", "json:\(scratch.path("lines"))"]
        let processes = try (0..<4).map { _ in
            try ChildProcess(CommandRun.executable(), words, output: .null, errors: .null)
        }
        for process in processes { #expect(process.wait(killingAfter: .seconds(60)) == .exit(0)) }
        let lines = try String(contentsOfFile: scratch.path("lines"), encoding: .utf8)
        #expect(try lines == CommandRun(["copy", "kv:\(scratch.path("kv"))", "json:-"]).output)
        #expect(lines.split(separator: "\n").count == 5)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted() == ["kv", "lines"])
    }

    @Test("keys and values survive a copy, and a way through JSON lines, byte for byte")
    func keyValues() throws {
        try scratch.fillStore()
        let before = try scratch.values("kv")
        let copy = try CommandRun(["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("b"))", "--verify"])
        #expect(copy.status == 0, "\(copy.errors)")
        #expect(copy.output == "5 copied (\(before.values.reduce(0) { $0 + $1.count }) B), 0 equal, 5 verified\n")
        let lines = "json:\(scratch.path("lines"))"
        #expect(try CommandRun(["copy", "kv:\(scratch.path("b"))", lines, "--verify"]).status == 0)
        #expect(try CommandRun(["copy", lines, "kv:\(scratch.path("c"))", "--verify"]).status == 0)
        let text = try CommandRun(["copy", "kv:\(scratch.path("c"))", "json:-"])
        let file = try String(contentsOfFile: scratch.path("lines"), encoding: .utf8)
        #expect(text.output == file)
        #expect(text.output.contains("{\"key\":\"name\",\"value\":\"dusk\"}\n"), "\(text.output)")
        #expect(try CommandRun(["copy", "json:-", "kv:\(scratch.path("d"))"], input: text.output).status == 0)
        for name in ["b", "c", "d"] { #expect(try scratch.values(name) == before) }
        let again = try CommandRun(["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("b"))"])
        #expect(again.output == "0 copied (0 B), 5 equal\n")
        // Other keys of the destination are not verified.
        #expect(try CommandRun(["kv", "set", scratch.path("b"), "other", "1"]).status == 0)
        let verified = try CommandRun(["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("b"))", "--verify"])
        #expect(verified.status == 0 && verified.output == "0 copied (0 B), 5 equal, 5 verified\n")
    }

    @Test("a dry run of a copy of keys prints each action, and changes and creates nothing")
    func keyDryRun() throws {
        func fill(_ name: String, _ entries: [String: Int]) throws {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent(name))
            for (key, value) in entries { try store.set(KVKey<Int>(key), value: value) }
            try store.close()
        }
        try fill("s", ["changed": 1, "equal": 2, "new": 3])
        try fill("t", ["changed": 0, "equal": 2, "old": 4])
        let before = try scratch.values("t")
        let (source, target) = ("kv:\(scratch.path("s"))", "kv:\(scratch.path("t"))")
        let run = try CommandRun(["copy", source, target, "--dry-run", "--delete"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(
            run.output == """
                replace  \(source)#changed → \(target)#changed
                equal  \(source)#equal → \(target)#equal
                copy  \(source)#new → \(target)#new
                delete  \(target)#old
                2 to copy (6 B), 1 equal, 1 to delete

                """)
        #expect(try scratch.values("t") == before)
        let new = try CommandRun(["copy", source, "kv:\(scratch.path("n"))", "--dry-run", "--delete", "--verify"])
        #expect(new.status == 0, "\(new.errors)")
        #expect(new.output.hasSuffix("\n3 to copy (9 B), 0 equal, 0 to delete, 0 verified\n"), "\(new.output)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("n")))
        let copy = try CommandRun(["copy", source, target, "--delete"])
        #expect(copy.output == "delete  \(target)#old\n2 copied (6 B), 1 equal, 1 deleted\n", "\(copy.errors)")
        #expect(try scratch.values("t") == scratch.values("s"))
    }

    @Test("damage of the source or the destination is listed, and nothing is deleted then")
    func damagedStores() throws {
        for name in ["whole", "s", "t"] {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent(name))
            for number in 0..<4 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
            try store.close()
        }
        for name in ["s", "t"] {
            let log = scratch.url.appendingPathComponent("\(name)/log")
            var bytes = try Data(contentsOf: log)
            bytes[64 + 25] ^= 1
            try bytes.write(to: log)
        }
        let (whole, source, target) = (
            "kv:\(scratch.path("whole"))", "kv:\(scratch.path("s"))", "kv:\(scratch.path("t"))"
        )
        let before = try scratch.values("whole")
        let from = try CommandRun(["copy", source, whole, "--delete"])
        #expect(from.status == 2 && from.errors == "Error: nothing was deleted: 1 item failed\n", "\(from.errors)")
        #expect(from.output.hasPrefix("fail  \(source)# → \(whole)#  (the source is damaged: "), "\(from.output)")
        #expect(from.output.hasSuffix("\n0 copied (0 B), 3 equal, 0 deleted, 1 failed\n"), "\(from.output)")
        #expect(try scratch.values("whole") == before)
        try scratch.plant("lines", "good")
        #expect(try CommandRun(["copy", source, "json:\(scratch.path("lines"))"]).status == 2)
        #expect(try String(contentsOfFile: scratch.path("lines"), encoding: .utf8) == "good")
        let to = try CommandRun(["copy", whole, target])
        #expect(to.status == 2 && to.errors == "Error: 1 item failed, 4 did not\n", "\(to.errors)")
        #expect(to.output.hasPrefix("fail  \(whole)# → \(target)#  (the destination was damaged: "), "\(to.output)")
        #expect(to.output.hasSuffix("\n1 copied (3 B), 3 equal, 1 failed\n"), "\(to.output)")
        #expect(try scratch.values("t") == before)
    }

    @Test("keys of several batches are counted once each, and a key that is too long is listed")
    func batches() throws {
        var lines = (0..<150).map { "{\"key\":\"k\($0)\",\"value\":\($0)}\n" }.joined()
        for count in [1024, 1025] { lines += "{\"key\":\"\(String(repeating: "n", count: count))\",\"value\":0}\n" }
        let kv = "kv:\(scratch.path("kv"))"
        let run = try CommandRun(["copy", "json:-", kv, "--json"], input: lines)
        #expect(run.status == 2, "\(run.errors)")
        let counts = try run.summary()
        #expect(counts["copied"] as? Int == 151 && counts["equal"] as? Int == 0, "\(counts)")
        let rows = try run.rows()
        #expect(rows.map { $0["reason"] as? String } == ["the name is too long"])
        #expect((rows.first?["key"] as? String)?.count == 80)
        let again = try CommandRun(["copy", kv, "kv:\(scratch.path("t"))", "--verify", "--json"]).summary()
        #expect(again["copied"] as? Int == 151 && again["equal"] as? Int == 0, "\(again)")
        #expect(again["verified"] as? Int == 151, "\(again)")
    }

    @Test("deleting keys respects the maximum too")
    func keyDeletion() throws {
        try scratch.fillStore()
        for number in 0..<3 {
            #expect(try CommandRun(["kv", "set", scratch.path("t"), "old\(number)", "1"]).status == 0)
        }
        let words = ["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("t"))", "--delete", "--max-delete"]
        #expect(try CommandRun(words + ["2"]).status == 2)
        #expect(try scratch.values("t").count == 8)
        #expect(try CommandRun(words + ["3"]).status == 0)
        #expect(try scratch.values("t") == scratch.values("kv"))
    }

    @Test("a shared store is written beside the process that has it open; an exclusive one is in use")
    func besideApp() throws {
        try scratch.fillStore()
        for (sharing, status) in [(FileKVStore.Sharing.shared, Int32(0)), (.exclusive, 5)] {
            let store = try FileKVStore(
                at: scratch.url.appendingPathComponent("t-\(sharing)"), options: FileKVStore.Options(sharing: sharing))
            let run = try CommandRun(["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("t-\(sharing)"))"])
            #expect(run.status == status, "\(run.errors)")
            #expect(try store.keys().count == (status == 0 ? 5 : 0))
        }
    }
}
