import ChildProcesses
import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

@Suite("the files that commands write their output to")
struct OutputFileTests {
    let scratch: Scratch

    init() async throws {
        scratch = try Scratch()
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try store.set(KVKey<Int>("k"), value: 1)
        try store.close()
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("fs"))
        try await files.save(Data("text".utf8), to: "a")
        try await files.save(Data("text".utf8), to: "d/b")
    }

    private static let line = "{\"key\":\"k\",\"value\":1}\n"

    private func plant(_ path: String, _ text: String) throws {
        try Data(text.utf8).write(to: scratch.url.appendingPathComponent(path))
    }

    private func content(_ path: String) throws -> String {
        try String(contentsOfFile: scratch.path(path), encoding: .utf8)
    }

    private func words(_ output: String) -> [[String]] {
        [
            ["copy", "kv:\(scratch.path("kv"))", "json:\(output)"],
            ["file", "get", scratch.path("fs"), "a", "--output", output],
        ]
    }

    /// Runs `forge` with standard output appended to a file with a name; returns the status.
    private func run(_ words: [String], appendingTo output: String) throws -> ChildProcess.End? {
        let handle = try FileHandle(forWritingTo: scratch.url.appendingPathComponent(output))
        defer { try? handle.close() }
        try handle.seekToEnd()
        return try ChildProcess(CommandRun.executable(), words, output: .file(handle), errors: .null)
            .wait(killingAfter: .seconds(60))
    }

    // MARK: Neighbours

    @Test("a file beside an output is kept, whatever its name", arguments: ["file", "hard link", "link", "directory"])
    func neighbours(kind: String) throws {
        try plant("other", "precious")
        switch kind {
        case "file": try plant("#tmp-out", "precious")
        case "hard link":
            try FileManager.default.linkItem(atPath: scratch.path("other"), toPath: scratch.path("#tmp-out"))
        case "link":
            try FileManager.default.createSymbolicLink(atPath: scratch.path("#tmp-out"), withDestinationPath: "other")
        default:
            try FileManager.default.createDirectory(
                atPath: scratch.path("#tmp-out"), withIntermediateDirectories: false)
        }
        for (words, expected) in zip(words(scratch.path("out")), [Self.line, "text"]) {
            let run = try CommandRun(words)
            #expect(run.status == 0, "\(words): \(run.errors)")
            #expect(try content("out") == expected)
            #expect(try content("other") == "precious")
            if kind != "directory" { #expect(try content("#tmp-out") == "precious") }
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted()
                    == ["#tmp-out", "fs", "kv", "other", "out"])
        }
    }

    @Test("a file is not replaced by the lines of a source that could not be read as a whole")
    func incompleteSource() throws {
        try plant("source", Self.line + "{bad\n")
        let words = ["copy", "json:" + scratch.path("source"), "json:" + scratch.path("lines")]
        #expect(try CommandRun(words).status == 2)
        #expect(try content("lines") == Self.line)
        try plant("lines", "good")
        let run = try CommandRun(words)
        #expect(run.status == 2)
        #expect(run.errors.contains("was not replaced"), "\(run.errors)")
        #expect(!run.output.contains("copied"), "\(run.output)")
        #expect(try content("lines") == "good")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted()
                == ["fs", "kv", "lines", "source"])
    }

    @Test("links at the end of a path are followed and kept, unless they lead in a circle", arguments: [true, false])
    func links(isAbsolute: Bool) throws {
        try FileManager.default.createDirectory(atPath: scratch.path("d"), withIntermediateDirectories: false)
        try plant("d/real", "before")
        for (name, target) in [("first", "d/second"), ("d/second", "real"), ("circle", "circle")] {
            try FileManager.default.createSymbolicLink(
                atPath: scratch.path(name),
                withDestinationPath: isAbsolute ? scratch.path(target == "real" ? "d/real" : target) : target)
        }
        let words = ["file", "get", scratch.path("fs"), "a", "-o"]
        let run = try CommandRun(words + [scratch.path("first")])
        #expect(run.status == 0, "\(run.errors)")
        #expect(try content("d/real") == "text")
        for name in ["first", "d/second"] {
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: scratch.path(name))
            #expect(target != nil, "\(name)")
        }
        let circle = try CommandRun(words + [scratch.path("circle")])
        #expect(circle.status == 1 && circle.errors.contains("\(scratch.path("circle")): "), "\(circle.errors)")
        #expect(circle.errors.contains("ELOOP"), "\(circle.errors)")
    }

    @Test("lines are not written through a link, also in a dry run", arguments: ["other", "nowhere"])
    func linkedLines(target: String) throws {
        try plant("other", "precious")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: target)
        for options in [["--dry-run"], []] {
            let run = try CommandRun(["copy", "kv:\(scratch.path("kv"))", "json:\(scratch.path("link"))"] + options)
            let reason = "not a regular file: \(scratch.path("link")); json:- writes to standard output"
            #expect(run.status == 1 && run.errors == "Error: \(reason)\n", "\(run.errors)")
        }
        #expect(try content("other") == "precious")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted()
                == ["fs", "kv", "link", "other"])
    }

    @Test("a file that is replaced keeps its mode, whatever the mask of new files")
    func mode() throws {
        let mask = ["/bin/sh", "-c", "umask 077 && exec \"$0\" \"$@\""]
        for words in words(scratch.path("out")) {
            try plant("out", "before")
            try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: scratch.path("out"))
            let run = try CommandRun(words, prefix: mask)
            #expect(run.status == 0, "\(words): \(run.errors)")
            let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path("out"))
            #expect(attributes[.posixPermissions] as? Int == 0o666, "\(words)")
        }
    }

    @Test("a FIFO beside an output is not opened, and a name of any length is written")
    func fifoAndLongName() throws {
        let name = String(repeating: "n", count: 255)
        try #require(mkfifo(scratch.path("#tmp-out"), 0o600) == 0)
        for output in ["out", name] {
            for words in words(scratch.path(output)) {
                let end = try ChildProcess(CommandRun.executable(), words, output: .null, errors: .null)
                    .wait(killingAfter: .seconds(60))
                #expect(end == .exit(0), "\(words)")
            }
        }
    }

    @Test("control-C ends an output to a FIFO whose reader does not read")
    func interruptedFIFO() async throws {
        // More than the FIFO holds.
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("fs"))
        try await files.save(Data(count: 4 << 20), to: "long")
        let path = scratch.path("fifo")
        try #require(mkfifo(path, 0o600) == 0)
        let fifo = open(path, O_RDONLY | O_NONBLOCK)
        try #require(fifo >= 0)
        defer { close(fifo) }
        let errors = try ChildProcess.unnamedFile()
        let get = try ChildProcess(
            CommandRun.executable(), ["file", "get", scratch.path("fs"), "long", "-o", path], errors: .file(errors))
        var request = pollfd(fd: fifo, events: Int16(POLLIN), revents: 0)
        try #require(poll(&request, 1, 60_000) == 1)
        get.send(SIGINT)
        #expect(get.wait(killingAfter: .seconds(60)) == .exit(130))
        #expect(String(decoding: try ChildProcess.content(of: errors), as: UTF8.self) == "Error: interrupted\n")
    }

    // MARK: Stores

    @Test(
        "no output is written into the directory of a store: neither over one of its files nor as a new one",
        arguments: ["fs/a", "fs/new", "fs/d/b", "fs/d/new", "link", "linked/new", "kv/new", "kv/log", "dir/../fs/a"])
    func stores(output: String) throws {
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: "fs/a")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("linked"), withDestinationPath: "fs/d")
        try FileManager.default.createDirectory(atPath: scratch.path("dir"), withIntermediateDirectories: false)
        let before = try tree()
        for words in words("\(scratch.url.path)/\(output)") {
            let run = try CommandRun(words)
            #expect(run.status == 64 || run.errors.contains("not a regular file"), "\(run.status) \(run.errors)")
            #expect(run.errorLines.count == 1 && run.errors.contains(output), "\(run.errors)")
            #expect(try tree() == before, "\(words)")
        }
    }

    @Test("no backup and no restored store is written into the directory of a store", arguments: ["fs/b", "fs/d/e/b"])
    func backups(destination: String) throws {
        try #require(try CommandRun(["backup", scratch.path("kv"), scratch.path("saved")]).status == 0)
        let before = try tree()
        for words in [["backup", scratch.path("kv")], ["restore", scratch.path("saved")]] {
            let run = try CommandRun(words + [scratch.path(destination)])
            #expect(run.status == 64 && run.errors.contains("file store"), "\(run.status) \(run.errors)")
            #expect(try tree() == before, "\(words)")
        }
    }

    private func tree() throws -> [String: Data?] {
        var found: [String: Data?] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path) {
            found[path] = .some(FileManager.default.contents(atPath: scratch.path(path)))
        }
        return found
    }

    // MARK: Standard streams and other files that are not regular

    @Test(
        "a path of standard output is written to, and the file behind it is not replaced",
        arguments: ["/dev/stdout", "/dev/fd/1", "link"])
    func standardOutput(path: String) throws {
        try plant("out", "before\n")
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("link"), withDestinationPath: "/dev/stdout")
        let inode = try FileManager.default.attributesOfItem(atPath: scratch.path("out"))[.systemFileNumber] as? Int
        let output = path == "link" ? scratch.path(path) : path
        let end = try run(["file", "get", scratch.path("fs"), "a", "-o", output], appendingTo: "out")
        #expect(end == .exit(0))
        #expect(try content("out") == "before\ntext")
        #expect(
            try FileManager.default.attributesOfItem(atPath: scratch.path("out"))[.systemFileNumber] as? Int == inode)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted()
                == ["fs", "kv", "link", "out"])
        let json = try CommandRun(["file", "get", scratch.path("fs"), "a", "-o", output, "--json"])
        #expect(json.status == 0 && json.output.hasPrefix("text{\"action\":\"get\","), "\(json.output) \(json.errors)")
    }

    @Test("a path of standard error is written to", arguments: ["/dev/stderr", "/dev/fd/2"])
    func standardError(path: String) throws {
        let run = try CommandRun(["file", "get", scratch.path("fs"), "a", "-o", path])
        #expect(run.status == 0 && run.errors == "text" && run.output.isEmpty, "\(run.errors)")
    }

    #if os(Linux)
    /// The paths of the files and directories that this process has open.
    private func openPaths() throws -> [String] {
        // Those of other tests may be closed meanwhile.
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { number in
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
        }
    }

    @Test("a finished output is closed, and so is an unfinished one, which leaves nothing")
    func closed() throws {
        for (name, isFinished) in [("out", true), ("none", false)] {
            do {
                let output = try OutputFile(at: POSIXPath(scratch.url.appendingPathComponent(name)), named: name)
                try output.write(Array("text".utf8))
                if isFinished { try output.finish() }
                #expect(try openPaths().contains(scratch.path("out")) == false)
                withExtendedLifetime(output) {}
            }
            let open = try openPaths()
            #expect(!open.contains(scratch.url.path) && !open.contains { $0.hasPrefix(scratch.path("#tmp-")) })
        }
        #expect(try content("out") == "text")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted() == ["fs", "kv", "out"])
    }

    @Test("a finished output does not close a file that has its number since then")
    func closedOnce() throws {
        let source = try FileHandle(forReadingFrom: scratch.url.appendingPathComponent("fs/a"))
        let other: CInt
        do {
            let output = try OutputFile(at: POSIXPath(scratch.url.appendingPathComponent("out")), named: "out")
            let written = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").first { number in
                let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
                return path?.hasPrefix(scratch.path("#tmp-")) == true
            }
            let number = try #require(written.flatMap { CInt($0) })
            try output.finish()
            // The number is free again, unless another test has opened a file meanwhile.
            other = fcntl(source.fileDescriptor, F_DUPFD, number)
            withExtendedLifetime(output) {}
        }
        #expect(fcntl(other, F_GETFD) != -1)
        close(other)
    }

    @Test("an error of an output names its path")
    func namedError() throws {
        // Nobody can create a file there.
        let run = try CommandRun(["file", "get", scratch.path("fs"), "a", "-o", "/proc/new"])
        #expect(run.status == 1 && run.errors.hasPrefix("Error: open /proc/new: "), "\(run.errors)")
    }

    @Test("a link of procfs to a file is refused, and the file is kept")
    func procfs() throws {
        try plant("open", "before")
        // The shell opens the file as descriptor 9, and forge inherits it.
        let script = "exec 9>>\"$3\"; exec \"$0\" file get \"$1\" a -o \"$2\""
        let errors = try ChildProcess.unnamedFile()
        let end = try ChildProcess(
            "/bin/sh",
            [
                "-c", script, CommandRun.executable(), scratch.path("fs"), "/proc/self/fd/9", scratch.path("open"),
            ], output: .null, errors: .file(errors)
        ).wait(killingAfter: .seconds(60))
        let message = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
        #expect(end == .exit(64), "\(message)")
        #expect(message.contains("/proc/self/fd/9"), "\(message)")
        #expect(try content("open") == "before")
        // A file that another process has open.
        let file = try FileHandle(forWritingTo: scratch.url.appendingPathComponent("open"))
        let path = "/proc/\(getpid())/fd/\(file.fileDescriptor)"
        let other = try CommandRun(["file", "get", scratch.path("fs"), "a", "-o", path])
        try file.close()
        #expect(other.status == 64 && other.errors.contains("\(path) leads to a file"), "\(other.errors)")
        #expect(try content("open") == "before")
    }

    @Test("what looks at the directory of an output or a store closes it")
    func closedDirectories() throws {
        let place = try POSIXPath(scratch.url.appendingPathComponent("kv"))
        try KVStoreArgument.openShared(URL(place)).store.close()
        try plant("other", "precious")
        for name in ["other", "new", "none/new"] {
            let path = try POSIXPath(scratch.url.appendingPathComponent(name))
            try requireNoStore(at: path, name)
            try requireKnownStore(at: path, name)
        }
        for file in ["log", "new"] {
            #expect(throws: CommandFailure.self) { try requireNoStore(at: place.appending(POSIXPath(file)), file) }
        }
        #expect(throws: CommandFailure.self) { try requireNoStoreFile(at: place.appending("log"), "log") }
        // The file store may not be released yet.
        #expect(try scratch.opened().filter { !$0.hasPrefix("fs") }.isEmpty)
    }

    @Test("a pipe of a process is written to through its path")
    func pipe() throws {
        let script = "{ \"$0\" file get \"$1\" a -o /dev/fd/9 9>&1 >/dev/null; } | cat"
        let output = try ChildProcess.unnamedFile()
        let end = try ChildProcess(
            "/bin/sh", ["-c", script, CommandRun.executable(), scratch.path("fs")], output: .file(output),
            errors: .null
        ).wait(killingAfter: .seconds(60))
        #expect(end == .exit(0))
        #expect(String(decoding: try ChildProcess.content(of: output), as: UTF8.self) == "text")
    }
    #endif
}
