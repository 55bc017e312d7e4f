import ChildProcesses
import ForgeStorage
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

/// Random trees of file stores, key-value stores, vaults and caches, in each other and beside each other, which hold
/// copies of each other's files. What the verbs leave is compared by `find` and `sha256sum`.
@Suite("the verbs on random trees of stores", .timeLimit(.minutes(120)))
struct RandomTreeTests {
    /// A tree and what an app has stored in it.
    private struct Tree {
        let scratch: Scratch
        var generator: SplitMix64
        /// The paths of the files that an app has stored in file stores, or beside stores.
        var appFiles: Set<String> = []
        /// The root of each file store, and its keys.
        var fileStores: [String: Set<String>] = [:]
        /// The root of each key-value store, and the number of its keys.
        var keyValueStores: [String: Int] = [:]
        /// Files of stores, some of them damaged, which an app may have stored as its own.
        var copies: [Data] = [Data(), Data("text".utf8), Data("FORGEIMG".utf8), Data("FORGECCH".utf8)]

        init(seed: UInt64) throws {
            scratch = try Scratch()
            generator = SplitMix64(seed: seed)
        }

        var root: URL { scratch.url.appendingPathComponent("all") }

        private mutating func random(_ range: Range<Int>) -> Int { .random(in: range, using: &generator) }

        private static let names = [
            "log", "vault", "key", "a.cache", "b.forgecache", "#shared", "#reserve", "#log-new", "#quarantine-new",
            "quarantine-records-1", "quarantine", "note.txt", "é", "e\u{301}", "x\u{600}", "#hash", "~", "manifest",
        ]

        mutating func name() -> String { Self.names[random(0..<Self.names.count)] }

        /// A copy of a file of some store, as it is or with a damaged byte.
        mutating func content() -> Data {
            var data = copies[random(0..<copies.count)]
            if !data.isEmpty, random(0..<2) == 0 { data[random(0..<data.count)] ^= 0x10 }
            return data
        }

        mutating func fill(_ directory: String, depth: Int) async throws {
            let url = root.appendingPathComponent(directory)
            switch random(0..<7) {
            case 0: try await makeFiles(directory, url)
            case 1: try makeKeyValues(directory, url)
            case 2: try makeVault(directory, url)
            case 3: try makeImages(directory, url)
            case 4: try makeValues(directory, url)
            case 5: try await makeCache(url)
            default: try makePlain(directory, url)
            }
            guard depth > 0 else { return }
            for number in 0..<random(1..<4) { try await fill("\(directory)/n\(number)", depth: depth - 1) }
        }

        private mutating func makeFiles(_ directory: String, _ url: URL) async throws {
            let store = DiskFileStore(root: url)
            var keys: Set<String> = []
            for _ in 0..<random(1..<8) {
                let key = random(0..<3) == 0 ? "d\(random(0..<2))/\(name())" : name()
                do {
                    try await store.save(content(), to: key)
                } catch let error as FileStoreError where [.isDirectory, .notDirectory].contains(error.code) {
                    continue
                }
                keys.insert(key)
                appFiles.insert("\(directory)/\(key)")
            }
            if !keys.isEmpty { fileStores[directory] = keys }
        }

        private mutating func makeKeyValues(_ directory: String, _ url: URL) throws {
            let store = try FileKVStore(at: url)
            let count = random(1..<20)
            for number in 0..<count { try store.set(KVKey<String>("key.\(number)"), value: "value \(number)") }
            try store.synchronize()
            try store.close()
            keyValueStores[directory] = count
            copies.append(try Data(contentsOf: url.appendingPathComponent("log")))
            try addForeign(directory, url)
        }

        private mutating func makeVault(_ directory: String, _ url: URL) throws {
            let key = try VaultKeyFile.loadOrCreate(at: url.appendingPathComponent("key"))
            try VaultCrypt(at: url.appendingPathComponent("vault"), key: key).set("x", for: CryptKey(key: "token"))
            for name in ["key", "vault"] { copies.append(try Data(contentsOf: url.appendingPathComponent(name))) }
            try addForeign(directory, url)
        }

        private mutating func makeImages(_ directory: String, _ url: URL) throws {
            try ImageCacheManager(cacheDirectory: url).cacheImage(id: "a", data: Data([1, 2, 3]))
            copies.append(try Data(contentsOf: url.appendingPathComponent("a.cache")))
        }

        private mutating func makeValues(_ directory: String, _ url: URL) throws {
            let storage = DiskStorage(path: url)
            for _ in 0..<random(1..<5) {
                let name = name()
                try storage.save(value: content(), for: name)
                appFiles.insert("\(directory)/\(name)")
            }
        }

        private mutating func makeCache(_ url: URL) async throws {
            let cache = try BoundedCache<String>(directory: url, coding: .codable)
            for number in 0..<random(1..<4) { await cache.insert("value \(number)", for: "key \(number)") }
        }

        /// Files of the app, some of them with a second hard link.
        private mutating func makePlain(_ directory: String, _ url: URL) throws {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
            for number in 0..<random(1..<4) {
                let name = name()
                let file = url.appendingPathComponent(name)
                try content().write(to: file)
                appFiles.insert("\(directory)/\(name)")
                guard random(0..<3) == 0 else { continue }
                try FileManager.default.linkItem(at: file, to: url.appendingPathComponent("link\(number)"))
                appFiles.insert("\(directory)/link\(number)")
            }
        }

        /// A file of another program in the directory of a store.
        private mutating func addForeign(_ directory: String, _ url: URL) throws {
            let name = ["note.txt", "a.cache", "#hash"][random(0..<3)]
            try Data("another program's".utf8).write(to: url.appendingPathComponent(name))
            appFiles.insert("\(directory)/\(name)")
        }

        /// The checksums that `sha256sum` prints of the app's files below a directory, by path.
        func checksums(below directory: URL) throws -> [String: String] {
            let run = try ChildProcess.run(
                "/bin/sh", ["-c", "find . -type f -print0 | xargs -0 sha256sum -z"], directory: directory.path)
            var sums: [String: String] = [:]
            for line in run.output.split(separator: 0) {
                let path = String(decoding: line.dropFirst(64 + 4), as: UTF8.self)
                // By bytes: two canonically equivalent names are two files.
                sums[Data(path.utf8).base64EncodedString()] = String(decoding: line.prefix(64), as: UTF8.self)
            }
            return sums
        }

        func appChecksums(below directory: URL) throws -> [String: String] {
            let names = Set(appFiles.map { Data($0.utf8).base64EncodedString() })
            return try checksums(below: directory).filter { names.contains($0.key) }
        }

        /// The keys that the command lists in each file store, and the counts of each key-value store.
        func requireListed(below directory: URL, _ comment: String) throws {
            for (root, keys) in fileStores {
                let run = try CommandRun(["file", "list", "--json", directory.appendingPathComponent(root).path])
                let listed = Set(try run.rows().compactMap { ($0["key"] as? String).map { Array($0.utf8) } })
                // An ordinary directory below the root is part of the store, so that there may be more.
                #expect(listed.isSuperset(of: keys.map { Array($0.utf8) }), "\(comment): \(root)")
            }
            for (root, count) in keyValueStores {
                let run = try CommandRun(["kv", "list", "--json", directory.appendingPathComponent(root).path])
                #expect(try run.rows().count == count, "\(comment): \(root) \(run.errors)")
            }
        }
    }

    /// `FORGE_TREES` sets the number of trees, for a long run by hand.
    private static let seeds: [UInt64] = {
        let count = ProcessInfo.processInfo.environment["FORGE_TREES"].flatMap { Int($0) }
        return count.map { (0..<$0).map { _ in .random(in: 0 ... .max) } } ?? TestDepth.seeds([1, 2], random: 40)
    }()

    @Test("check, repair, backup, restore and copy keep every file of the app byte for byte", arguments: seeds)
    func everyVerb(seed: UInt64) async throws {
        var tree = try Tree(seed: seed)
        try await tree.fill("top", depth: 2)
        let app = try tree.appChecksums(below: tree.root)
        #expect(app.count == Set(tree.appFiles.map { Array($0.utf8) }).count, "seed \(seed)")
        let root = tree.root.path
        _ = try CommandRun(["check", root])
        #expect(try tree.appChecksums(below: tree.root) == app, "check, seed \(seed)")
        let repair = try CommandRun(["repair", root])
        #expect(try tree.appChecksums(below: tree.root) == app, "repair, seed \(seed): \(repair.output)")
        try tree.requireListed(below: tree.root, "repair, seed \(seed)")
        _ = try CommandRun(["du", root])
        let backup = try CommandRun(["backup", root, tree.scratch.path("b")])
        #expect(backup.status == 0, "seed \(seed): \(backup.output) \(backup.errors)")
        let restore = try CommandRun(["restore", tree.scratch.path("b"), tree.scratch.path("r")])
        #expect(restore.status == 0, "seed \(seed): \(restore.output) \(restore.errors)")
        let restored = tree.scratch.url.appendingPathComponent("r")
        #expect(try tree.appChecksums(below: restored) == app, "restore, seed \(seed)")
        try tree.requireListed(below: restored, "restore, seed \(seed)")
        for _ in 0..<2 {
            let copy = try CommandRun([
                "copy", "tree:\(root)", "tree:\(tree.scratch.path("c"))", "--delete", "--verify",
            ])
            #expect(copy.status == 0, "seed \(seed): \(copy.output) \(copy.errors)")
            let copied = tree.scratch.url.appendingPathComponent("c")
            #expect(try tree.checksums(below: copied) == tree.checksums(below: tree.root), "copy, seed \(seed)")
            // A file more in each directory of the copy, which the next copy deletes.
            for path in Set(tree.appFiles.map { ($0 as NSString).deletingLastPathComponent }) {
                let extra = copied.appendingPathComponent(path).appendingPathComponent("extra")
                if !FileManager.default.fileExists(atPath: extra.path) { try Data("old".utf8).write(to: extra) }
            }
        }
        let emptied = try CommandRun([
            "copy", "tree:\(root)", "tree:\(tree.scratch.path("c"))", "--delete", "--max-delete", "10000",
        ])
        #expect(emptied.status == 0, "seed \(seed): \(emptied.output)")
        #expect(
            try tree.checksums(below: tree.scratch.url.appendingPathComponent("c")) == tree.checksums(below: tree.root),
            "copy --delete, seed \(seed)")
    }
}
