package import ForgeFileStore
import ForgeFileSystem
import Foundation

extension ConformanceChecks {
    static let fileListing: [FileStoreCheck] = [
        FileStoreCheck("a listing shows one level") { store in
            try await fill(store)
            try expectEqual(try await keys(store.list(in: "docs")), ["docs/a.txt", "docs/b.txt", "docs/deep"], "docs")
        },
        FileStoreCheck("the empty key lists the whole store's directory") { store in
            try await fill(store)
            try expectEqual(try await keys(store.list(in: "")), ["docs", "docs2", "top"], "top level")
            try expectEqual(try await keys(store.list()), ["docs", "docs2", "top"], "top level by default")
        },
        FileStoreCheck("a recursive listing contains all levels, including directories") { store in
            try await fill(store)
            try expectEqual(
                try await keys(store.list(in: "docs", recursive: true)),
                ["docs/a.txt", "docs/b.txt", "docs/deep", "docs/deep/c.txt"], "docs")
            try expectEqual(
                try await keys(store.list(recursive: true)),
                [
                    "docs", "docs/a.txt", "docs/b.txt", "docs/deep", "docs/deep/c.txt", "docs2", "docs2/d.txt", "top",
                ], "the whole store")
        },
        FileStoreCheck("a recursive listing contains a directory before its entries") { store in
            try await store.save(Data(), to: "a/b/c/d")
            let keys = try await store.list(recursive: true).map(\.key)
            try expectEqual(keys, ["a", "a/b", "a/b/c", "a/b/c/d"], "order")
        },
        FileStoreCheck("a listing excludes keys that only share a prefix with the directory") { store in
            try await fill(store)
            let keys = try await store.list(in: "docs", recursive: true).map(\.key)
            try expect(!keys.contains { $0.hasPrefix("docs2") }, "docs2 is not in docs")
        },
        FileStoreCheck("a listed file has the size and kind of its info") { store in
            try await fill(store)
            for file in try await store.list(recursive: true) {
                try expectEqual(file, try await store.info(file.key), file.key)
            }
        },
        FileStoreCheck("every key listed as a file can be loaded") { store in
            try await fill(store)
            for file in try await store.list(recursive: true) where !file.isDirectory {
                try expectEqual(Int64(try await store.load(file.key).count), file.sizeInBytes, file.key)
            }
        },
        FileStoreCheck("a listing has hidden files and directories, and the size counts them") { store in
            for key in [".hidden", ".d/f", "d/.hidden", "d/..."] { try await store.save(Data(count: 10), to: key) }
            try expectEqual(try await keys(store.list(in: "")), [".d", ".hidden", "d"], "list(in: \"\")")
            try expectEqual(try await keys(store.list(in: "d")), ["d/...", "d/.hidden"], "list(in: d)")
            try expectEqual(try await keys(store.list(in: ".d", recursive: true)), [".d/f"], "list(in: .d)")
            try expectEqual(
                try await keys(store.list(recursive: true)),
                [".d", ".d/f", ".hidden", "d", "d/...", "d/.hidden"], "list(recursive: true)")
            try expectEqual(try await store.totalSize(), 40, "totalSize()")
        },
        FileStoreCheck("a listing does not contain the directory itself") { store in
            try await store.save(Data(), to: "d/e/f")
            for (directory, key) in [("d", "d/e"), ("d/e", "d/e/f")] {
                try expectEqual(try await store.list(in: directory).map(\.key), [key], "list(in: \(directory))")
            }
        },
        FileStoreCheck("a directory that does not exist cannot be listed") { store in
            try await expectCode(.notFound, "list") { try await store.list(in: "nowhere") }
        },
        FileStoreCheck("a file cannot be listed") { store in
            try await store.save(Data("1".utf8), to: "file")
            try await expectCode(.notDirectory, "list of a file") { try await store.list(in: "file") }
        },
        FileStoreCheck("an empty store lists nothing and has no size") { store in
            try expectEqual(try await store.list(recursive: true), [], "listing")
            try expectEqual(try await store.totalSize(), 0, "size")
        },
        FileStoreCheck("the total size is the sum of all files") { store in
            try await store.save(Data(count: 100), to: "a")
            try await store.save(Data(count: 2_000), to: "b/c")
            try await store.save(Data(count: 30_000), to: "b/d/e")
            try expectEqual(try await store.totalSize(), 32_100, "size")
            try await store.save(Data(count: 1), to: "b/c")
            try expectEqual(try await store.totalSize(), 30_101, "size after replacing a file")
            try await store.delete("b/d/e")
            try expectEqual(try await store.totalSize(), 101, "size after delete(b/d/e)")
            try await store.save(Data(count: 40), to: "b/d/e")
            try expectEqual(try await store.totalSize(), 141, "size after save(to: b/d/e)")
            try await store.deleteDirectory("b")
            try expectEqual(try await store.totalSize(), 100, "size after deleteDirectory(b)")
            try await store.save(Data(count: 5), to: "b/d/e")
            try expectEqual(try await store.totalSize(), 105, "size after save(to: b/d/e) in a new directory")
        },
        FileStoreCheck("a listing of many files contains each of them once") { store in
            for number in 0..<200 { try await store.save(Data(), to: "many/\(number)") }
            let keys = try await store.list(in: "many").map(\.key)
            try expectEqual(keys.count, 200, "count")
            try expectEqual(Set(keys).count, 200, "different keys")
        },
    ]

    static let fileDeleting: [FileStoreCheck] = [
        FileStoreCheck("a deleted file is not found, its neighbours are") { store in
            try await fill(store)
            try await store.delete("docs/a.txt")
            try await expectCode(.notFound, "load") { try await store.load("docs/a.txt") }
            try expectEqual(try await store.load("docs/b.txt"), Data("bb".utf8), "neighbour")
        },
        FileStoreCheck("deleting a file keeps every file and directory whose key begins with its key") { store in
            let others = ["a.b", "a2", "aa/f", "d/a", "d/a2"]
            for key in ["a"] + others { try await store.save(Data(key.utf8), to: key) }
            try await store.delete("a")
            try expectEqual(
                try await keys(store.list(recursive: true)), ["a.b", "a2", "aa", "aa/f", "d", "d/a", "d/a2"],
                "list(recursive: true) after delete(a)")
            for key in others { try expectEqual(try await store.load(key), Data(key.utf8), "load(\(key))") }
        },
        FileStoreCheck("deleting a missing file is an error") { store in
            try await expectCode(.notFound, "delete") { try await store.delete("nothing") }
            try await expectCode(.notFound, "delete in no directory") { try await store.delete("no/thing") }
            try await expectCode(.notFound, "deleteDirectory") { try await store.deleteDirectory("nothing") }
            try await expectCode(.notFound, "deleteDirectory in no directory") {
                try await store.deleteDirectory("no/thing")
            }
        },
        FileStoreCheck("a directory is not deleted as a file, nor a file as a directory") { store in
            try await fill(store)
            try await expectCode(.isDirectory, "delete of a directory") { try await store.delete("docs") }
            try await expectCode(.notDirectory, "deleteDirectory of a file") {
                try await store.deleteDirectory("docs/a.txt")
            }
            try expectEqual(try await store.load("docs/a.txt"), Data("a".utf8), "content")
        },
        FileStoreCheck("deleting a directory deletes its entries and nothing else") { store in
            try await fill(store)
            try await store.deleteDirectory("docs")
            try expect(!(await store.exists("docs")), "the directory should be gone")
            try expect(!(await store.exists("docs/deep/c.txt")), "its entries should be gone")
            try expectEqual(try await keys(store.list(recursive: true)), ["docs2", "docs2/d.txt", "top"], "the rest")
        },
        FileStoreCheck("deleteAll leaves an empty store that can be used") { store in
            try await fill(store)
            try await store.deleteAll()
            try expectEqual(try await store.list(recursive: true), [], "listing")
            try expectEqual(try await store.totalSize(), 0, "size")
            try await store.save(Data("new".utf8), to: "docs/a.txt")
            try expectEqual(try await store.load("docs/a.txt"), Data("new".utf8), "content")
            try await store.deleteAll()
            try await store.deleteAll()
        },
        FileStoreCheck("a file can replace a deleted directory, and vice versa") { store in
            try await store.save(Data("1".utf8), to: "x/y")
            try await store.deleteDirectory("x")
            try await store.save(Data("2".utf8), to: "x")
            try await store.delete("x")
            try await store.save(Data("3".utf8), to: "x/y")
            try expectEqual(try await store.load("x/y"), Data("3".utf8), "content")
        },
        FileStoreCheck("a directory can be created, also when it exists") { store in
            try await store.createDirectory("a/b/c")
            try await store.createDirectory("a/b/c")
            try await store.createDirectory("a/b")
            try await store.save(Data("1".utf8), to: "a/b/c/d")
            try await store.createDirectory("a/b/c")
            try expectEqual(try await store.load("a/b/c/d"), Data("1".utf8), "content")
        },
        FileStoreCheck(
            "a created directory is listed with its parents, and is empty until it is deleted",
            needs: [.emptyDirectories]
        ) { store in
            try await store.createDirectory("a/b")
            for key in ["a", "a/b"] {
                try expect(await store.exists(key), "exists(\(key)) after createDirectory(a/b): expected true")
                try expectEqual(try await store.info(key).kind, .directory, "the kind of info(\(key))")
            }
            try expectEqual(try await keys(store.list(recursive: true)), ["a", "a/b"], "list(recursive: true)")
            try expectEqual(try await store.list(in: "a/b"), [], "list(in: a/b)")
            try expectEqual(try await store.totalSize(), 0, "totalSize()")
            try await store.deleteDirectory("a/b")
            try expect(!(await store.exists("a/b")), "exists(a/b) after deleteDirectory(a/b): expected false")
            try expectEqual(try await keys(store.list(recursive: true)), ["a"], "list after deleteDirectory(a/b)")
            try await store.createDirectory("a/b")
            try await store.deleteAll()
            try expectEqual(try await store.list(recursive: true), [], "list(recursive: true) after deleteAll()")
        },
        FileStoreCheck("a directory is not created at the path of a file", needs: [.emptyDirectories]) { store in
            try await store.save(Data("1".utf8), to: "file")
            try await expectCode(.notDirectory, "at the file") { try await store.createDirectory("file") }
            try await expectCode(.notDirectory, "below the file") { try await store.createDirectory("file/a/b") }
            try expectEqual(try await store.load("file"), Data("1".utf8), "content")
        },
    ]

    private static func fill(_ store: any FileStoring) async throws {
        try await store.save(Data("a".utf8), to: "docs/a.txt")
        try await store.save(Data("bb".utf8), to: "docs/b.txt")
        try await store.save(Data("ccc".utf8), to: "docs/deep/c.txt")
        try await store.save(Data("dddd".utf8), to: "docs2/d.txt")
        try await store.save(Data("top".utf8), to: "top")
    }

    private static func keys(_ files: [StoredFile]) -> [String] {
        files.map(\.key).sorted()
    }
}

extension ConformanceChecks {
    /// The promises of a streaming file store about the attributes of files; part of ``streamingFileStore``.
    package static let fileAttributes: [ConformanceCheck<any StreamingFileStoring>] = attributes.map {
        $0.needing(.fileAttributes)
    }

    private typealias Check = ConformanceCheck<any StreamingFileStoring>

    private static let attributes: [Check] = [
        Check("attributes are stored with a file and read back") { store in
            let attributes = [
                "content-type": "text/plain; charset=utf-8", "e": "", "0": "Größe e\u{301} \u{E9} 🗂\n\0",
                String(repeating: "x", count: 64): "a=b", "a.b_c-d": "1",
            ]
            let saved = try await store.save(
                text("content"), to: "d/f", if: .always, durability: nil, attributes: attributes)
            try expectAttributes(try await store.attributes(of: "d/f"), attributes, "attributes")
            let reader = try await store.reader(for: "d/f")
            try expectAttributes(try await reader.attributes(), attributes, "attributes of a reader")
            try expectEqual(try await store.load("d/f"), text("content"), "content")
            try expectEqual(try await store.info("d/f"), saved, "info")
            try await expectCode(.notFound, "a missing file") { try await store.attributes(of: "d/x") }
        },
        Check("every save replaces the attributes: one without them leaves none") { store in
            for kind in ["save", "conditional save", "update", "batch", "copy", "move", "writer"] {
                try await store.save(text("old"), to: "f", attributes: ["a": "1", "b": "2"])
                try await store.save(text("old"), to: "f", attributes: ["b": "3"])
                try expectAttributes(try await store.attributes(of: "f"), ["b": "3"], "after a second save")
                switch kind {
                case "save": try await store.save(text("new"), to: "f")
                case "conditional save": try await store.save(text("new"), to: "f", if: .always)
                case "update": try await store.update("f") { _ in text("new") }
                case "batch": try await store.batch { $0.save(text("new"), to: "f") }
                case "copy": try await withSource(text("new")) { try await store.copy(from: $0, to: "f") }
                case "move": try await withSource(text("new")) { try await store.move(from: $0, to: "f") }
                default: try await store.write(to: "f") { try await $0.write(text("new")) }
                }
                try expectAttributes(try await store.attributes(of: "f"), [:], "after a \(kind)")
            }
        },
        Check("attributes up to the limits are stored, others are refused before any change") { store in
            let kept = ["a": "kept"]
            try await store.save(text("old"), to: "f", attributes: kept)
            for (attributes, problem) in refused {
                try await expectCode(.invalidAttribute(problem), "save with \(problem)") {
                    try await store.save(text("new"), to: "f", attributes: attributes)
                }
                try await expectCode(.invalidAttribute(problem), "writer with \(problem)") {
                    try await store.writer(for: "f", if: .always, durability: nil, attributes: attributes)
                }
                let error = try await expectCode(.invalidAttribute(problem), "batch with \(problem)") {
                    try await store.batch { batch in
                        batch.save(text("new"), to: "f")
                        batch.save(text("new"), to: "g", attributes: attributes)
                    }
                }
                try expectEqual(error.key, "g", "key")
                try expect(!"\(error)".contains("secret"), "the error has the value of an attribute")
            }
            try expectEqual(try await store.load("f"), text("old"), "content")
            try expectAttributes(try await store.attributes(of: "f"), kept, "attributes")
            try expectEqual(try await store.list(recursive: true).map(\.key), ["f"], "entries")
            let largest = ["a": String(repeating: "x", count: 2_000), "b": String(repeating: "y", count: 46)]
            try await store.save(text("new"), to: "f", attributes: largest)
            try expectAttributes(try await store.attributes(of: "f"), largest, "the largest attributes")
            let most = Dictionary(uniqueKeysWithValues: (0..<50).map { ("a\($0)", "\($0)") })
            try await store.save(text("new"), to: "f", attributes: most)
            try expectAttributes(try await store.attributes(of: "f"), most, "the most attributes")
        },
        Check("a save whose condition is not met keeps content and attributes") { store in
            let first = try await store.save(text("a"), to: "f", attributes: ["a": "1"])
            let second = try await store.save(text("b"), to: "f", attributes: ["a": "2"])
            for condition in [SaveCondition.absent, first.revision.map(SaveCondition.unchanged) ?? .absent] {
                _ = try await expectError(FileStoreError.self, "\(condition)") {
                    try await store.save(text("c"), to: "f", if: condition, durability: nil, attributes: ["a": "3"])
                }
                try expectEqual(try await store.load("f"), text("b"), "content")
                try expectAttributes(try await store.attributes(of: "f"), ["a": "2"], "attributes")
            }
            guard let revision = second.revision else { throw ConformanceViolation("no revision") }
            try await store.save(text("c"), to: "f", if: .unchanged(revision), durability: nil, attributes: ["a": "3"])
            try expectAttributes(try await store.attributes(of: "f"), ["a": "3"], "attributes of the next revision")
        },
        Check("a batch stores the attributes of each of its files") { store in
            try await store.batch { batch in
                for number in 0..<70 { batch.save(text("x"), to: "d/\(number)", attributes: ["n": "\(number)"]) }
                batch.save(text("x"), to: "none")
            }
            for number in 0..<70 {
                try expectAttributes(try await store.attributes(of: "d/\(number)"), ["n": "\(number)"], "\(number)")
            }
            try expectAttributes(try await store.attributes(of: "none"), [:], "a file without attributes")
        },
        Check("a writer stores its attributes when it is committed") { store in
            try await store.save(text("old"), to: "f", attributes: ["a": "old"])
            let writer = try await store.writer(for: "f", if: .always, durability: nil, attributes: ["b": "new"])
            try await writer.write(text("new"))
            try expectAttributes(try await store.attributes(of: "f"), ["a": "old"], "before the commit")
            try await writer.commit()
            try expectAttributes(try await store.attributes(of: "f"), ["b": "new"], "after the commit")
            try await store.write(to: "g", attributes: ["c": "1"]) { try await $0.write(text("x")) }
            try expectAttributes(try await store.attributes(of: "g"), ["c": "1"], "of a closure")
            try await store.write(to: "d/f", attributes: ["d": "2"]) { _ in try await store.deleteDirectory("d") }
            try expectAttributes(try await store.attributes(of: "d/f"), ["d": "2"], "after deleteDirectory(d)")
        },
        Check("a reader has the attributes of the file that it opened") { store in
            for durability in Durability.allCases {
                try await store.save(text("x"), to: "f", if: .always, durability: durability, attributes: ["a": "1"])
                let reader = try await store.reader(for: "f")
                try await store.save(text("y"), to: "f", if: .always, durability: durability, attributes: ["b": "2"])
                try expectAttributes(try await reader.attributes(), ["a": "1"], "after it was replaced")
                try await store.delete("f")
                try expectAttributes(try await reader.attributes(), ["a": "1"], "after it was deleted")
                try await store.save(text("z"), to: "f")
                try expectAttributes(try await store.attributes(of: "f"), [:], "of a new file")
            }
        },
    ]

    /// Invalid attributes, and why.
    private static let refused: [([String: String], FileStoreError.AttributeProblem)] = {
        let names: [String] = ["", "A", "a b", "ä", "a/b", ".a", "-a", "_a", "a\0", String(repeating: "x", count: 65)]
        var refused: [([String: String], FileStoreError.AttributeProblem)] = []
        for name in names { refused.append(([name: "secret", "z": "secret"], .name(name))) }
        let long = String(repeating: "x", count: 2_040)
        refused.append((["a": "secret ..." + long], .tooLarge("a")))
        refused.append((["a": "secret", "b": long, "c": ""], .tooLarge("b")))
        let surplus = Dictionary(uniqueKeysWithValues: (0..<50).map { ("a\($0)", "") })
        refused.append((surplus.merging(["b": "secret"]) { $1 }, .tooLarge("b")))
        return refused
    }()

    /// Compares bytes: canonically equivalent strings are equal.
    private static func expectAttributes(
        _ actual: [String: String], _ expected: [String: String], _ what: String, file: StaticString = #fileID,
        line: UInt = #line
    ) throws {
        let isEqual = actual.mapValues { Array($0.utf8) } == expected.mapValues { Array($0.utf8) }
        try expect(isEqual, "\(what): expected \(expected), got \(actual)", file: file, line: line)
    }

    private static func text(_ text: String) -> Data { Data(text.utf8) }
}
