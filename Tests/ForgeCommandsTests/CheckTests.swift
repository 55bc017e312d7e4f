import Foundation
import Testing

struct CheckTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// Flips one bit in the middle of a file.
    private func damage(_ url: URL) throws {
        var bytes = try Data(contentsOf: url)
        bytes[bytes.count / 2] ^= 0x10
        try bytes.write(to: url)
    }

    @Test("the demo's stores are intact, and check changes nothing")
    func intact() throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        for _ in 0..<2 {
            let run = try CommandRun(["check", scratch.path("demo"), "--key-file", scratch.path("demo/vault-key")])
            #expect(run.status == 0, "\(run.errors)")
            #expect(run.output.contains("intact (3 keys)"))
            #expect(run.output.contains("intact (1 secret)"))
            #expect(run.output.hasSuffix("8 checked, 0 damaged\n"), "\(run.output)")
        }
        let withoutKey = try CommandRun(["check", scratch.path("demo")])
        #expect(withoutKey.output.contains("give --key-file"))
    }

    @Test(
        "damage is reported and sets the exit status",
        arguments: ["settings/log", "secrets/vault", "images/board_background.cache"])
    func damaged(path: String) throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        try damage(scratch.url.appendingPathComponent("demo/\(path)"))
        let run = try CommandRun([
            "check", scratch.path("demo"), "--key-file", scratch.path("demo/vault-key"), "--json",
        ])
        #expect(run.status == 1)
        #expect(try paths(damagedIn: run) == [path])
    }

    @Test("temporary files, links and quarantined data are reported, but not as damage")
    func oddities() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("store"), "key", "1"]).status == 0)
        for name in ["#tmp-abcdefghijklmnop", "quarantine-records-1"] {
            try Data("x".utf8).write(to: scratch.url.appendingPathComponent("store/\(name)"))
        }
        try FileManager.default.createSymbolicLink(atPath: scratch.path("store/link"), withDestinationPath: "/etc")
        let run = try CommandRun(["check", scratch.path("store")])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.output.contains("temporary file"))
        #expect(run.output.contains("quarantine"))
        #expect(run.output.contains("symbolic link"))
        #expect(run.output.contains("0 damaged, 1 skipped"))
    }

    @Test("files with a second hard link are readable, and their stores read them")
    func hardLinks() async throws {
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url
        let snapshot = root.appending(path: "snapshot")
        try FileManager.default.createDirectory(at: snapshot, withIntermediateDirectories: false)
        for name in ["files/a.txt", "vault/v", "vault/#lock-vaults", "vault/#store-vaults"] {
            try FileManager.default.linkItem(
                at: root.appending(path: name), to: snapshot.appending(path: URL(filePath: name).lastPathComponent))
        }
        let run = try CommandRun(["check", root.path, "--json"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(try paths(damagedIn: run) == [])
        let get = try CommandRun(["file", "get", root.appending(path: "files").path, "a.txt"])
        #expect(get.status == 0 && get.output == "text", "\(get.errors)")
    }

    @Test("a missing directory is one line on standard error")
    func missing() throws {
        let run = try CommandRun(["check", scratch.path("typo")])
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1)
    }

    @Test("a key file that a vault refuses is damaged", arguments: ["altered", "cut short", "readable by all"])
    func damagedKeyFile(how: String) async throws {
        let fixture = try await StoreFixture()
        let key = fixture.scratch.url.appendingPathComponent("vault/key")
        #expect(try CommandRun(["check", fixture.scratch.url.path]).output.contains("intact"))
        switch how {
        case "altered": try damage(key)
        case "cut short": try #require(truncate(key.path, 30) == 0)
        default: try #require(chmod(key.path, 0o644) == 0)
        }
        let run = try CommandRun(["check", fixture.scratch.url.path, "--json"])
        #expect(run.status == 1)
        #expect(try paths(damagedIn: run) == ["vault/key"])
    }

    @Test("JSON contains paths unchanged, including control characters")
    func controlCharacters() throws {
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("a\nb\u{1B}c\u{9B}"))
        let run = try CommandRun(["check", scratch.url.path, "--json"])
        let rows = try run.rows()
        #expect(rows.map { $0["path"] as? String } == ["a\nb\u{1B}c\u{9B}"])
        #expect(try CommandRun(["check", scratch.url.path]).output.contains("a\\x0ab\\x1bc\\xc2\\x9b"))
    }

    private func paths(damagedIn run: CommandRun) throws -> [String] {
        let rows = try run.rows()
        return rows.filter { $0["state"] as? String == "damaged" }.compactMap { $0["path"] as? String }
    }
}
