#if os(Linux)
import ChildProcesses
import ForgeStorage
import Foundation
import Glibc
import SystemPackage
import Testing

/// A mounted directory of one test, which only root may make; unmounted with the last reference.
private final class Mount: Sendable {
    enum Kind: String, CaseIterable {
        /// Another directory, mounted a second time.
        case bound
        /// A device of 1 MiB in memory.
        case small
    }

    private static let bind: UInt = 4096
    private static let detach: CInt = 2

    let path: String

    /// Mounts at an existing directory.
    init(_ kind: Kind, _ source: String = "tmpfs", at path: String) throws {
        let result =
            switch kind {
            case .bound: mount(source, path, nil, Self.bind, nil)
            case .small: mount(source, path, "tmpfs", 0, "size=1m,mode=755")
            }
        guard result == 0 else { throw Errno(rawValue: errno) }
        self.path = path
    }

    deinit { _ = umount2(path, Self.detach) }

    /// Whether this process may mount; prints the reason if not.
    static let isPermitted: Bool = {
        do {
            let scratch = try Scratch()
            for kind in Kind.allCases { _ = try Mount(kind, scratch.url.path, at: scratch.url.path) }
            return true
        } catch {
            print("NOT RUN: the tests of the command on mounted directories: \(error)")
            return false
        }
    }()
}

@Suite("the command on mounted directories", .enabled(if: Mount.isPermitted))
struct MountTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        for name in ["data/sub", "mounted"] {
            try FileManager.default.createDirectory(
                at: scratch.url.appendingPathComponent(name), withIntermediateDirectories: true)
        }
    }

    private func plant(_ path: String, _ content: Data) throws {
        try content.write(to: scratch.url.appendingPathComponent(path))
    }

    @Test(
        "a backup or a copy into its own source through a bind mount is refused, and leaves nothing there",
        arguments: [
            ("data/sub", "data", "mounted/b"), ("data", "mounted", "data/sub/b"), ("data", "data", "mounted/b"),
        ])
    func intoItself(bound: String, source: String, destination: String) throws {
        try plant("data/sub/file", Data("x".utf8))
        let mount = try Mount(.bound, scratch.path(bound), at: scratch.path("mounted"))
        defer { withExtendedLifetime(mount) {} }
        let (from, to) = (scratch.path(source), scratch.path(destination))
        for words in [["backup", from, to], ["copy", "tree:\(from)", "tree:\(to)"]] {
            let run = try CommandRun(words)
            #expect(run.status == 64, "\(words): \(run.status) \(run.output) \(run.errors)")
            #expect(
                try FileManager.default.subpathsOfDirectory(atPath: scratch.path("data")).sorted()
                    == ["sub", "sub/file"], "\(words)")
        }
    }

    @Test("a mounted directory is no destination of a backup, also if its device is that of the directory above")
    func mountedDestination() throws {
        try plant("data/file", Data("x".utf8))
        let mount = try Mount(.bound, scratch.path("data/sub"), at: scratch.path("mounted"))
        defer { withExtendedLifetime(mount) {} }
        let run = try CommandRun(["backup", scratch.path("data"), scratch.path("mounted")])
        #expect(run.status == 1 && run.errors.contains("is a mount point"), "\(run.errors)")
    }

    @Test(
        "a copy that cannot replace or delete one file goes on, and reports that file", arguments: ["tree", "file"])
    func busyFiles(scheme: String) throws {
        for name in ["source/dir", "target/d"] {
            try FileManager.default.createDirectory(
                at: scratch.url.appendingPathComponent(name), withIntermediateDirectories: true)
        }
        for name in ["a", "b", "c"] { try plant("source/\(name)", Data("new".utf8)) }
        for name in ["a", "b", "c", "d/x", "y", "z"] { try plant("target/\(name)", Data("old".utf8)) }
        func run(_ options: String...) throws -> CommandRun {
            try CommandRun(["copy", "tree:" + scratch.path("source"), "\(scheme):" + scratch.path("target")] + options)
        }
        // A file on which another one is mounted cannot be replaced or removed (EBUSY).
        var mount: Mount? = try Mount(.bound, scratch.path("target/z"), at: scratch.path("target/b"))
        let copy = try run("--verify")
        #expect(copy.status == 2, "\(copy.errors)")
        #expect(copy.output.contains("fail  tree:\(scratch.path("source"))/b"), "\(copy.output)")
        #expect(copy.output.hasSuffix("2 copied (6 B), 0 equal, 1 failed, 2 verified\n"), "\(copy.output)")
        mount = nil
        #expect(try run().status == 0)
        mount = try Mount(.bound, scratch.path("target/z"), at: scratch.path("target/y"))
        let deletion = try run("--delete")
        withExtendedLifetime(mount) {}
        #expect(deletion.status == 2, "\(deletion.errors)")
        #expect(deletion.output.contains("/y  ("), "\(deletion.output)")
        #expect(deletion.errors.contains("1 item failed, 5 did not"), "\(deletion.errors)")
        #expect(deletion.output.hasSuffix("3 equal, 2 deleted, 1 failed\n"), "\(deletion.output)")
    }

    @Test("a copy that a full device ends says how many keys are stored")
    func fullDestination() throws {
        let mount = try Mount(.small, at: scratch.path("mounted"))
        defer { withExtendedLifetime(mount) {} }
        let value = String(repeating: "v", count: 4096)
        let values = Dictionary(uniqueKeysWithValues: (0..<512).map { ("key.\($0)", value) })
        try plant("data/in.json", try JSONEncoder().encode(values))
        let url = scratch.url.appendingPathComponent("mounted/store")
        let run = try CommandRun(["copy", "json:" + scratch.path("data/in.json"), "kv:" + url.path])
        #expect(run.status == 1)
        #expect(run.errors.contains("ENOSPC"), "\(run.errors)")
        let stored = try FileKVStore(at: url, options: .init(access: .readOnly)).keys().count
        #expect(stored > 0)
        #expect(run.output.hasPrefix("\(stored) copied ("), "\(stored): \(run.output)")
    }

    @Test("a copy of files that a full device ends names the file, leaves no part of it and counts the others")
    func fullTree() throws {
        let mount = try Mount(.small, at: scratch.path("mounted"))
        defer { withExtendedLifetime(mount) {} }
        try plant("data/a", Data("1".utf8))
        try plant("data/large", Data(repeating: 7, count: 2 << 20))
        let target = scratch.path("mounted/t")
        let run = try CommandRun(["copy", "tree:" + scratch.path("data"), "tree:" + target])
        #expect(run.status == 1 && run.output == "1 copied (1 B), 0 equal\n", "\(run.output)")
        #expect(run.errors == "Error: write \(target)/large: No space left on device (ENOSPC)\n", "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: target) == ["a"])
    }

    @Test("keys are removed from a store on a full device, which no process had open", arguments: [true, false])
    func fullDevice(hasReserve: Bool) throws {
        let mount = try Mount(.small, at: scratch.path("mounted"))
        defer { withExtendedLifetime(mount) {} }
        let url = scratch.url.appendingPathComponent("mounted/store")
        do {
            let store = try FileKVStore(at: url)
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
            try store.synchronize()
            try store.close()
        }
        if !hasReserve { try FileManager.default.removeItem(at: url.appendingPathComponent("#reserve")) }
        let filler = open(scratch.path("mounted/filler"), O_CREAT | O_WRONLY, 0o600)
        let block = [UInt8](repeating: 1, count: 4096)
        while write(filler, block, block.count) > 0 {}
        close(filler)
        for number in 0..<5 {
            let run = try CommandRun(["kv", "rm", url.path, "key.\(number)"])
            #expect(run.status == 0, "\(run.errors)")
        }
        #expect(try FileKVStore(at: url, options: .init(access: .readOnly)).keys().count == 5)
    }
}

/// The calls of a command that change names or flush files, as strace(1) shows them.
private enum FlushTrace {
    static let words = [
        "/usr/bin/strace", "-f", "-y", "-qq", "-e", "trace=/^(fsync|syncfs|rename.*|unlink.*)$", "-e", "signal=none",
        "-o",
    ]

    /// Whether this process may trace another; prints the reason if not.
    static let isPermitted: Bool = {
        do {
            let run = try ChildProcess.run(words[0], Array(words.dropFirst()) + ["/dev/null", "/bin/true"])
            if run.end == .exit(0) { return true }
            print("NOT RUN: the tests of flushes: \(run.end) \(String(decoding: run.errors, as: UTF8.self))")
        } catch {
            print("NOT RUN: the tests of flushes, which take strace: \(error)")
        }
        return false
    }()
}

@Suite("what the command has flushed to the device when it ends", .enabled(if: FlushTrace.isPermitted))
struct FlushTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// Runs the command; returns its renames, removals and flushes in their order, `fsync` with the path of the file.
    private func calls(_ words: [String]) throws -> [String] {
        let run = try CommandRun(words, prefix: FlushTrace.words + [scratch.path("trace")])
        #expect(run.status == 0, "\(words) \(run.output) \(run.errors)")
        let directory = scratch.url.lastPathComponent
        let trace = try String(contentsOfFile: scratch.path("trace"), encoding: .utf8)
        return trace.split(separator: "\n").filter { $0.contains(directory) }.compactMap { line -> String? in
            if let call = line.firstMatch(of: #/\b(syncfs|rename|unlink)\w*\(/#) { return String(call.1) }
            guard let call = line.firstMatch(of: #/\bfsync\(\d+<([^>]*)>/#) else { return nil }
            let path = String(call.1).components(separatedBy: directory).last ?? ""
            return "fsync .\(path)".replacing(#/#tmp-\w+/#, with: "#tmp")
        }
    }

    /// Expects calls in an order, perhaps with others between them.
    private func expect(_ steps: [String], in calls: [String]) {
        var rest = calls[...]
        for step in steps {
            guard let index = rest.firstIndex(of: step) else {
                Issue.record("no \(step) at its place in \(calls)")
                return
            }
            rest = rest[(index + 1)...]
        }
    }

    @Test(
        "a backup and a restore are flushed before their directories are renamed, and the renames afterwards",
        arguments: ["backup", "restore"])
    func staged(verb: String) throws {
        try scratch.plant("s/a")
        if verb == "restore" { #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0) }
        let (source, name) = verb == "backup" ? ("s", "b") : ("b", "r")
        let partial = "fsync ./.\(name).partial"
        expect(
            ["\(partial)/forge-unfinished", partial, "syncfs", "\(partial)/new", "rename", "fsync ."],
            in: try calls([verb, scratch.path(source), scratch.path(name)]))
    }

    @Test("copies are flushed before anything is deleted, and the deletions afterwards")
    func copies() throws {
        for path in ["s/a", "t/old"] { try scratch.plant(path) }
        let words = ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--delete"]
        expect(["rename", "syncfs", "unlink", "syncfs"], in: try calls(words))
    }

    @Test("an output is flushed before it is renamed, and the rename afterwards")
    func output() async throws {
        try await DiskFileStore(root: scratch.url.appendingPathComponent("fs")).save(Data("x".utf8), to: "a")
        let words = ["file", "get", scratch.path("fs"), "a", "-o", scratch.path("out")]
        expect(["fsync ./#tmp", "rename", "fsync ."], in: try calls(words))
    }

    @Test("what a repair sets aside is flushed in both directories")
    func quarantine() throws {
        let (key, vault) = (scratch.url.appendingPathComponent("v/key"), scratch.url.appendingPathComponent("v/vault"))
        try VaultCrypt(at: vault, key: VaultKeyFile.loadOrCreate(at: key)).set("x", for: CryptKey<String>(key: "a"))
        var bytes = try Data(contentsOf: vault)
        bytes[bytes.count / 2] ^= 0x10
        try bytes.write(to: vault)
        try #require(chmod(vault.path, 0o600) == 0)
        let words = ["repair", scratch.path("v"), "--key-file", key.path]
        expect(["rename", "fsync ./v/quarantine", "fsync ./v"], in: try calls(words))
    }
}
#endif
