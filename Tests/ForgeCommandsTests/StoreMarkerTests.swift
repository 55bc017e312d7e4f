import ForgeStorage
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeCommands

/// Every kind of store in every state of its marker, under every verb that could change or lose a file of it.
@Suite("the marker of a store")
struct StoreMarkerTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case keyValue = "key-value"
        case vaults, files, values, images, cache

        var testDescription: String { rawValue }

        var marker: String { "#store-\(rawValue)" }
    }

    /// What happened to the marker of a store of this version.
    enum Marker: String, CaseIterable, CustomTestStringConvertible {
        case missing, damaged, later, empty

        var testDescription: String { rawValue }
    }

    enum Verb: String, CaseIterable, CustomTestStringConvertible {
        case check, repair, du, backup, set, output, copy, delete, store, remove, fill

        var testDescription: String { rawValue }
    }

    /// Creates a store with an entry in the directory, and an app's file in a directory below it.
    private func make(_ kind: Kind, in name: String) async throws {
        let url = scratch.url.appendingPathComponent(name)
        switch kind {
        case .keyValue:
            let store = try FileKVStore(at: url)
            try store.set(KVKey<String>("a"), value: "value")
            try store.synchronize()
            try store.close()
        case .vaults:
            let key = try VaultKeyFile.loadOrCreate(at: url.appendingPathComponent("key"))
            try VaultCrypt(at: url.appendingPathComponent("vault"), key: key).set("x", for: CryptKey(key: "token"))
        case .files: try await DiskFileStore(root: url).save(Data("text".utf8), to: "a")
        case .values: try DiskStorage(path: url).save(value: Data("text".utf8), for: "a")
        case .images: try ImageCacheManager(cacheDirectory: url).cacheImage(id: "a", data: Data([1, 2, 3]))
        case .cache: await (try BoundedCache<String>(directory: url, coding: .codable)).insert("text", for: "a")
        }
        let below = url.appendingPathComponent("below")
        try FileManager.default.createDirectory(at: below, withIntermediateDirectories: true)
        try Data("text".utf8).write(to: below.appendingPathComponent("file"))
    }

    private func change(_ marker: Marker, _ kind: Kind, in name: String) throws {
        let url = scratch.url.appendingPathComponent(name).appendingPathComponent(kind.marker)
        switch marker {
        case .missing: try FileManager.default.removeItem(at: url)
        case .damaged:
            var content = try Data(contentsOf: url)
            content[10] ^= 0x40
            try content.write(to: url)
        case .later: try Data(repeating: 9, count: 40).write(to: url)
        case .empty: try Data().write(to: url)
        }
    }

    /// Every file below a directory with its content.
    private func files(below name: String) throws -> [String: Data] {
        var found: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: scratch.path(name)) {
            var isDirectory: ObjCBool = false
            let file = scratch.url.appendingPathComponent(name).appendingPathComponent(path)
            guard FileManager.default.fileExists(atPath: file.path, isDirectory: &isDirectory), !isDirectory.boolValue
            else { continue }
            found[path] = try Data(contentsOf: file)
        }
        return found
    }

    @Test(
        "is written by the first write of a store, with private permissions, and kept by backup and restore",
        arguments: Kind.allCases)
    func written(kind: Kind) async throws {
        try await make(kind, in: "all/s")
        let path = try POSIXPath(scratch.url).appending(POSIXPath("all/s/\(kind.marker)"))
        let content = try SystemFileSystem().readFile(path)
        #expect(content.count == 16 && content.starts(with: "FORGEDIR".utf8))
        #expect(try SystemFileSystem().status(path).permissions == .ownerReadWrite)
        let status = try SystemFileSystem().status(path)
        try await make(kind, in: "all/s")
        #expect(try SystemFileSystem().status(path) == status, "written again")
        #expect(try CommandRun(["backup", scratch.path("all"), scratch.path("b")]).status == 0)
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        #expect(try files(below: "r")["s/\(kind.marker)"] == Data(content))
        let usage = try CommandRun(["du", scratch.path("r"), "--json"]).rows().compactMap { $0["kind"] as? String }
        let words = [
            "key-value": "key-value store", "files": "file store", "values": "storage of values",
            "images": "image cache",
        ]
        #expect(usage == [words[kind.rawValue] ?? kind.rawValue])
    }

    /// All in a deep run, otherwise one: each of them under every verb and in every kind of store.
    private static func markers(of kind: Kind, under verb: Verb) -> [Marker] {
        guard !TestDepth.isDeep, let row = Kind.allCases.firstIndex(of: kind),
            let column = Verb.allCases.firstIndex(of: verb)
        else { return Marker.allCases }
        return [Marker.allCases[(row + column) % Marker.allCases.count]]
    }

    @Test(
        "nothing in or below the directory of a store that is not known is changed, but for a damaged marker by repair",
        arguments: Kind.allCases,
        Verb.allCases)
    func unknown(kind: Kind, verb: Verb) async throws {
        for marker in Self.markers(of: kind, under: verb) {
            let name = "\(marker)/s"
            try await make(kind, in: name)
            try change(marker, kind, in: name)
            try FileManager.default.createDirectory(
                atPath: scratch.path("\(marker)-source"), withIntermediateDirectories: true)
            for file in ["\(marker)/old", "\(marker)-source/new"] {
                try Data(file.utf8).write(to: scratch.url.appendingPathComponent(file))
            }
            var before = try files(below: name)
            let isDamaged = marker == .damaged
            let (root, store) = (scratch.path("\(marker)"), scratch.path(name))
            let run: CommandRun
            switch verb {
            case .check:
                run = try CommandRun(["check", root, "--json"])
                let paths = try run.rows().compactMap { $0["path"] as? String }
                #expect(Set(before.keys).isSubset(of: paths.map { String($0.dropFirst(2)) }), "\(paths)")
                #expect(run.status == (isDamaged ? 1 : 0))
            case .repair:
                run = try CommandRun(["repair", root])
                #expect(run.status == 0)
                if isDamaged {
                    let kind = try #require(StoreMarker.kind(named: POSIXPath(kind.marker)))
                    before[kind.markerName.description] = Data(StoreMarker.content(of: kind))
                }
            case .du:
                run = try CommandRun(["du", root])
                #expect(run.status == 0 && run.output.contains("unknown store"), "\(run.output)")
            case .backup:
                run = try CommandRun(["backup", root, scratch.path("\(marker)-b")])
                #expect(run.status == (isDamaged ? 2 : 0), "\(run.output)")
                let restored = try CommandRun(["restore", scratch.path("\(marker)-b"), scratch.path("\(marker)-r")])
                #expect(restored.status == 0, "\(restored.errors)")
                #expect(try files(below: "\(marker)-r/s") == before)
            case .set:
                run = try CommandRun(["kv", "set", store, "a", "new"])
                #expect(run.status == 1, "\(run.errors)")
            case .output:
                run = try CommandRun(
                    ["copy", "json:-", "json:\(store)/below/file"], input: "{\"key\":\"a\",\"value\":1}\n")
                #expect(run.status == 64, "\(run.errors)")
            case .copy:
                try FileManager.default.createDirectory(
                    atPath: scratch.path("\(marker)-source/s/below"), withIntermediateDirectories: true)
                for file in ["s/note", "s/below/file"] {
                    try Data("other".utf8).write(to: scratch.url.appendingPathComponent("\(marker)-source/\(file)"))
                }
                run = try CommandRun(["copy", "tree:\(scratch.path("\(marker)-source"))", "tree:\(root)"])
                #expect(run.status == 2 && run.output.contains("unknown store"), "\(run.output)")
            case .delete:
                run = try CommandRun(["copy", "tree:\(scratch.path("\(marker)-source"))", "tree:\(root)", "--delete"])
                #expect(run.status == 2, "\(run.output)")
                #expect(!FileManager.default.fileExists(atPath: scratch.path("\(marker)/old")))
            case .store:
                run = try CommandRun(["file", "set", store, "new"], input: "text")
                #expect(run.status == 64, "\(run.errors)")
            case .remove:
                run = try CommandRun(["file", "rm", store, "below/file"])
                #expect(run.status == 64, "\(run.errors)")
            case .fill:
                run = try CommandRun(["copy", "tree:\(scratch.path("\(marker)-source"))", "file:\(store)"])
                #expect(run.status == 2 && run.errors.contains("nothing was changed"), "\(run.errors)")
            }
            #expect(try files(below: name) == before, "\(marker): \(run.output) \(run.errors)")
        }
    }

    @Test("a copy to a file store writes nothing into the directory of a store below it that is not known")
    func belowFileStore() async throws {
        try await DiskFileStore(root: scratch.url.appendingPathComponent("t")).save(Data("1".utf8), to: "a")
        for name in ["#store-ledger", "d/b"] { try scratch.plant("t/later/\(name)", "of a later version") }
        for name in ["later/d/b", "later/new", "n"] { try scratch.plant("s/\(name)", "other") }
        var expected = try scratch.files("t")
        for options in [["--dry-run"], []] {
            let words = ["copy", "tree:\(scratch.path("s"))", "file:\(scratch.path("t"))", "--json"]
            let run = try CommandRun(words + options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
            let failed = try run.rows().filter { $0["action"] as? String == "fail" }
            #expect(failed.compactMap { $0["key"] as? String }.sorted() == ["later/d/b", "later/new"], "\(failed)")
            let reasons = Set(failed.compactMap { $0["reason"] as? String })
            #expect(reasons == ["the destination has a store there: unknown store"])
        }
        expected["n"] = "other"
        #expect(try scratch.files("t") == expected)
    }

    /// A device that was full when the store was opened, or a program that copies no names with `#`.
    @Test("kv set and kv rm open a key-value store without its marker, and mark it", arguments: [true, false])
    func missingMarker(isOnlyLog: Bool) throws {
        let store = scratch.path("kv")
        for key in ["a", "b"] { #expect(try CommandRun(["kv", "set", store, key, "1"]).status == 0) }
        let names = ["#store-key-value"] + (isOnlyLog ? ["#lock", "#reserve"] : [])
        for name in names { try FileManager.default.removeItem(atPath: "\(store)/\(name)") }
        // Nothing is known about a directory with files of others.
        let other = "\(store)/other"
        try Data("other".utf8).write(to: URL(filePath: other))
        if !isOnlyLog { #expect(try CommandRun(["kv", "rm", store, "b"]).status == 1) }
        try FileManager.default.removeItem(atPath: other)
        // A marker that was not complete is no file of others.
        try Data("FORGE".utf8).write(to: URL(filePath: "\(store)/#tmp-store-key-value"))
        #expect(try CommandRun(["kv", "rm", store, "b"]).status == 0)
        #expect(try CommandRun(["kv", "set", store, "a", "2"]).status == 0)
        #expect(try CommandRun(["kv", "get", store, "a"]).output == "2\n")
        #expect(try CommandRun(["check", store]).output.contains("intact (1 key)"))
    }

    @Test("the source itself may be a store that is not known", arguments: [Kind.keyValue, .files])
    func copiedRoot(kind: Kind) async throws {
        try await make(kind, in: "s")
        try change(.later, kind, in: "s")
        let words = ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--delete"]
        let run = try CommandRun(words + ["--verify"])
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try files(below: "t") == files(below: "s"))
        let again = try CommandRun(words)
        #expect(again.status == 2 && again.output.contains("not known is kept whole"), "\(again.output)")
    }

    @Test("a store that is not known is copied whole to a new directory, and not over itself")
    func copied() async throws {
        for (marker, kind) in [(Marker.later, Kind.keyValue), (.missing, .files)] {
            try await make(kind, in: "source/\(marker)")
            try change(marker, kind, in: "source/\(marker)")
        }
        // A directory of no store, with a file of another program that has such a name; the directory below is first.
        try FileManager.default.createDirectory(
            atPath: scratch.path("source/app/!below"), withIntermediateDirectories: true)
        for name in ["!below/file", "#lock", "#store-mine", "file"] {
            try Data(name.utf8).write(to: scratch.url.appendingPathComponent("source/app/\(name)"))
        }
        let words = ["copy", "tree:\(scratch.path("source"))", "tree:\(scratch.path("target"))"]
        let first = try CommandRun(words + ["--delete", "--verify"])
        #expect(first.status == 0, "\(first.output) \(first.errors)")
        #expect(try files(below: "target") == files(below: "source"))

        let again = try CommandRun(words + ["--delete"])
        #expect(again.status == 2 && again.output.contains("not known is kept whole"), "\(again.output)")
        try Data("changed".utf8).write(to: scratch.url.appendingPathComponent("source/app/file"))
        let second = try CommandRun(words)
        #expect(second.status == 2 && second.output.contains("unknown store"), "\(second.output) \(second.errors)")
        #expect(try files(below: "target")["app/file"] == Data("file".utf8))
    }

    @Test("a lock, or a directory with its name, is copied with all that is beside it to a directory of no store")
    func copiedLock() throws {
        let names = [
            "#lock/file", "app/#lock/file", "app/file", "app/sub/#journal-0", "app/sub/deep/file", "lock/#lock",
            "lock/sub/file",
        ]
        for name in names { try scratch.plant("s/\(name)", name) }
        for name in ["app/sub/deep", "lock/sub"] { try scratch.plant("t/\(name)/file", "replaced") }
        let words = ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--json"]
        for options in [["--dry-run"], ["--verify"]] {
            let run = try CommandRun(words + options)
            #expect(run.status == 0, "\(run.output) \(run.errors)")
            #expect(try run.summary()["copied"] as? Int == names.count)
        }
        #expect(try files(below: "t") == files(below: "s"))
    }

    @Test("a log in or below the directory into which a lock is copied is kept", arguments: ["app/log", "app/sub/log"])
    func keptLog(path: String) throws {
        try FileKVStore(at: scratch.url.appendingPathComponent("kv")).close()
        try scratch.copy("kv/log", to: "t/\(path)")
        for name in ["app/#lock/file", path] { try scratch.plant("s/\(name)") }
        let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--json"])
        #expect(run.status != 0, "\(run.output)")
        let failed = try run.rows().filter { $0["action"] as? String == "fail" }.compactMap { $0["key"] as? String }
        #expect(failed.contains(path), "\(failed)")
        #expect(try files(below: "t") == [path: Data(contentsOf: scratch.url.appendingPathComponent("kv/log"))])
    }
}

@Suite("The destination of a copy of files")
struct FileTargetTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func target(_ text: String = "tree:t") throws -> FileTarget { try FileTarget(scratch.home(text)) }

    @Test("an error names up to 20 files and backups that a file store would take, and otherwise counts them")
    func unmarkedStores() async throws {
        try await scratch.makeStores(in: "all")
        func message(_ name: String) throws -> String {
            let failure = try #require(throws: CommandFailure.self) {
                try FileTarget.requireNoUnmarkedStores(in: POSIXPath(scratch.path(name)), .partial)
            }
            #expect(failure.status == .partial)
            let start =
                "nothing was changed: a file store in \(scratch.path(name)) would take files of others for its own: "
            #expect(failure.description.hasPrefix(start))
            return String(failure.description.dropFirst(start.count))
        }
        // The files in a backup are not named.
        try scratch.copy("all/log/log", to: "all/backup/content/log/log")
        #expect(try message("all") == "backup (a backup), log/log, vault/key, vault/v")
        #expect(try message("all/backup") == "\(scratch.path("all/backup")) (a backup)")
        for number in 10..<30 { try scratch.copy("all/log/log", to: "t/\(number)/log") }
        let names = (10..<30).map { "\($0)/log" }
        #expect(try message("t") == names.joined(separator: ", "))
        try scratch.copy("all/log/log", to: "t/30/log")
        #expect(try message("t") == "10/log and 20 others")
        for name in ["all/kv", "all/fs", "none"] {
            try FileTarget.requireNoUnmarkedStores(in: POSIXPath(scratch.path(name)), .partial)
        }
    }

    @Test("the outermost backup above a directory is found, but none that an app has in a file store")
    func backups() async throws {
        for path in ["t/a/b", "t/a/b/content/c"] { try scratch.plantBackup(path) }
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("t/fs"))
        try await files.save(Data(#"{"format":"forge-backup"}"#.utf8), to: "b/manifest")
        try await files.save(Data("x".utf8), to: "b/content/x")
        for (directory, backup) in [
            ("", nil), ("a", nil), ("a/b", "a/b"), ("a/b/content/c/content", "a/b"), ("fs/b/content", nil),
        ] as [(POSIXPath, POSIXPath?)] {
            #expect(try target().backup(above: directory) == backup, "\(directory)")
        }
        #expect(try target("tree:none").backup(above: "a") == nil)
        let failure = #expect(throws: FileSystemError.self) { try target("tree:t/a/b/manifest").backup(above: "a") }
        #expect(failure?.errno == .notDirectory)
    }

    @Test("a store is a copy of one in the source only if that can be told")
    func mirrored() async throws {
        try await scratch.makeStores(in: "t")
        try scratch.copy("t/kv", to: "s/kv")
        try scratch.plant("s/fs", "a file")
        let source = try ConfinedDirectory(POSIXPath(scratch.path("s")))
        for store in ["kv", "fs", "vault", "none"] as [POSIXPath] {
            #expect(try target().isMirrored(store, in: source) == (store == "kv"), "\(store)")
        }
        let name = POSIXPath(String(repeating: "n", count: 300))
        #expect(throws: FileSystemError.self) { try target().isMirrored(name, in: source) }
    }

    @Test("a store is locked once, as long as the destination is in use, and where there is none, nothing is")
    func locks() throws {
        let url = scratch.url.appendingPathComponent("t/kv")
        try FileKVStore(at: url).close()
        do {
            let destination = try target()
            for _ in 0..<2 { #expect(try destination.lockStore(in: "kv", of: destination.scope(of: "kv"))) }
            #expect(throws: KVStoreError.self) { try FileKVStore(at: url) }
            #expect(try destination.lockStore(in: "", of: destination.scope(of: "")))
            withExtendedLifetime(destination) {}
        }
        #if os(Linux)
        #expect(try scratch.opened().isEmpty)
        #endif
        let store = try FileKVStore(at: url)
        #if os(Linux)
        let before = try scratch.opened()
        #endif
        let destination = try target()
        #expect(try !destination.lockStore(in: "kv", of: destination.scope(of: "kv")))
        #if os(Linux)
        #expect(try scratch.opened() == before)
        #endif
        withExtendedLifetime((store, destination)) {}
    }

    @Test("a file store creates its directories itself, and a directory that is missing is not flushed")
    func directories() throws {
        try target("file:t").prepare("a/b", like: nil)
        try target().includeInFlush("a/b")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("t")))
        try target().prepare("a/b", like: nil)
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.path("t")).sorted() == ["a", "a/b"])
    }

    @Test("no directory is created in a file store, an unknown store or a backup that the source does not have")
    func newDirectories() async throws {
        try await scratch.makeStores(in: "t")
        try scratch.plant("t/unknown/#lock")
        let inStores = ["backup/content/new/x", "fs/new/deep/x", "unknown/new/x"]
        for path in inStores + ["kv/new/x", "vault/new/x"] { try scratch.plant("s/\(path)") }
        let before = try FileManager.default.subpathsOfDirectory(atPath: scratch.path("t"))
        func failed(_ options: String...) throws -> [String] {
            let words = ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--json"]
            let run = try CommandRun(words + options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
            return try run.rows().filter { $0["action"] as? String == "fail" }.compactMap { $0["key"] as? String }
        }
        #expect(try failed("--dry-run").sorted() == inStores)
        #expect(try failed().sorted() == inStores)
        let added = Set(try FileManager.default.subpathsOfDirectory(atPath: scratch.path("t"))).subtracting(before)
        #expect(added == ["kv/new", "kv/new/x", "vault/new", "vault/new/x"])
        for name in ["fs/#store-files", "backup/manifest"] { try scratch.copy("t/\(name)", to: "s/\(name)") }
        #expect(try failed("--dry-run") == ["unknown/new/x"])
        #expect(try failed() == ["unknown/new/x"])
        for path in inStores.dropLast() { #expect(FileManager.default.fileExists(atPath: scratch.path("t/\(path)"))) }
    }

    @Test(
        "the error of creating a directory is that of each file in it",
        .enabled(if: CommandRun.obeyingModes != nil))
    func refusedDirectory() throws {
        for file in ["s/d/e/a", "s/d/e/b"] { try scratch.plant(file) }
        try FileManager.default.createDirectory(atPath: scratch.path("t"), withIntermediateDirectories: true)
        try #require(chmod(scratch.path("t"), 0o500) == 0)
        let (from, to) = ("tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))")
        let run = try CommandRun(["copy", from, to], prefix: #require(CommandRun.obeyingModes))
        let reason = "(createDirectory \(scratch.path("t/d")): Permission denied (EACCES))"
        #expect(run.status == 1, "\(run.errors)")
        let lines = ["a", "b"].map { "fail  \(from)/d/e/\($0) → \(to)/d/e/\($0)  \(reason)\n" }
        #expect(run.output == lines.joined() + "0 copied (0 B), 0 equal, 2 failed\n")
    }
}
