public import ForgeFileStore
import ForgeFileSystem
import Foundation

extension ConformanceChecks {
    /// The promises of a file store with readers, writers, conditional saves, batches, listings by pages, exports,
    /// progress and attributes, which need ``ConformanceCapability/fileAttributes``; besides ``fileStore``.
    public static let streamingFileStore: [ConformanceCheck<any StreamingFileStoring>] =
        fileConditions + fileBatches + fileReaders + fileWriters + filePages + fileLongListings
        + fileTransfers + fileAttributes
}

private typealias Check = ConformanceCheck<any StreamingFileStoring>

extension ConformanceChecks {
    private static let fileConditions: [Check] = [
        Check("a saved file has the revision that the save returned") { store in
            let saved = try await store.save(text("a"), to: "d/f", if: .always)
            try expectEqual(try await store.info("d/f"), saved, "info")
            try expect(saved.revision != nil, "a saved file should have a revision")
        },
        Check("every save has a revision of its own, for equal contents too") { store in
            var revisions: Set<FileRevision?> = []
            for _ in 0..<50 { revisions.insert(try await store.save(text("same"), to: "f", if: .always).revision) }
            for _ in 0..<50 {
                try await store.save(text("same"), to: "f")
                revisions.insert(try await store.info("f").revision)
            }
            try expectEqual(revisions.count, 100, "revisions")
        },
        Check("a save that expects no file creates one and replaces none") { store in
            try await store.save(text("a"), to: "d/f", if: .absent)
            try await expectCode(.alreadyExists, "a second save") {
                try await store.save(text("b"), to: "d/f", if: .absent)
            }
            try expectEqual(try await store.load("d/f"), text("a"), "content")
        },
        Check("a save that expects a revision replaces that revision only") { store in
            let first = try await knownRevision(of: store.save(text("a"), to: "d/f", if: .always))
            let known = FileRevision(rawValue: first.rawValue)
            let second = try await knownRevision(of: store.save(text("b"), to: "d/f", if: .unchanged(known)))
            try await expectCode(.conflict, "a save over the second revision") {
                try await store.save(text("c"), to: "d/f", if: .unchanged(first))
            }
            try expectEqual(try await store.load("d/f"), text("b"), "content")
            try await store.delete("d/f")
            try await expectCode(.conflict, "a save over a deleted file") {
                try await store.save(text("c"), to: "d/f", if: .unchanged(second))
            }
            try expect(!(await store.exists("d/f")), "the file should stay deleted")
            try expectEqual(try await store.list(in: "d").count, 0, "files left behind")
            try await store.save(text("d"), to: "d/f")
            try await expectCode(.conflict, "a save over a file that was created again") {
                try await store.save(text("c"), to: "d/f", if: .unchanged(second))
            }
            try expectEqual(try await store.load("d/f"), text("d"), "content of the file that was created again")
        },
        Check("concurrent updates of one file all count") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        for _ in 0..<10 {
                            try await store.update("counter", durability: Durability.none) { data in
                                text("\((Int(String(decoding: data ?? Data(), as: UTF8.self)) ?? 0) + 1)")
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            try expectEqual(try await store.load("counter"), text("40"), "count")
        },
        Check("a save with any durability is loaded") { store in
            for durability in Durability.allCases {
                for content in ["first", "second"] {
                    try await store.save(text(content), to: "d/\(durability)", durability: durability)
                    try expectEqual(try await store.load("d/\(durability)"), text(content), "\(durability)")
                }
            }
        },
    ]

    private static let fileBatches: [Check] = [
        Check("a batch makes its changes in their order") { store in
            try await store.save(text("old"), to: "gone")
            try await store.batch { batch in
                for number in 0..<150 { batch.save(text("\(number)"), to: "d\(number % 3)/\(number)") }
                batch.delete("gone")
                batch.save(text("first"), to: "twice")
                batch.save(text("second"), to: "twice")
                batch.save(text("again"), to: "gone", if: .absent)
            }
            for number in 0..<150 {
                try expectEqual(try await store.load("d\(number % 3)/\(number)"), text("\(number)"), "file \(number)")
            }
            try expectEqual(try await store.load("twice"), text("second"), "twice")
            try expectEqual(try await store.load("gone"), text("again"), "gone")
            try expectEqual(try await store.list().count, 5, "entries of the root")
        },
        Check("an invalid key in a batch is found before any change") { store in
            try await expectCode(.invalidKey(.dotComponent), "batch") {
                try await store.batch { batch in
                    batch.save(text("a"), to: "a")
                    batch.save(text("b"), to: "../b")
                }
            }
            try expectEqual(try await store.list().count, 0, "entries")
        },
        Check("a failed change of a batch names its key, and the changes before it are made") { store in
            let error = try await expectCode(.notFound, "batch") {
                try await store.batch { batch in
                    batch.save(text("a"), to: "a")
                    batch.delete("missing")
                    batch.save(text("b"), to: "b")
                }
            }
            try expectEqual(error.key, "missing", "key")
            try expectEqual(error.operation, .delete, "operation")
            try expectEqual(try await store.list().map(\.key), ["a"], "entries")
            let saving = try await expectCode(.notDirectory, "batch that saves below the file a") {
                try await store.batch { batch in
                    batch.save(text("c"), to: "c")
                    batch.save(text("below"), to: "a/below")
                    batch.save(text("d"), to: "d")
                }
            }
            try expectEqual(saving.key, "a/below", "the key of \(saving), of a batch that saves below the file a")
            try expectEqual(try await store.load("a"), text("a"), "load(a) after a batch that saves below it")
            try expect(!(await store.exists("d")), "exists(d) after a failed change before it: expected false")
            let creating = try await expectCode(.alreadyExists, "batch that saves a if it is absent") {
                try await store.batch { batch in
                    batch.save(text("e"), to: "e")
                    batch.save(text("new"), to: "a", if: .absent)
                }
            }
            try expectEqual(creating.key, "a", "the key of \(creating), of a batch that saves a if it is absent")
            try expectEqual(try await store.load("a"), text("a"), "load(a) after a batch that saves it if it is absent")
        },
        Check("an empty batch does nothing") { store in
            try await store.batch { _ in }
            try expectEqual(try await store.list().count, 0, "entries")
        },
    ]

    private static let fileReaders: [Check] = [
        Check("a reader returns ranges, chunks and the whole file") { store in
            let content = Data.patterned(count: 300_000)
            try await store.save(content, to: "d/f")
            let reader = try await store.reader(for: "d/f")
            try expectEqual(reader.file, try await store.info("d/f"), "file")
            try expect(try await reader.readAll() == content, "the whole content should be read")
            try expect(try await reader.read(10..<20) == content[10..<20], "a range should be read")
            try expectEqual(try await reader.read(299_990..<400_000).count, 10, "bytes at the end")
            try expectEqual(try await reader.read(300_000..<300_001).count, 0, "bytes after the end")
            try expect(try await reader.read(-5..<10) == content[0..<10], "a range before the start should be cut")
            try expect(try await reader.read(.min ..< .max) == content, "any range should be cut to the file")
            var joined = Data()
            for try await chunk in reader.chunks(ofSize: 7_001) { joined += chunk }
            try expect(joined == content, "the chunks should be the content")
            let ranges: [(Range<Int64>, Range<Int>)] = [
                (-7..<10, 0..<10), (299_995 ..< .max, 299_995..<300_000), (.min ..< -1, 0..<0),
            ]
            for (range, expected) in ranges {
                var part = Data()
                for try await chunk in reader.chunks(ofSize: 4, in: range) { part += chunk }
                try expect(part == content[expected], "the chunks of \(range) should be the bytes \(expected)")
            }
        },
        Check("a reader sees the content as it was opened") { store in
            for content in ["old", "new", "newer"] {
                try await store.save(text(content), to: "f", durability: .none)
                let reader = try await store.reader(for: "f")
                for _ in 0..<3 { try await store.save(text("later"), to: "f", durability: .none) }
                try expectEqual(try await reader.readAll(), text(content), "after it was replaced")
                try await store.delete("f")
                try expectEqual(try await reader.readAll(), text(content), "after it was deleted")
            }
        },
        Check("there is no reader of a missing file or a directory") { store in
            try await store.save(text("a"), to: "d/f")
            try await expectCode(.notFound, "missing file") { try await store.reader(for: "d/x") }
            try await expectCode(.isDirectory, "directory") { try await store.reader(for: "d") }
        },
    ]

    private static let fileWriters: [Check] = [
        Check("a written file appears when it is committed") { store in
            try await store.save(text("old"), to: "d/f")
            let writer = try await store.writer(for: "d/f")
            try await writer.write(text("hello "))
            try await writer.write(text("world"))
            try expectEqual(try await store.load("d/f"), text("old"), "before the commit")
            let file = try await writer.commit()
            try expectEqual(try await store.load("d/f"), text("hello world"), "after the commit")
            try expectEqual(try await store.info("d/f"), file, "info")
            try await expectCode(.closed, "write after the commit") { try await writer.write(text("!")) }
            try await expectCode(.closed, "second commit") { try await writer.commit() }
            await writer.cancel()
            try expectEqual(try await store.load("d/f"), text("hello world"), "after a late cancel")
        },
        Check("a cancelled or released writer leaves no file") { store in
            let writer = try await store.writer(for: "d/f")
            try await writer.write(text("content"))
            await writer.cancel()
            try await expectCode(.closed, "write after the cancel") { try await writer.write(text("!")) }
            try await expectCode(.closed, "commit after the cancel") { try await writer.commit() }
            _ = try await store.writer(for: "e/f")
            let incomplete = try await store.writer(for: "h")
            try await expectError(CancellationError.self, "write in a cancelled task") {
                try await inCancelledTask { try await incomplete.write(text("content")) }
            }
            try await expectCode(.closed, "commit after a cancelled write") { try await incomplete.commit() }
            struct Interruption: Error {}
            _ = try await expectError(Interruption.self, "a failing body") {
                try await store.write(to: "g") { writer in
                    try await writer.write(text("content"))
                    throw Interruption()
                }
            }
            let files = try await store.list(recursive: true).filter { !$0.isDirectory }
            try expectEqual(files, [], "files")
        },
        Check("a writer replaces no file that its condition excludes") { store in
            let writer = try await store.writer(for: "f", if: .absent, durability: nil)
            try await writer.write(text("mine"))
            try await store.save(text("theirs"), to: "f")
            try await expectCode(.alreadyExists, "commit") { try await writer.commit() }
            try expectEqual(try await store.load("f"), text("theirs"), "content")
            let theirs = try await knownRevision(of: store.info("f"))
            let first = try await store.writer(for: "f", if: .unchanged(theirs), durability: nil)
            let second = try await store.writer(for: "f", if: .unchanged(theirs), durability: nil)
            try await first.write(text("first"))
            try await second.write(text("second"))
            try await first.commit()
            try await expectCode(.conflict, "commit over another revision") { try await second.commit() }
            try expectEqual(try await store.load("f"), text("first"), "content after a commit over another revision")
            try await store.delete("f")
            try await expectError(FileStoreError.self, "commit after one that has failed") { try await writer.commit() }
            try expect(!(await store.exists("f")), "exists(f) after a commit after one that has failed: expected false")
        },
        Check("a writer stores its file also if its directory is deleted meanwhile") { store in
            let removals: [(call: String, perform: @Sendable () async throws -> Void)] = [
                ("deleteDirectory(d)", { try await store.deleteDirectory("d") }),
                ("deleteAll()", { try await store.deleteAll() }),
            ]
            for (removal, remove) in removals {
                let old = try await knownRevision(of: store.save(text("old"), to: "d/f", if: .always))
                let writer = try await store.writer(for: "d/f")
                try await writer.write(text("con"))
                let expecting = try await store.writer(for: "d/f", if: .unchanged(old), durability: nil)
                try await remove()
                try await expectCode(.conflict, "commit over a revision after \(removal)") {
                    try await expecting.commit()
                }
                try expect(!(await store.exists("d/f")), "exists(d/f) after \(removal): expected false")
                try await writer.write(text("tent"))
                let file = try await writer.commit()
                try expectEqual(try await store.load("d/f"), text("content"), "content after \(removal)")
                try expectEqual(try await store.info("d/f"), file, "info after \(removal)")
                let keys = try await store.list(recursive: true).map(\.key)
                try expectEqual(keys, ["d", "d/f"], "keys after \(removal)")
            }
        },
        Check("a sequence of chunks is written") { store in
            let chunks = AsyncStream<Data> { continuation in
                for number in 0..<100 { continuation.yield(text("\(number),")) }
                continuation.finish()
            }
            try await store.write(to: "f") { writer in try await writer.write(contentsOf: chunks) }
            let expected = (0..<100).map { "\($0)," }.joined()
            try expectEqual(try await store.load("f"), text(expected), "content")
        },
    ]

    private static let filePages: [Check] = [
        Check("a listing by pages has what a listing has") { store in
            for number in 0..<40 {
                try await store.save(text("x"), to: "d\(number % 4)/e/\(number)", durability: .none)
            }
            try await store.createDirectory("empty")
            let expected = try await store.list(recursive: true)
            try expectEqual(Set(try await all(store.files())), Set(expected), "files")
            try expectEqual(Set(try await all(store.files(in: "d1", FileListingOptions()))).count, 11, "below d1")
            let flat = try await all(store.files(in: "", FileListingOptions(recursive: false)))
            try expectEqual(Set(flat), Set(try await store.list()), "one level")
        },
        Check("a sorted listing is in order and continues after any key") { store in
            for key in ["b/z", "b.c", "b/a/x", "a", "b-d/y", "c"] { try await store.save(text("x"), to: key) }
            let order = ["a", "b", "b/a", "b/a/x", "b/z", "b-d", "b-d/y", "b.c", "c"]
            let keys = try await all(store.files(in: "", FileListingOptions(sorted: true))).map(\.key)
            try expectEqual(keys, order, "keys")
            for (index, key) in order.enumerated() {
                let rest = try await all(store.files(in: "", FileListingOptions(after: key))).map(\.key)
                try expectEqual(rest, Array(order[(index + 1)...]), "keys after \(key)")
            }
            let missing = try await all(store.files(in: "", FileListingOptions(after: "b/b"))).map(\.key)
            try expectEqual(missing, Array(order[4...]), "keys after a missing one")
            for text in ["b//x", "b/"] {
                let rest = try await all(store.files(in: "", FileListingOptions(after: text))).map(\.key)
                try expectEqual(rest, Array(order[2...]), "keys after \(text), which is not a key")
            }
            let below = try await all(store.files(in: "b", FileListingOptions(after: "b/a"))).map(\.key)
            try expectEqual(below, ["b/a/x", "b/z"], "keys below b")
        },
        Check("a listing by prefix has the keys with that prefix") { store in
            for key in ["ab/c", "ab/d", "abc", "b/ab", "a"] { try await store.save(text("x"), to: key) }
            let keys = try await all(store.files(in: "", FileListingOptions(sorted: true, prefix: "ab"))).map(\.key)
            try expectEqual(keys, ["ab", "ab/c", "ab/d", "abc"], "prefix ab")
            let nested = try await all(store.files(in: "", FileListingOptions(sorted: true, prefix: "ab/d"))).map(\.key)
            try expectEqual(nested, ["ab/d"], "prefix ab/d")
        },
        Check("the empty store has no files, and a missing directory is not found") { store in
            try expectEqual(try await all(store.files()).count, 0, "files")
            try await expectCode(.notFound, "missing directory") {
                try await all(store.files(in: "missing", FileListingOptions()))
            }
        },
    ]

    /// Checks of listings that a store reads in several pages.
    private static let fileLongListings: [Check] = [
        Check("a listing of many files in one directory has each of them once, and in order if it is sorted") { store in
            let keys = (0..<1100).map { "d/\($0)" }
            for key in keys { try await store.save(Data(), to: key, durability: .none) }
            let found = try await all(store.files(in: "d", FileListingOptions())).map(\.key)
            try expectEqual(found.count, keys.count, "the number of listed files")
            try expectEqual(Set(found), Set(keys), "listed files")
            try await store.save(Data(), to: "e", durability: .none)
            let sorted = try await all(store.files(in: "", FileListingOptions(sorted: true, after: "d"))).map(\.key)
            try expect(
                sorted == keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } + ["e"],
                "a sorted listing of \(keys.count) files is not in order, or not complete")
        },
        Check("a listing by pages beside saves and deletions has every other file once, and does not fail") { store in
            let kept = (0..<12).map { "d/\($0)" }
            for key in kept { try await store.save(text("x"), to: key) }
            try await overlapping(writers: 1, readers: 1, overlaps: 24) { _, call in
                switch call % 4 {
                case 0: try await store.save(text("x"), to: "d/changing")
                case 1: try await store.save(text("x"), to: "e/changing/f")
                case 2: try await store.delete("d/changing")
                default: try await store.deleteDirectory("e")
                }
            } read: { _ in
                let call = "files() beside saves to d/changing and e/changing/f, delete(d/changing), deleteDirectory(e)"
                let files = try await succeeding(call) { try await all(store.files()) }
                let found = files.map(\.key).filter { $0.hasPrefix("d/") && $0 != "d/changing" }
                guard found.count == kept.count, Set(found) == Set(kept) else {
                    throw ConformanceViolation("\(call): expected \(shown(kept)), got \(shown(found.sorted()))")
                }
            }
        },
    ]
}

private func text(_ text: String) -> Data { Data(text.utf8) }

private func all(_ listing: FileListing) async throws -> [StoredFile] {
    var found: [StoredFile] = []
    for try await file in listing { found.append(file) }
    return found
}

private func knownRevision(of file: StoredFile) throws -> FileRevision {
    guard let revision = file.revision else { throw ConformanceViolation("a saved file should have a revision") }
    return revision
}
