import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Logging
import Testing

@Suite("repair")
struct RepairTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func flip(_ path: String, at offset: Int? = nil) throws {
        let url = scratch.url.appendingPathComponent(path)
        var bytes = try Data(contentsOf: url)
        bytes[offset ?? bytes.count / 2] ^= 0x10
        try bytes.write(to: url)
    }

    private func readable(_ path: String) throws -> [String: [UInt8]] {
        let options = FileKVStore.Options(
            access: .readOnly, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let store = try FileKVStore(at: scratch.url.appendingPathComponent(path), options: options)
        return Dictionary(uniqueKeysWithValues: try store.snapshot().map { ($0.name, $0.entry.bytes) })
    }

    private func listing() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
    }

    @Test("a file that is not damaged is left where it is: of another program, of a later version, or not private")
    func undamaged() throws {
        let images = ImageCacheManager(cacheDirectory: scratch.url.appendingPathComponent("images"))
        try images.cacheImage(id: "later", data: Data([1, 2, 3]))
        let later = scratch.url.appendingPathComponent("images/later.cache")
        var content = try Data(contentsOf: later)
        content[8] = 200  // The version.
        try content.write(to: later)
        try FileManager.default.createDirectory(atPath: scratch.path("app"), withIntermediateDirectories: true)
        try Data("another program's".utf8).write(to: scratch.url.appendingPathComponent("app/x.cache"))
        let vault = try VaultCrypt(
            at: scratch.url.appendingPathComponent("vault"),
            key: VaultKeyFile.loadOrCreate(at: scratch.url.appendingPathComponent("key")))
        try vault.set("secret", for: CryptKey<String>(key: "a"))
        try #require(chmod(scratch.path("vault"), 0o644) == 0)
        let before = try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
        let run = try CommandRun(["repair", scratch.url.path])
        #expect(run.status == 2, "\(run.status)")
        let items = run.output.split(separator: "\n").prefix(2)
        #expect(items.allSatisfy { $0.contains("  (left as it is: ") }, "\(run.output)")
        #expect(run.output.hasSuffix("2 damaged, 0 repaired, 2 failed\n"), "\(run.output)")
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted() == before)
    }

    /// How a marker of 16 bytes is damaged.
    enum MarkerDamage: String, CaseIterable {
        case flipped, cut
    }

    @Test(
        "a damaged marker is damage, and is repaired with the stores that it hides", arguments: MarkerDamage.allCases)
    func markers(_ damage: MarkerDamage) throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        let markers = ["settings/#store-key-value", "secrets/#store-vaults"].map { "demo/\($0)" }
        for marker in markers {
            let url = scratch.url.appendingPathComponent(marker)
            switch damage {
            case .flipped: try flip(marker)
            case .cut: try Data(contentsOf: url).prefix(10).write(to: url)
            }
        }
        for path in ["settings/log", "secrets/vault"] { try flip("demo/\(path)") }
        let check = try CommandRun(["check", scratch.path("demo")])
        #expect(check.status == 1 && check.output.contains("4 damaged"), "\(check.output)")
        let line = /#store-vaults +marker +\d+ +damaged \(until it is repaired, the files beside it are left as they/
        #expect(check.output.contains(line), "\(check.output)")
        let backup = try CommandRun(["backup", scratch.path("demo"), scratch.path("b")])
        #expect(backup.status == 2 && backup.output.contains("#store-vaults  (damaged"), "\(backup.output)")
        let key = ["--key-file", scratch.path("demo/vault-key")]
        let before = try listing()
        let rehearsal = try CommandRun(["repair", scratch.path("demo"), "--dry-run"] + key)
        #expect(rehearsal.status == 0, "\(rehearsal.output) \(rehearsal.errors)")
        #expect(rehearsal.output.contains("4 damaged, 4 to repair, 0 failed"), "\(rehearsal.output)")
        #expect(try listing() == before)
        let repair = try CommandRun(["repair", scratch.path("demo")] + key)
        #expect(repair.status == 0, "\(repair.output) \(repair.errors)")
        /// What is done with each file.
        func steps(_ run: CommandRun) -> [String] {
            run.output.split(separator: "\n").dropLast().map { line in
                line.split(separator: " ").prefix(2).joined(separator: " ")
            }
        }
        #expect(steps(repair) == steps(rehearsal))
        #expect(repair.output.contains("4 damaged, 4 repaired, 0 failed"), "\(repair.output)")
        #expect(try CommandRun(["check", scratch.path("demo")] + key).status == 0)
    }

    @Test("a file of another program with the name of a marker is left as it is", arguments: ["", "another program"])
    func foreignMarker(content: String) throws {
        try FileManager.default.createDirectory(atPath: scratch.path("app"), withIntermediateDirectories: true)
        let url = scratch.url.appendingPathComponent("app/#store-files")
        try Data(content.utf8).write(to: url)
        for verb in ["check", "repair"] { #expect(try CommandRun([verb, scratch.path("app")]).status == 0) }
        #expect(try Data(contentsOf: url) == Data(content.utf8))
    }

    @Test("nothing is repaired in a backup below the directory, or below a store of a later version")
    func kept() throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("app/demo")]).status == 0)
        try flip("app/demo/secrets/vault")
        #expect(try CommandRun(["backup", scratch.path("app/demo"), scratch.path("app/mon")]).status == 2)
        try FileManager.default.moveItem(atPath: scratch.path("app/demo"), toPath: scratch.path("app/later"))
        try Data("FORGEDIR of a later version".utf8).write(
            to: scratch.url.appendingPathComponent("app/later/#store-ledger"))
        let before = try listing()
        let key = ["--key-file", scratch.path("app/later/vault-key")]
        let run = try CommandRun(["repair", scratch.path("app")] + key)
        #expect(run.status == 2, "\(run.output)")
        #expect(run.output.contains("in a backup") && run.output.contains("does not know"), "\(run.output)")
        #expect(try listing() == before)
        #expect(try CommandRun(["restore", scratch.path("app/mon"), scratch.path("r")]).status == 0)
    }

    @Test("a link with the name of the directory for damaged files is not followed", arguments: ["outside", "nowhere"])
    func linkedQuarantine(target: String) throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        try flip("demo/secrets/vault")
        try FileManager.default.createDirectory(atPath: scratch.path("outside"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("demo/secrets/quarantine"), withDestinationPath: "../../\(target)")
        let key = ["--key-file", scratch.path("demo/vault-key")]
        for options in [["--dry-run"], []] {
            let run = try CommandRun(["repair", scratch.path("demo")] + key + options)
            #expect(run.status == 2, "\(options) \(run.output)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("outside")) == [])
        #expect(FileManager.default.fileExists(atPath: scratch.path("demo/secrets/vault")))
    }

    @Test("no damaged file gets into a store or backup named like the quarantine", arguments: ["store", "backup"])
    func takenQuarantine(_ kind: String) async throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        let quarantine = scratch.url.appendingPathComponent("demo/secrets/quarantine")
        if kind == "store" {
            try await DiskFileStore(root: quarantine).save(Data("1".utf8), to: "a")
        } else {
            #expect(try CommandRun(["backup", scratch.path("demo/settings"), scratch.path("backup")]).status == 0)
            try FileManager.default.moveItem(atPath: scratch.path("backup"), toPath: quarantine.path)
        }
        try flip("demo/secrets/vault")
        let before = try listing()
        for options in [["--dry-run"], []] {
            let words = ["repair", scratch.path("demo"), "--key-file", scratch.path("demo/vault-key")]
            let run = try CommandRun(words + options)
            #expect(run.status == 2, "\(options) \(run.output)")
            #expect(run.output.contains("quarantine is the directory of a store or of a backup"), "\(run.output)")
            #expect(try listing() == before)
        }
    }

    @Test("damaged stores are repaired or set aside, everything is listed, and the check is clean afterwards")
    func everyKind() throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        let damaged = ["settings/log", "secrets/vault", "images/board_background.cache", "vault-key"]
        for path in damaged.prefix(3) { try flip("demo/\(path)") }
        try #require(chmod(scratch.path("demo/vault-key"), 0o644) == 0)
        try #require(chmod(scratch.path("demo/secrets/vault"), 0o600) == 0)
        let kept = try readable("demo/settings")
        let before = try listing()
        // Without its key, the damage of the vault would not be found; the key file itself is refused at first.
        let copy = scratch.path("key")
        try FileManager.default.copyItem(atPath: scratch.path("demo/vault-key"), toPath: copy)
        try #require(chmod(copy, 0o600) == 0)
        let words = ["repair", scratch.path("demo"), "--key-file", copy]
        let rehearsal = try CommandRun(words + ["--dry-run"])
        #expect(rehearsal.status == 0, "\(rehearsal.errors)")
        let quarantine = scratch.path("demo/secrets/quarantine/quarantine-vault")
        let text = rehearsal.output
        #expect(text.contains("set-aside  secrets/vault → \(quarantine)  (verify in "), "\(text)")
        let end = "repair  vault-key  (readable by other users; mode 0600)\n4 damaged, 4 to repair, 0 failed\n"
        #expect(text.hasSuffix(end), "\(text)")
        #expect(try listing() == (before + ["key"]).sorted())
        let run = try CommandRun(words + ["--json"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(Set(try run.rows().compactMap { $0["path"] as? String }) == Set(damaged))
        let destinations = try run.rows().compactMap { $0["destination"] as? String }
        let image = scratch.path("demo/images/quarantine/quarantine-board_background.cache")
        #expect(destinations == [image, quarantine])
        let summary = try run.summary()
        #expect(["damaged", "repaired", "failed"].map { summary[$0] as? Int ?? -1 } == [4, 4, 0])
        let check = try CommandRun(["check", scratch.path("demo"), "--key-file", copy])
        #expect(check.status == 0, "\(check.output)")
        #expect(try readable("demo/settings") == kept)
        let names = try listing()
        #expect(names.contains("demo/secrets/quarantine/quarantine-vault"))
        #expect(names.contains("demo/images/quarantine/quarantine-board_background.cache"))
        #expect(names.contains { $0.hasPrefix("demo/settings/quarantine-") })
        let again = try CommandRun(words)
        #expect(again.status == 0)
        #expect(again.output == "0 damaged, 0 repaired, 0 failed\n")
    }

    @Test("a log that cannot be rewritten is left as it is, with the reason")
    func failedRewriting() throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try store.set(KVKey<Int>("a"), value: 1)
        try store.set(KVKey<String>("long"), value: String(repeating: "x", count: 100_000))
        try store.close()
        try flip("kv/log", at: 64 + 25)
        let before = try readable("kv")
        // No file may become as long as the log.
        let run = try CommandRun(
            ["repair", scratch.path("kv")],
            prefix: ["/bin/sh", "-c", "trap '' XFSZ; ulimit -f 40 && exec \"$0\" \"$@\""])
        #expect(run.status == 2 && run.errors == "Error: 1 item could not be repaired\n", "\(run.errors)")
        #expect(run.output.hasPrefix("fail  log  (the log could not be rewritten: "), "\(run.output)")
        #expect(run.output.contains("File too large (EFBIG))\n1 damaged, 0 repaired, 1 failed\n"), "\(run.output)")
        #expect(try readable("kv") == before && before.count == 1)
    }

    @Test("a key file is made private, or set aside if it is damaged", arguments: ["readable by all", "altered"])
    func keyFile(how: String) async throws {
        let fixture = try await StoreFixture()
        let key = fixture.scratch.url.appendingPathComponent("vault/key")
        if how == "altered" {
            var bytes = try Data(contentsOf: key)
            bytes[bytes.count / 2] ^= 1
            try bytes.write(to: key)
            try #require(chmod(key.path, 0o600) == 0)
        } else {
            try #require(chmod(key.path, 0o644) == 0)
        }
        let before = try Data(contentsOf: key)
        let run = try CommandRun(["repair", fixture.scratch.url.path, "--json"])
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try run.rows().map { $0["action"] as? String } == [how == "altered" ? "set-aside" : "repair"])
        let left = how == "altered" ? fixture.scratch.path("vault/quarantine/quarantine-key") : key.path
        #expect(try Data(contentsOf: URL(fileURLWithPath: left)) == before)
        #expect(try FileManager.default.attributesOfItem(atPath: left)[.posixPermissions] as? Int == 0o600)
        #expect(FileManager.default.fileExists(atPath: key.path) == (how != "altered"))
    }

    @Test("what was set aside before is kept, under a name of its own")
    func setAsideAgain() throws {
        let images = ImageCacheManager(cacheDirectory: scratch.url.appendingPathComponent("images"))
        var contents: [Data] = []
        for size in [10, 20, 30] {
            try images.cacheImage(id: "a", data: Data(count: size))
            try flip("images/a.cache")
            contents.append(try Data(contentsOf: scratch.url.appendingPathComponent("images/a.cache")))
            let rehearsal = try CommandRun(["repair", scratch.url.path, "--dry-run"])
            #expect(rehearsal.status == 0, "\(rehearsal.output) \(rehearsal.errors)")
            let run = try CommandRun(["repair", scratch.url.path])
            #expect(run.status == 0, "\(run.output) \(run.errors)")
            #expect(!FileManager.default.fileExists(atPath: scratch.path("images/a.cache")))
        }
        let kept = try ["a.cache", "a.cache-1", "a.cache-2"].map {
            try Data(contentsOf: scratch.url.appendingPathComponent("images/quarantine/quarantine-\($0)"))
        }
        #expect(kept == contents)
    }

    @Test("a store that is in use is left as it is")
    func inUse() throws {
        for name in ["a", "b"] {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent(name))
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
            try store.close()
        }
        let open = try FileKVStore(at: scratch.url.appendingPathComponent("a"))
        try open.set(KVKey<Int>("more"), value: 1)
        try open.synchronize()
        let log = scratch.url.appendingPathComponent("a/log")
        let handle = try FileHandle(forUpdating: log)
        try handle.seek(toOffset: 64 + 25)
        try handle.write(contentsOf: Data([0xEE]))
        try handle.close()
        let before = try Data(contentsOf: log)
        let run = try CommandRun(["repair", scratch.url.path])
        #expect(run.status == 5, "\(run.errors)")
        #expect(run.output.contains("fail  a/log"), "\(run.output)")
        #expect(run.output.hasSuffix("1 damaged, 0 repaired, 1 failed\n"), "\(run.output)")
        #expect(try Data(contentsOf: log) == before)
        try flip("b/log", at: 64 + 25)
        let both = try CommandRun(["repair", scratch.url.path])
        #expect(both.status == 2, "\(both.errors)")
        #expect(both.output.hasSuffix("; 9 keys kept)\n2 damaged, 1 repaired, 1 failed\n"), "\(both.output)")
        withExtendedLifetime(open) {}
    }

    @Test("a log of a later version is left as it is, and out of a backup")
    func laterLog() throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("s/kv"))
        try store.set(KVKey<Int>("key"), value: 1)
        try store.close()
        let log = scratch.url.appendingPathComponent("s/kv/log")
        var bytes = [UInt8](try Data(contentsOf: log))
        bytes[8] = 9
        var checksum = CRC32C()
        checksum.update(Array(bytes[..<60]))
        for index in 0..<4 { bytes[60 + index] = UInt8(truncatingIfNeeded: checksum.value >> (8 * UInt32(index))) }
        try Data(bytes).write(to: log)
        let line = "fail  kv/log  (open in \(scratch.path("s/kv")): unknown format version 9)\n"
        let repair = try CommandRun(["repair", scratch.path("s")])
        #expect(repair.status == 2 && repair.output == line + "1 damaged, 0 repaired, 1 failed\n", "\(repair.output)")
        let backup = try CommandRun(["backup", scratch.path("s"), scratch.path("b")])
        #expect(backup.status == 2 && backup.output == line + "1 file saved (16 B), 1 failed\n", "\(backup.output)")
        #expect(try Data(contentsOf: log) == Data(bytes))
    }

    @Test("a damaged vault that cannot be moved stays where it is", .enabled(if: CommandRun.obeyingModes != nil))
    func unwritableQuarantine() throws {
        let (file, vault) = (scratch.url.appendingPathComponent("v/key"), scratch.url.appendingPathComponent("v/vault"))
        try VaultCrypt(at: vault, key: VaultKeyFile.loadOrCreate(at: file)).set("x", for: CryptKey<String>(key: "a"))
        try flip("v/vault")
        try #require(chmod(vault.path, 0o600) == 0)
        try FileManager.default.createDirectory(
            atPath: scratch.path("v/quarantine"), withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o500])
        let run = try CommandRun(
            ["repair", scratch.path("v"), "--key-file", file.path], prefix: #require(CommandRun.obeyingModes))
        let line = "fail  vault  (rename \(vault.path) to quarantine-vault: Permission denied (EACCES))\n"
        #expect(run.status == 2 && run.output == line + "1 damaged, 0 repaired, 1 failed\n", "\(run.output)")
        #expect(FileManager.default.fileExists(atPath: vault.path))
    }

    @Test("a damaged vault or key in a directory that no store has marked is left as it is")
    func unmarked() throws {
        let (file, vault) = (scratch.url.appendingPathComponent("v/key"), scratch.url.appendingPathComponent("v/vault"))
        try VaultCrypt(at: vault, key: VaultKeyFile.loadOrCreate(at: file)).set("x", for: CryptKey<String>(key: "a"))
        let copy = scratch.path("key")
        try FileManager.default.copyItem(atPath: file.path, toPath: copy)
        for name in ["v/#lock-vaults", "v/#store-vaults"] {
            try FileManager.default.removeItem(atPath: scratch.path(name))
        }
        for path in ["v/key", "v/vault"] { try flip(path) }
        for path in [copy, file.path, vault.path] { try #require(chmod(path, 0o600) == 0) }
        let before = try listing()
        let run = try CommandRun(["repair", scratch.url.path, "--key-file", copy])
        #expect(run.status == 2, "\(run.errors)")
        let lines = run.output.split(separator: "\n")
        let reason = "(left as it is: no store has marked its directory; "
        try #require(lines.count == 3 && lines.last == "2 damaged, 0 repaired, 2 failed", "\(lines)")
        #expect(lines[0].hasPrefix("fail  v/key  \(reason)loadKey in \(file.path): "), "\(lines)")
        #expect(lines[1].hasPrefix("fail  v/vault  \(reason)verify in \(vault.path): "), "\(lines)")
        #expect(try listing() == before)
    }

    @Test(
        "what belongs to another user, or cannot be read, is left as it is",
        .enabled(if: getuid() == 0 && CommandRun.obeyingModes != nil))
    func othersFiles() throws {
        let key = scratch.path("v/key")
        _ = try VaultKeyFile.loadOrCreate(at: URL(fileURLWithPath: key))
        try #require(chown(key, 65534, 65534) == 0 && chmod(key, 0o644) == 0)
        let owned = try CommandRun(["repair", scratch.path("v")])
        #expect(owned.status == 2 && owned.output.hasPrefix("fail  key  (left as it is: "), "\(owned.output)")
        #expect(try FileManager.default.attributesOfItem(atPath: key)[.posixPermissions] as? Int == 0o644)
        let images = ImageCacheManager(cacheDirectory: scratch.url.appendingPathComponent("images"))
        try images.cacheImage(id: "a", data: Data([1]))
        try #require(chmod(scratch.path("images/a.cache"), 0) == 0)
        let prefix = try #require(CommandRun.obeyingModes)
        let backup = try CommandRun(["backup", scratch.path("images"), scratch.path("b")], prefix: prefix)
        #expect(backup.status == 2 && backup.output.hasPrefix("fail  a.cache  (open "), "\(backup.output)")
        #expect(backup.output.hasSuffix("Permission denied (EACCES))\n1 file saved (16 B), 1 failed\n"))
        let run = try CommandRun(["repair", scratch.path("images")], prefix: prefix)
        let line = "fail  a.cache  (left as it is: open: Permission denied (EACCES))\n"
        #expect(run.status == 2 && run.output == line + "1 damaged, 0 repaired, 1 failed\n", "\(run.output)")
        #expect(try listing().contains("images/a.cache"))
    }

    @Test("of stores damaged at random, nothing readable is lost and the check is clean afterwards")
    func random() throws {
        do {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("base"))
            for number in 0..<20 { try store.set(KVKey<String>("key.\(number)"), value: "value \(number)") }
        }
        let base = try Data(contentsOf: scratch.url.appendingPathComponent("base/log"))
        let lock = try Data(contentsOf: scratch.url.appendingPathComponent("base/#lock"))
        let marker = try Data(contentsOf: scratch.url.appendingPathComponent("base/#store-key-value"))
        let seed = UInt64.random(in: 0 ... .max)
        var generator = SplitMix64(seed: seed)
        var before: [String: [String: [UInt8]]] = [:]
        for number in 0..<60 {
            var bytes = base
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] ^=
                    1 << UInt8.random(in: 0..<8, using: &generator)
            }
            if number % 5 == 0 { bytes = bytes.prefix(Int.random(in: 0..<bytes.count, using: &generator)) }
            let name = "all/\(number)"
            try FileManager.default.createDirectory(
                at: scratch.url.appendingPathComponent(name), withIntermediateDirectories: true)
            try bytes.write(to: scratch.url.appendingPathComponent("\(name)/log"))
            try lock.write(to: scratch.url.appendingPathComponent("\(name)/#lock"))
            try marker.write(to: scratch.url.appendingPathComponent("\(name)/#store-key-value"))
            // Of a log of a later version, whose number may be the damage, nothing is read or changed.
            before[name] = try? readable(name)
        }
        let run = try CommandRun(["repair", scratch.path("all")])
        let check = try CommandRun(["check", scratch.path("all"), "--json"])
        let damaged = try check.rows().filter { $0["state"] as? String == "damaged" }.compactMap {
            $0["path"] as? String
        }
        #expect(
            damaged.allSatisfy { before["all/" + $0.replacing("/log", with: "")] == nil }, "seed \(seed): \(damaged)")
        #expect(run.status == (damaged.isEmpty ? 0 : 2), "seed \(seed): \(run.output)")
        for (name, values) in before {
            let after = try readable(name)
            for (key, bytes) in values { #expect(after[key] == bytes, "seed \(seed): \(key) in \(name)") }
        }
    }
}
