import ForgeStorage
import Foundation
import Testing

@Suite("Verbs that read")
struct ReadingTests {
    private static let reading = Verb.all.filter { $0.access == .reads }

    @Test("reading a store leaves it unchanged, and creates nothing beside it", arguments: reading)
    func changesNothing(verb: Verb) async throws {
        let fixture = try await StoreFixture()
        let before = try fixture.listing()
        let run = try CommandRun(verb.words(in: fixture.scratch.url.path))
        #expect(run.status == 0, "\(run.errors)")
        #expect(try fixture.listing() == before)
    }

    @Test("a directory without a store is left unchanged", arguments: reading)
    func foreignDirectory(verb: Verb) throws {
        let scratch = try Scratch()
        for name in ["kv", "files", "vault"] {
            let directory = scratch.url.appendingPathComponent(name)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            try Data("mine".utf8).write(to: directory.appendingPathComponent("mine.txt"))
        }
        let run = try CommandRun(verb.words(in: scratch.url.path))
        if verb.name.hasPrefix("kv") || verb.name.hasPrefix("secret") {
            #expect(run.status == 4)
            #expect(run.errors.contains("no store here: there is no"), "\(run.errors)")
        }
        let names = try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
        #expect(names == ["files", "files/mine.txt", "kv", "kv/mine.txt", "vault", "vault/mine.txt"])
    }

    @Test("removing a key from a directory without a store creates none")
    func removeFromForeignDirectory() throws {
        let scratch = try Scratch()
        let run = try CommandRun(["kv", "rm", scratch.url.path, "a"])
        #expect(run.status == 4)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test("checking an empty directory fails, and one with a store without files succeeds")
    func checkWithoutStore() async throws {
        let scratch = try Scratch()
        let run = try CommandRun(["check", scratch.url.path])
        #expect(run.status == 4)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
        try await DiskFileStore(root: scratch.url).open()
        #expect(try CommandRun(["check", scratch.url.path]).status == 0)
    }

    @Test(
        "stores that another process has open for writing can be read",
        arguments: [FileKVStore.Sharing.exclusive, .shared])
    func besideWriter(sharing: FileKVStore.Sharing) async throws {
        let fixture = try await StoreFixture()
        var options = FileKVStore.Options()
        options.sharing = sharing
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"), options: options)
        try store.set(KVKey<String>("name"), value: "dawn")
        let files = DiskFileStore(root: fixture.scratch.url.appendingPathComponent("files"))
        try await files.save(Data("new".utf8), to: "a.txt")
        let before = try fixture.listing()
        let get = try CommandRun(["kv", "get", fixture.scratch.path("kv"), "name"])
        #expect(get.output == "dawn\n", "\(get.errors)")
        #expect(try CommandRun(["kv", "list", fixture.scratch.path("kv")]).output.contains("dawn"))
        #expect(try CommandRun(["file", "get", fixture.scratch.path("files"), "a.txt"]).output == "new")
        #expect(try CommandRun(["file", "list", fixture.scratch.path("files")]).output.contains("a.txt"))
        #expect(try CommandRun(["check", fixture.scratch.url.path]).status == 0)
        #expect(try fixture.listing() == before)
        try store.set(KVKey<String>("name"), value: "noon")
        #expect(try CommandRun(["kv", "get", fixture.scratch.path("kv"), "name"]).output == "noon\n")
        withExtendedLifetime(files) {}
    }

    @Test(
        "in read-only stores, reading succeeds and writing fails with one line that contains the error",
        .enabled(if: CommandRun.obeyingModes != nil), arguments: Verb.all)
    func unwritable(verb: Verb) async throws {
        let prefix = try #require(CommandRun.obeyingModes)
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url.path
        try verb.prepare(root)
        let paths = [root] + (try FileManager.default.subpathsOfDirectory(atPath: root).map { "\(root)/\($0)" })
        func setModes(ofDirectories directoryMode: Int, ofFiles fileMode: Int) throws {
            for path in paths.reversed() {
                var isDirectory: ObjCBool = false
                _ = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
                let mode = isDirectory.boolValue ? directoryMode : fileMode
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            }
        }
        try setModes(ofDirectories: 0o500, ofFiles: 0o400)
        let before = try fixture.listing()
        let run = try CommandRun(verb.words(in: root), input: Data(verb.input.utf8), prefix: prefix)
        #expect(try fixture.listing() == before)
        switch verb.access {
        case .reads, .none: #expect(run.status == 0, "\(run.errors)")
        case .changes, .creates, .copies:
            #expect(run.status == 1)
            #expect(run.errorLines.count == 1, "\(run.errors)")
            // A copy lists the files that it could not copy.
            #expect((run.errors + run.output).contains("Permission denied (EACCES)"), "\(run.output) \(run.errors)")
            #expect(!run.errors.contains("input/output"), "\(run.errors)")
        }
        for path in paths { _ = chmod(path, 0o700) }
    }

    @Test(
        "a copy lists a directory and a file that cannot be read, copies the others and deletes nothing",
        .enabled(if: CommandRun.obeyingModes != nil), arguments: ["tree", "file"])
    func unreadable(scheme: String) throws {
        let prefix = try #require(CommandRun.obeyingModes)
        let scratch = try Scratch()
        for path in ["s/a", "s/closed/b", "s/d/c", "s/secret", "t/old"] { try scratch.plant(path, "1") }
        for path in ["s/closed", "s/secret"] { try #require(chmod(scratch.path(path), 0) == 0) }
        defer { _ = chmod(scratch.path("s/closed"), 0o700) }
        let words = ["copy", "tree:\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))", "--json"]
        for options in [["--verify"], ["--delete"]] {
            let run = try CommandRun(words + options, prefix: prefix)
            #expect(run.status == 2, "\(run.errors)")
            let failed = try run.rows().filter { ($0["reason"] as? String)?.contains("EACCES") == true }
            #expect(failed.compactMap { $0["key"] as? String }.sorted() == ["closed", "secret"], "\(run.output)")
            let counts = try run.summary()
            let isDeleting = options == ["--delete"]
            for (name, count) in [
                "copied": isDeleting ? 0 : 2, "equal": isDeleting ? 2 : 0, "verified": isDeleting ? 0 : 2, "failed": 2,
                "deleted": 0,
            ] {
                #expect(counts[name] as? Int == count, "\(name): \(counts)")
            }
        }
        let found = try FileManager.default.subpathsOfDirectory(atPath: scratch.path("t"))
        #expect(found.filter { !$0.hasPrefix("#") }.sorted() == ["a", "d", "d/c", "old"])
    }
}

@Suite("kv list")
struct KVListTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// A store with readable values before and after one that cannot be decoded.
    private func fill(_ url: URL) throws {
        let store = try FileKVStore(at: url)
        try store.set(KVKey<String>("a"), value: "first")
        try store.setRawValue([0xFF, 0x00, 0x01], named: "b")
        try store.set(KVKey<String>("c"), value: "last")
        try store.synchronize()
    }

    @Test("a value that cannot be decoded is listed as such, and sets the exit status")
    func undecodable() throws {
        try fill(scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(["kv", "list", scratch.path("kv")])
        #expect(run.status == 1)
        let lines = run.output.split(separator: "\n")
        #expect(lines.contains { $0.hasPrefix("a ") && $0.hasSuffix("\"first\"") }, "\(run.output)")
        #expect(lines.contains { $0.hasPrefix("b ") && $0.contains("cannot be shown") }, "\(run.output)")
        #expect(lines.contains { $0.hasPrefix("c ") && $0.hasSuffix("\"last\"") }, "\(run.output)")
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("b"), "\(run.errors)")
    }

    @Test("a value without a form in JSON is listed as such, and the others are shown", arguments: [true, false])
    func withoutJSON(json: Bool) throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try store.set(KVKey<String>("a"), value: "first")
        // A map with the keys 1 and "1", by RFC 8949.
        let bytes = ValueEnvelope(schemaVersion: 1, payload: [0xA2, 0x01, 0x02, 0x61, 0x31, 0x03]).encoded
        try store.setRawValue(bytes, named: "b")
        try store.set(KVKey<String>("c"), value: "last")
        try store.close()
        let run = try CommandRun(["kv", "list", scratch.path("kv")] + (json ? ["--json"] : []))
        #expect(run.status == 1)
        for text in ["first", "two keys", "last"] { #expect(run.output.contains(text), "\(run.output)") }
        #expect(run.errors.contains("cannot be shown: b"), "\(run.errors)")
    }

    @Test("a value that cannot be decoded, or has no form in JSON, is an error of get, and is not replaced by set")
    func unshown() throws {
        let path = scratch.path("kv")
        let values: [String: [UInt8]] = [
            "bytes": [0xFF, 0x00, 0x01],
            // A map with the keys 1 and "1", by RFC 8949.
            "map": ValueEnvelope(schemaVersion: 1, payload: [0xA2, 0x01, 0x02, 0x61, 0x31, 0x03]).encoded,
        ]
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        for (name, bytes) in values { try store.setRawValue(bytes, named: name) }
        try store.close()
        for (name, reason) in [("bytes", "cannot be decoded"), ("map", "has no JSON form")] {
            let run = try CommandRun(["kv", "get", path, name])
            #expect(run.status == 1 && run.output.isEmpty && run.errorLines.count == 1, "\(run.errors)")
            #expect(run.errors.hasPrefix("Error: the value of \(name) \(reason): "), "\(run.errors)")
        }
        let set = try CommandRun(["kv", "set", path, "bytes", "1"])
        #expect(set.status == 1 && set.errors.hasPrefix("Error: the value of bytes cannot be decoded ("))
        #expect(set.errors.hasSuffix("); remove it first, with kv rm\n"), "\(set.errors)")
        #expect(try scratch.values("kv") == values)
    }

    @Test("JSON also contains every key")
    func undecodableAsJSON() throws {
        try fill(scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(["kv", "list", scratch.path("kv"), "--json"])
        #expect(run.status == 1)
        let rows = try run.rows()
        #expect(rows.map { $0["key"] as? String } == ["a", "b", "c"])
        #expect(rows.map { $0["value"] as? String } == ["first", nil, "last"])
        #expect(rows[1].keys.sorted() == ["bytes", "key", "undecodable"])
        #expect(try run.failure()["code"] as? Int == 1)
    }

    @Test(
        "a path of a file is not a store",
        arguments: [
            ["kv", "list"], ["kv", "get"], ["kv", "rm"], ["file", "list"], ["file", "get"], ["check"], ["restore"],
        ],
        ["plain", "plain/below"])
    func plainFile(verb: [String], name: String) throws {
        try Data("text".utf8).write(to: scratch.url.appendingPathComponent("plain"))
        let key = ["get", "rm"].contains(verb.last) ? ["key"] : []
        let run = try CommandRun(verb + [scratch.path(name)] + (verb == ["restore"] ? [scratch.path("r")] : key))
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
    }

    /// Creates a store whose first record is damaged and whose other nine keys are readable.
    private func fillAndDamage() throws {
        do {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        let log = scratch.url.appendingPathComponent("kv/log")
        var bytes = try Data(contentsOf: log)
        bytes[64 + 25] ^= 1
        try bytes.write(to: log)
    }

    @Test("in a damaged store, readable values are printed, and the damage is one line and sets the exit status")
    func damagedStore() throws {
        try fillAndDamage()
        let store = scratch.path("kv")
        let list = try CommandRun(["kv", "list", store])
        #expect(list.output.split(separator: "\n").count { $0.hasPrefix("key.") } == 9)
        let listAsJSON = try CommandRun(["kv", "list", store, "--json"])
        #expect(try listAsJSON.rows().count == 9)
        let get = try CommandRun(["kv", "get", store, "key.3"])
        #expect(get.output == "3\n")
        let missing = try CommandRun(["kv", "get", store, "key.0"])
        #expect(missing.errors.contains("there is no such key"))
        for run in [list, listAsJSON, get, missing] {
            #expect(run.status == (run.output.isEmpty ? 4 : 1))
            #expect(run.errorLines.count == 1, "\(run.errors)")
            #expect(run.errors.contains("records at byte 64"), "\(run.errors)")
            #expect(run.errors.contains("left in \(store)/log"), "\(run.errors)")
            #expect(!run.errors.contains("set aside"), "\(run.errors)")
        }
    }

    /// Lists a store of the keys from `key.10` to `key.24`, whose log is changed before.
    private func list(changing change: (inout Data) throws -> Void) throws -> CommandRun {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        for number in 10..<25 {
            try store.set(KVKey<Int>("key.\(number)"), value: 1)
            try store.synchronize()
        }
        try store.close()
        let log = scratch.url.appendingPathComponent("kv/log")
        var content = try Data(contentsOf: log)
        try change(&content)
        try content.write(to: log)
        let run = try CommandRun(["kv", "list", scratch.path("kv")])
        #expect(run.status == 1 && run.errorLines.count == 1, "\(run.errors)")
        return run
    }

    private func place(of number: Int, in log: Data) throws -> Int {
        let name = log.range(of: Data("key.\(number)".utf8))
        return try #require(name).lowerBound
    }

    @Test("of the damage of a store, three places are named and the others counted", arguments: [3, 4, 6])
    func damage(count: Int) throws {
        let run = try list { log in
            for number in 0..<count {
                let place = try place(of: 11 + 2 * number, in: log)
                log[place] ^= 1
            }
        }
        #expect(run.output.split(separator: "\n").count == 2 + 15 - count, "\(run.output)")
        #expect(run.errors.components(separatedBy: "records at byte").count == 4, "\(run.errors)")
        let end = count > 3 ? "/kv/log; and \(count - 3) more\n" : "/kv/log\n"
        #expect(run.errors.hasSuffix(end), "\(run.errors)")
    }

    @Test("records that are missing in a store are damage, too")
    func missingRecords() throws {
        var start = 0
        let run = try list { log in
            // The first name of a record is behind 24 bytes.
            let range = try place(of: 12, in: log) - 24..<place(of: 14, in: log) - 24
            start = range.lowerBound
            log.removeSubrange(range)
            log += Data(count: range.count)
        }
        #expect(run.output.split(separator: "\n").count == 2 + 13, "\(run.output)")
        let end = "/kv is damaged: records are missing at byte \(start) of the log\n"
        #expect(run.errors.hasSuffix(end), "\(run.errors)")
    }

    @Test("a store at a path that cannot be looked at is not a missing one")
    func impossiblePath() throws {
        let run = try CommandRun(["kv", "rm", scratch.path(String(repeating: "n", count: 300)), "a"])
        #expect(run.status == 1 && run.errors.contains("ENAMETOOLONG"), "\(run.errors)")
    }

    @Test(
        "a change of a damaged store is made, and the damage is one line and sets the exit status, once",
        arguments: ["set", "rm"])
    func changeOfDamagedStore(verb: String) throws {
        try fillAndDamage()
        let store = scratch.path("kv")
        let change = try CommandRun(["kv", verb, store, "key.3"] + (verb == "set" ? ["33"] : []))
        #expect(change.status == 1)
        #expect(change.errorLines.count == 1, "\(change.errors)")
        #expect(change.errors.contains("set aside in \(store)/quarantine-records-"), "\(change.errors)")
        let get = try CommandRun(["kv", "get", store, "key.3"])
        #expect(get.status == (verb == "set" ? 0 : 4), "\(get.errors)")
        #expect(get.output == (verb == "set" ? "33\n" : ""))
        #expect(try CommandRun(["kv", "get", store, "key.4"]).output == "4\n")
    }
}
