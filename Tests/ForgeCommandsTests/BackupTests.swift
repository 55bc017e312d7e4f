import ChildProcesses
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("backup and restore")
struct BackupTests {
    private static let fileCount = 40

    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func values(_ path: String) throws -> [String: [UInt8]] {
        let store = try FileKVStore(
            at: scratch.url.appendingPathComponent(path), options: FileKVStore.Options(access: .readOnly))
        return Dictionary(uniqueKeysWithValues: try store.snapshot().map { ($0.name, $0.entry.bytes) })
    }

    @Test("all stores are restored with their content and their modes, and intact")
    func roundTrip() async throws {
        let fixture = try await StoreFixture()
        let source = fixture.scratch.url.path
        try FileManager.default.createSymbolicLink(atPath: "\(source)/link", withDestinationPath: "/etc")
        let before = try fixture.listing()
        let run = try CommandRun(["backup", source, scratch.path("b"), "--json"])
        // A link is left out.
        #expect(run.status == 2, "\(run.errors)")
        #expect(try run.summary()["files"] as? Int == 7)
        #expect(try run.rows().map { $0["path"] as? String } == ["link"])
        #expect(try fixture.listing() == before)
        let manifest = try String(contentsOf: scratch.url.appendingPathComponent("b/manifest"), encoding: .utf8)
        #expect(manifest.contains(",\"keys\":1,\"path\":\"kv/log\","), "\(manifest)")
        let verified = try CommandRun(["restore", "--dry-run", scratch.path("b"), scratch.path("r")])
        #expect(verified.status == 0, "\(verified.errors)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("r")))
        let restored = try CommandRun(["restore", scratch.path("b"), scratch.path("r")])
        #expect(restored.status == 0, "\(restored.errors)")
        let summary = /7 files restored \([0-9.]+ (B|KiB|MiB)\)\n/
        #expect(restored.output.wholeMatch(of: summary) != nil, "\(restored.output)")
        #expect(verified.output == restored.output.replacing("restored", with: "verified"))
        let check = try CommandRun(["check", scratch.path("r"), "--key-file", scratch.path("r/vault/key")])
        #expect(check.status == 0, "\(check.output)")
        #expect(check.output.contains("intact (1 key)") && check.output.contains("intact (1 secret)"))
        let vault = [scratch.path("r/vault/v"), "--key-file", scratch.path("r/vault/key")]
        #expect(try CommandRun(["secret", "get"] + vault + ["token"]).output == "s3cret\n")
        #expect(try CommandRun(["kv", "get", scratch.path("r/kv"), "name"]).output == "dusk\n")
        #expect(try CommandRun(["file", "get", scratch.path("r/files"), "a.txt"]).output == "text")
        let names = try FileManager.default.subpathsOfDirectory(atPath: scratch.path("r")).sorted()
        #expect(
            names == [
                "files", "files/#store-files", "files/a.txt", "kv", "kv/#store-key-value", "kv/log", "vault",
                "vault/#store-vaults", "vault/key", "vault/v",
            ])
    }

    @Test("nothing that exists is replaced", arguments: ["backup", "restore"])
    func existing(verb: String) async throws {
        let fixture = try await StoreFixture()
        #expect(try CommandRun(["backup", fixture.scratch.url.path, scratch.path("b")]).status == 0)
        try FileManager.default.createDirectory(atPath: scratch.path("empty"), withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: scratch.path("full"), withIntermediateDirectories: true)
        try Data("mine".utf8).write(to: scratch.url.appendingPathComponent("full/file"))
        let source = verb == "backup" ? fixture.scratch.url.path : scratch.path("b")
        for place in ["full", "full/file"] {
            let refused = try CommandRun([verb, source, scratch.path(place)])
            #expect(refused.status == 1 && refused.errors.contains("exists already"), "\(refused.errors)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("full")) == ["file"])
        // An empty directory, and one that is missing with those above it.
        for place in ["empty", "new/deep/er"] {
            #expect(try CommandRun([verb, source, scratch.path(place)]).status == 0, "\(place)")
        }
    }

    @Test(
        "a backup that is unfinished, altered or leads outside is refused, and nothing is restored",
        arguments: [
            "no manifest", "cut short", "altered manifest", "altered file", "missing file", "outside",
        ])
    func refused(how: String) async throws {
        let fixture = try await StoreFixture()
        #expect(try CommandRun(["backup", fixture.scratch.url.path, scratch.path("b")]).status == 0)
        let manifest = scratch.url.appendingPathComponent("b/manifest")
        let file = scratch.url.appendingPathComponent("b/content/files/a.txt")
        let text = try String(contentsOf: manifest, encoding: .utf8)
        switch how {
        case "no manifest": try FileManager.default.removeItem(at: manifest)
        case "cut short":
            let lines = text.split(separator: "\n").dropLast()
            try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: manifest)
        case "altered manifest": try Data(text.replacing("a.txt", with: "b.txt").utf8).write(to: manifest)
        case "altered file": try Data("tixt".utf8).write(to: file)
        case "missing file": try FileManager.default.removeItem(at: file)
        default: try Data(text.replacing("files/a.txt", with: "../a.txt").utf8).write(to: manifest)
        }
        for option in [[], ["--dry-run"]] {
            let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")] + option)
            #expect(run.status == (how == "no manifest" ? 4 : 1), "\(run.errors)")
            #expect(run.errorLines.count == 1)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["b"])
    }

    @Test("nothing to save is an error, and a backup without files is restored also without its empty directory")
    func withoutFiles() throws {
        try FileManager.default.createDirectory(atPath: scratch.path("s/d"), withIntermediateDirectories: true)
        let empty = try CommandRun(["backup", scratch.path("s"), scratch.path("b")])
        #expect(empty.status == 4, "\(empty.output)")
        #expect(empty.errors == "Error: no store here: \(scratch.path("s")) contains no files\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["s"])
        try FileManager.default.createSymbolicLink(atPath: scratch.path("s/link"), withDestinationPath: "d")
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("b/content")).isEmpty)
        if let prefix = CommandRun.obeyingModes {
            try #require(chmod(scratch.path("b/content"), 0) == 0)
            let run = try CommandRun(["restore", "--dry-run", scratch.path("b"), scratch.path("r")], prefix: prefix)
            #expect(run.status == 1 && run.errors.contains("EACCES"), "\(run.output) \(run.errors)")
            try #require(chmod(scratch.path("b/content"), 0o700) == 0)
        }
        try FileManager.default.removeItem(atPath: scratch.path("b/content"))
        for (options, action) in [(["--dry-run"], "verified"), ([], "restored")] {
            let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")] + options)
            #expect(run.status == 0 && run.output == "0 files \(action) (0 B)\n", "\(run.output) \(run.errors)")
        }
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.path("r")) == ["d"])
    }

    @Test("files that were added to a backup are listed, and not restored")
    func added() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("s/fs"))
        try await store.save(Data("x".utf8), to: "a/b")
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
        try Data("y".utf8).write(to: scratch.url.appendingPathComponent("b/content/fs/a/added"))
        for option in [["--dry-run"], []] {
            let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")] + option)
            #expect(run.status == 2 && run.output.contains("skip  fs/a/added  ("), "\(run.output) \(run.errors)")
            #expect(run.output.contains(", 1 skipped"), "\(run.output)")
        }
        let keys = try await DiskFileStore(root: scratch.url.appendingPathComponent("r/fs")).list(recursive: true)
        #expect(keys.map(\.key) == ["a", "a/b"])
    }

    @Test("a file that changes during every attempt is reported, and no part of it stays in the backup")
    func torn() throws {
        let file = scratch.url.appendingPathComponent("s/file")
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(count: 8 << 20).write(to: file)
        let writer = open(file.path, O_WRONLY)
        let run: CommandRun
        let copied = DispatchGroup()
        copied.enter()
        let thread = Thread {
            while copied.wait(timeout: .now()) == .timedOut { _ = pwrite(writer, "x", 1, 0) }
            close(writer)
        }
        thread.start()
        do {
            defer { copied.leave() }
            run = try CommandRun(["backup", scratch.path("s"), scratch.path("b")])
        }
        #expect(run.status == 2 && run.output.contains("fail  file  ("), "\(run.output) \(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("b/content")) == [])
    }

    @Test("a backup below the directory is copied as it is, and can be restored from the copy")
    func nested() throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("srv/kv"))
        for value in 1...2 { try store.set(KVKey<Int>("a"), value: value) }
        try store.close()
        #expect(try CommandRun(["backup", scratch.path("srv/kv"), scratch.path("srv/mon")]).status == 0)
        #expect(try CommandRun(["backup", scratch.path("srv"), scratch.path("b")]).status == 0)
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("back")]).status == 0)
        let inner = try CommandRun(["restore", scratch.path("back/mon"), scratch.path("r")])
        #expect(inner.status == 0, "\(inner.errors)")
        #expect(try CommandRun(["kv", "get", scratch.path("r"), "a"]).output == "2\n")
    }

    @Test("the given directory and those below have their modes again, also the bits for groups and shared directories")
    func directoryModes() throws {
        let modes = ["s": 0o2770, "s/shared": 0o2775, "s/tmp": 0o1777]
        for path in modes.keys.sorted() {
            try FileManager.default.createDirectory(atPath: scratch.path(path), withIntermediateDirectories: true)
        }
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("s/tmp/file"))
        for (path, mode) in modes { #expect(chmod(scratch.path(path), mode_t(mode)) == 0) }
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        for (path, mode) in modes {
            let status = try SystemFileSystem().status(POSIXPath(scratch.path("r" + path.dropFirst())))
            #expect(Int(status.permissions.rawValue) & 0o7777 == mode, "\(path): \(status.permissions)")
        }
    }

    @Test("files have the modes of the manifest again, whatever those of the copies are")
    func fileModes() throws {
        let modes = ["a": 0o640, "d/run": 0o755, "d/shown": 0o444, "d/set-id": 0o4750]
        func permissions(_ path: String) throws -> Int {
            Int(try SystemFileSystem().status(POSIXPath(scratch.path(path))).permissions.rawValue) & 0o7777
        }
        for (path, mode) in modes {
            try scratch.plant("s/\(path)")
            try #require(chmod(scratch.path("s/\(path)"), mode_t(mode)) == 0)
        }
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
        for (path, mode) in modes {
            #expect(try permissions("b/content/\(path)") == mode & 0o777, "\(path)")
            try #require(chmod(scratch.path("b/content/\(path)"), 0o600) == 0)
        }
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        for (path, mode) in modes { #expect(try permissions("r/\(path)") == mode & 0o777, "\(path)") }
    }

    @Test("backup, restore and copy create files and directories with their modes, whatever the umask")
    func umask() throws {
        try scratch.plant("s/d/file")
        for (path, mode) in [("s", 0o700), ("s/d", 0o755), ("s/d/file", 0o600)] {
            try #require(chmod(scratch.path(path), mode_t(mode)) == 0)
        }
        for umask in ["0", "0777"] {
            let prefix = ["/bin/sh", "-c", "umask \(umask); exec \"$0\" \"$@\""]
            let (backup, target) = (scratch.path("\(umask)/b"), "tree:\(scratch.path("\(umask)/t"))")
            for words in [
                ["backup", scratch.path("s"), backup], ["restore", backup, scratch.path("\(umask)/r")],
                ["copy", "tree:\(scratch.path("s"))", target],
            ] {
                let run = try CommandRun(words, prefix: prefix)
                #expect(run.status == 0, "\(words[0]) \(umask): \(run.errors)")
            }
            for (path, mode) in [
                ("b", 0o700), ("b/manifest", 0o600), ("b/content", 0o700), ("b/content/d", 0o700),
                ("b/content/d/file", 0o600), ("r", 0o700), ("r/d", 0o755), ("r/d/file", 0o600), ("t", 0o700),
                ("t/d", 0o755), ("t/d/file", 0o600),
            ] {
                let status = try SystemFileSystem().status(POSIXPath(scratch.path("\(umask)/\(path)")))
                #expect(Int(status.permissions.rawValue) & 0o7777 == mode, "\(umask): \(path)")
            }
        }
    }

    @Test("a damaged vault is saved, and reported without its key")
    func damagedVault() async throws {
        let fixture = try await StoreFixture()
        let vault = fixture.scratch.url.appendingPathComponent("vault/v")
        try Data(contentsOf: vault).dropLast(10).write(to: vault)
        let run = try CommandRun(["backup", fixture.scratch.url.path, scratch.path("b")])
        #expect(run.status == 2 && run.output.contains("fail  vault/v  (damaged"), "\(run.output)")
        #expect(FileManager.default.fileExists(atPath: scratch.path("b/content/vault/v")))
    }

    @Test("a pipe with the name of a journal is left out, and nothing else")
    func journalPipe() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("s/fs"))
        try await store.save(Data("x".utf8), to: "a/b")
        #expect(mkfifo(scratch.path("s/fs/#journal-1"), 0o600) == 0)
        let run = try CommandRun(["backup", scratch.path("s"), scratch.path("b")])
        #expect(run.status == 2 && run.output.contains("skip  fs/#journal-1"), "\(run.output) \(run.errors)")
        #expect(run.output.contains("0 failed") || !run.output.contains("fail"), "\(run.output)")
        #expect(FileManager.default.fileExists(atPath: scratch.path("b/content/fs/a/b")))
    }

    @Test("a manifest that is no file, or has a line without end, is refused", .timeLimit(.minutes(1)))
    func oddManifest() async throws {
        let fixture = try await StoreFixture()
        #expect(try CommandRun(["backup", fixture.scratch.url.path, scratch.path("b")]).status == 0)
        let manifest = scratch.path("b/manifest")
        #expect(truncate(manifest, 4 << 30) == 0)
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).errors.contains("longer than"))
        try FileManager.default.removeItem(atPath: manifest)
        #expect(mkfifo(manifest, 0o600) == 0)
        let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")])
        #expect(run.status == 1 && run.errors.contains("manifest"), "\(run.errors)")
    }

    @Test(
        "a link or a mount point as the destination is refused before anything is copied", arguments: ["link", "proc"])
    func oddDestination(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: scratch.path("empty"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: "empty")
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try store.close()
        let destination = name == "link" ? scratch.path("link") : "/proc"
        let run = try CommandRun(["backup", scratch.path("kv"), destination])
        let reason = name == "link" ? "symbolic link" : "mount point"
        #expect(run.status == 1 && run.errors.contains(reason), "\(run.errors)")
    }

    @Test(
        "a destination, or what an interrupted run has left, that cannot be read is an error of the system",
        .enabled(if: CommandRun.obeyingModes != nil))
    func unreadableDestination() throws {
        try scratch.plant("s/file")
        for name in ["closed", ".b.partial"] {
            try FileManager.default.createDirectory(
                atPath: scratch.path(name), withIntermediateDirectories: false, attributes: [.posixPermissions: 0])
            let destination = name == "closed" ? name : "b"
            let run = try CommandRun(
                ["backup", scratch.path("s"), scratch.path(destination)], prefix: #require(CommandRun.obeyingModes))
            #expect(run.status == 1 && run.output.isEmpty, "\(run.output)")
            #expect(run.errors == "Error: open \(scratch.path(name)): Permission denied (EACCES)\n")
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted()
                == [".b.partial", "closed", "s"])
    }

    @Test("empty directories are restored, with their modes")
    func emptyDirectories() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("s/fs"))
        try await store.save(Data("x".utf8), to: "a/b")
        for path in ["s/fs/empty/deep", "s/fs/a/none"] {
            try FileManager.default.createDirectory(
                atPath: scratch.path(path), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o750])
        }
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
        let restored = try CommandRun(["restore", scratch.path("b"), scratch.path("r")])
        #expect(restored.status == 0, "\(restored.errors)")
        let keys = try await DiskFileStore(root: scratch.url.appendingPathComponent("r/fs"))
            .list(in: "", recursive: true).map(\.key).sorted()
        #expect(keys == ["a", "a/b", "a/none", "empty", "empty/deep"])
        let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path("r/fs/empty/deep"))
        #expect(attributes[.posixPermissions] as? Int == 0o750)
    }

    @Test(
        "a backup reports every damage of a log that check reports", arguments: [0, 20, 64, 70, 89, -1, -8],
        [true, false])
    func damageOfCheck(offset: Int, isCut: Bool) throws {
        for count in [1, 3] {
            let name = "s\(count)"
            do {
                let store = try FileKVStore(at: scratch.url.appendingPathComponent("\(name)/kv"))
                for number in 0..<count { try store.set(KVKey<Int>("key.\(number)"), value: number) }
            }
            let log = scratch.url.appendingPathComponent("\(name)/kv/log")
            var bytes = try Data(contentsOf: log)
            let end = try #require(bytes.lastIndex { $0 != 0 }) + 1
            let position = offset < 0 ? end + offset : offset
            if isCut { bytes = bytes.prefix(position) } else { bytes[position] ^= 1 }
            try bytes.write(to: log)
            let check = try CommandRun(["check", scratch.path(name)])
            let backup = try CommandRun(["backup", scratch.path(name), scratch.path("b\(count)")])
            #expect(
                (check.status == 0) == (backup.status == 0),
                "\(count) keys, \(position): \(check.output)\(backup.output)\(backup.errors)")
        }
    }

    @Test("the readable part of a damaged store is saved, and the status is that of partial success")
    func damaged() throws {
        do {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("s/kv"))
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        let log = scratch.url.appendingPathComponent("s/kv/log")
        var bytes = try Data(contentsOf: log)
        bytes[64 + 25] ^= 1
        try bytes.write(to: log)
        let run = try CommandRun(["backup", scratch.path("s"), scratch.path("b")])
        #expect(run.status == 2, "\(run.errors)")
        #expect(run.output.contains("fail  kv/log  (damaged"), "\(run.output)")
        #expect(try values("b/content/kv").count == 9)
    }

    /// Writes to a key-value store and to files until it is stopped: key `number % 10` gets `number`.
    private final class Writer: Sendable {
        private let isStopped = Atomic(false)
        private let group = DispatchGroup()

        init(_ root: URL) throws {
            let store = try FileKVStore(at: root.appendingPathComponent("kv"))
            DispatchQueue.global().async(group: group) { [self] in
                do {
                    try write(to: store, root.appendingPathComponent("files"))
                } catch {
                    Issue.record(error)
                }
            }
        }

        private func write(to store: FileKVStore, _ files: URL) throws {
            var number = 0
            while !isStopped.load(ordering: .relaxed) {
                number += 1
                try store.set(KVKey<Int>("\(number % 10)"), value: number)
                guard number % 50 == 0 else { continue }
                let text = String(repeating: "\(number) ", count: 2000)
                try Data(text.utf8).write(
                    to: files.appendingPathComponent("\(number / 50 % BackupTests.fileCount)"), options: .atomic)
            }
        }

        func stop() {
            isStopped.store(true, ordering: .relaxed)
            group.wait()
        }
    }

    @Test("every finished backup beside a writer has a state of each store, and a killed one is never finished")
    func besideWriter() throws {
        let root = scratch.url.appendingPathComponent("app")
        for number in 0..<Self.fileCount {
            let file = root.appendingPathComponent("files/\(number)")
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(String(repeating: "0 ", count: 2000).utf8).write(to: file)
        }
        let writer = try Writer(root)
        defer { writer.stop() }
        var finished = 0
        for round in 0..<8 {
            let process = try ChildProcess(
                CommandRun.executable(), ["backup", root.path, scratch.path("b\(round)")], output: .null)
            if round % 2 == 1 {
                usleep(.random(in: 0..<60_000))
                process.send(SIGKILL)
            }
            let end = process.wait()
            let isFinished = end == .exit(0)
            if !isFinished { #expect(end == .signal(SIGKILL)) }
            let restored = try CommandRun(["restore", scratch.path("b\(round)"), scratch.path("r\(round)")])
            #expect(
                restored.status == (isFinished ? 0 : 4) || (!isFinished && restored.status == 0), "\(restored.errors)")
            guard restored.status == 0 else { continue }
            finished += 1
            try requireState(in: scratch.url.appendingPathComponent("r\(round)"))
        }
        #expect(finished >= 4)
    }

    private func requireState(in root: URL) throws {
        let store = try FileKVStore(at: root.appendingPathComponent("kv"))
        let present = try store.keys().compactMap { store.get(KVKey<Int>($0)) }
        let last = present.max() ?? 0
        for digit in 0..<10 {
            let expected = last - (last - digit + 10) % 10
            #expect(store.get(KVKey<Int>("\(digit)")) == (expected > 0 ? expected : nil), "\(digit) of \(last)")
        }
        for number in 0..<Self.fileCount {
            let text = try String(contentsOf: root.appendingPathComponent("files/\(number)"), encoding: .utf8)
            let first = text.prefix { $0 != " " }
            #expect(text == String(repeating: "\(first) ", count: 2000), "\(number)")
        }
    }
}
