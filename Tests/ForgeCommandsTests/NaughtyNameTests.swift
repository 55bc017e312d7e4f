import ForgeStorage
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@testable import ForgeCommands

/// Names whose `Character`s are not what a file system sees, through every store and verb, compared by bytes.
@Suite("names that Characters and bytes divide differently")
struct NaughtyNameTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private static let paths = HostileKeys.unevenNames

    /// Texts by their bytes: equal strings can be different names.
    private func bytes(_ texts: some Sequence<String>) -> Set<POSIXPath> { Set(texts.map { POSIXPath($0) }) }

    private func listed(_ words: [String]) throws -> Set<POSIXPath> {
        let run = try CommandRun(words)
        #expect(run.status == 0, "\(words): \(run.errors)")
        return bytes(try run.rows().compactMap { $0["key"] as? String })
    }

    @Test("are kept by file stores on disk and in memory, by copies, backups and restores, and deleted one by one")
    func files() async throws {
        let expected = bytes(Self.paths)
        #expect(expected.count == Self.paths.count)
        let disk = DiskFileStore(root: scratch.url.appendingPathComponent("a"))
        let memory = InMemoryFileStore()
        for path in Self.paths {
            try await disk.save(Data(path.utf8), to: path)
            try await memory.save(Data(path.utf8), to: path)
        }
        func keys(_ store: some FileStoring) async throws -> Set<POSIXPath> {
            bytes(try await store.list(in: "", recursive: true).filter { !$0.isDirectory }.map(\.key))
        }
        #expect(try await keys(disk) == expected)
        #expect(try await keys(memory) == expected)
        let (a, tree, b) = (scratch.path("a"), scratch.path("tree"), scratch.path("b"))
        for words in [
            ["copy", "file:\(a)", "tree:\(tree)", "--verify"], ["copy", "tree:\(tree)", "file:\(b)", "--verify"],
            ["backup", b, scratch.path("backup")], ["restore", scratch.path("backup"), scratch.path("r")],
            ["copy", "file:\(a)", "file:\(b)", "--delete", "--verify"], ["check", a], ["repair", a],
        ] {
            let run = try CommandRun(words)
            #expect(run.status == 0, "\(words): \(run.output) \(run.errors)")
        }
        for root in ["a", "b", "r"] {
            #expect(try listed(["file", "list", "--json", scratch.path(root)]) == expected, "\(root)")
            let store = DiskFileStore(root: scratch.url.appendingPathComponent(root))
            for path in Self.paths { #expect(try await store.load(path) == Data(path.utf8), "\(root): \(path)") }
        }
        var left = expected
        for path in Self.paths.prefix(TestDepth.limit(4, deep: 12)) {
            let get = try CommandRun(["file", "get", "--", b, path])
            #expect(get.output.utf8.elementsEqual(path.utf8), "\(path): \(get.errors)")
            #expect(try CommandRun(["file", "rm", "--", b, path]).status == 0, "\(path)")
            left.remove(POSIXPath(path))
            #expect(try listed(["file", "list", "--json", b]) == left, "\(path)")
        }
        for path in Self.paths { try await memory.delete(path) }
        #expect(try await keys(memory).isEmpty)
    }

    @Test("are kept by key-value stores, as lines of JSON, and in vaults")
    func keys() async throws {
        let expected = bytes(Self.paths)
        let url = scratch.url.appendingPathComponent("kv")
        let store = try FileKVStore(at: url)
        for path in Self.paths { try store.set(KVKey<String>(path), value: path) }
        try store.close()
        let (kv, lines, other) = (scratch.path("kv"), scratch.path("lines"), scratch.path("other"))
        for words in [["copy", "kv:\(kv)", "json:\(lines)"], ["copy", "json:\(lines)", "kv:\(other)", "--verify"]] {
            let run = try CommandRun(words)
            #expect(run.status == 0, "\(words): \(run.output) \(run.errors)")
        }
        #expect(try listed(["kv", "list", "--json", kv]) == expected)
        #expect(try listed(["kv", "list", "--json", other]) == expected)
        let vault = scratch.url.appendingPathComponent("vault")
        let key = try VaultKeyFile.loadOrCreate(at: vault.appendingPathComponent("key"))
        let secrets = try VaultCrypt(at: vault.appendingPathComponent("v"), key: key)
        for path in Self.paths { try secrets.set(path, for: CryptKey<String>(key: path)) }
        #expect(bytes(try secrets.keys()) == expected)
        for path in Self.paths {
            #expect(try secrets.get(CryptKey<String>(key: path))?.utf8.elementsEqual(path.utf8) == true, "\(path)")
        }
        let words = [scratch.path("vault/v"), "--key-file", scratch.path("vault/key")]
        let names = try CommandRun(["secret", "list", "--json"] + words).rows().compactMap { $0["name"] as? String }
        // In the order of their bytes, in which the two forms of "é" are far from one another.
        let ordered = try secrets.keys().map { POSIXPath($0) }
        #expect(names.map { POSIXPath($0) } == ordered)
        var left = expected
        for path in ["\u{e9}", "\u{600}/x", "a\u{301}"] {
            let get = try CommandRun(["secret", "get"] + words + ["--", path])
            #expect(get.output.utf8.elementsEqual((path + "\n").utf8), "\(path): \(get.errors)")
            #expect(try CommandRun(["secret", "rm"] + words + ["--", path]).status == 0, "\(path)")
            for verb in ["get", "rm"] {
                #expect(try CommandRun(["kv", verb, kv, "--", path]).status == 0, "\(verb) \(path)")
            }
            left.remove(POSIXPath(path))
            #expect(bytes(try secrets.keys()) == left, "\(path)")
            #expect(try listed(["kv", "list", "--json", kv]) == left, "\(path)")
        }
    }

    @Test("that are no UTF-8 are copied between directories, and reported by copies to and lists of a file store")
    func invalidNames() throws {
        let fileSystem = SystemFileSystem()
        let root = try POSIXPath(scratch.url)
        // Foundation cannot remove such names.
        defer { for name in ["s", "t"] as [POSIXPath] { try? fileSystem.removeTree(root.appending(name)) } }
        try scratch.plant("s/a", "text")
        let names: [POSIXPath] = [POSIXPath([0x64, 0xFF]).appending("x"), POSIXPath([0x66, 0xFF]), "a"]
        try fileSystem.createDirectory(root.appending("s").appending(POSIXPath([0x64, 0xFF])))
        for name in names.dropLast() {
            try fileSystem.write(Data("text".utf8), to: URL(root.appending("s").appending(name)))
        }
        let source = scratch.path("s")
        let copy = try CommandRun(["copy", "tree:\(source)", "tree:\(scratch.path("t"))", "--json", "--verify"])
        #expect(copy.status == 0, "\(copy.output) \(copy.errors)")
        #expect(try copy.summary()["verified"] as? Int == 3, "\(copy.output)")
        for name in names {
            #expect(try fileSystem.readFile(root.appending("t").appending(name)) == Array("text".utf8), "\(name)")
        }
        for scheme in ["tree", "file"] {
            let target = "file:\(scratch.path("to-\(scheme)"))"
            let run = try CommandRun(["copy", "\(scheme):\(source)", target, "--json", "--verify"])
            #expect(run.status == 2, "\(run.status) \(run.errors)")
            let failed = try run.rows().filter { $0["action"] as? String == "fail" }.compactMap { $0["key"] as? String }
            #expect(failed.sorted() == ["d\\xff/x", "f\\xff"], "\(failed)")
            let summary = try run.summary()
            #expect(summary["copied"] as? Int == 1 && summary["failed"] as? Int == 2, "\(run.output)")
        }
        let list = try CommandRun(["file", "list", source, "--json"])
        #expect(list.status == 2, "\(list.status) \(list.errors)")
        let unlisted = try list.rows().filter { $0["unlisted"] is String }.compactMap { $0["key"] as? String }
        #expect(unlisted.sorted() == ["d\\xff/x", "f\\xff"], "\(list.output)")
    }

    @Test("of places are not cut or joined: the colon and the slash of a place are bytes")
    func places() throws {
        let run = try CommandRun(["kv", "set", "kv:" + scratch.path("s") + "/\u{301}t", "a", "1"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(FileManager.default.fileExists(atPath: scratch.path("s")))
        #expect(Home(argument: "kv:\u{301}x")?.path.utf8.elementsEqual("\u{301}x".utf8) == true)
        #expect(Home(argument: "file:a\u{600}/")?.text(of: "b").utf8.elementsEqual("file:a\u{600}/b".utf8) == true)
        let url = try StoreURL("s3://bucket/\u{600}/")
        #expect(url.prefix.utf8.elementsEqual("\u{600}/".utf8))
        #expect(url.text.utf8.elementsEqual("s3://bucket/\u{600}".utf8))
        #expect(try StoreURL("s3://bucket/\u{301}x").prefix.utf8.elementsEqual("\u{301}x/".utf8))
    }
}
