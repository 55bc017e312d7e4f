#if os(Linux)
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
#endif
