import ForgeFileStore
import Foundation

extension ConformanceChecks {
    static let fileSaving: [FileStoreCheck] = [
        FileStoreCheck("a loaded file has the saved content") { store in
            try await store.save(Data("hello world".utf8), to: "notes/test.txt")
            try expectEqual(try await store.load("notes/test.txt"), Data("hello world".utf8), "content")
        },
        FileStoreCheck("an empty file is a file") { store in
            try await store.save(Data(), to: "empty")
            try expectEqual(try await store.load("empty"), Data(), "content")
            try expectEqual(try await store.size("empty"), 0, "size")
            try expect(await store.exists("empty"), "an empty file should exist")
        },
        FileStoreCheck("every byte value round-trips, across page and buffer boundaries") { store in
            for size in [1, 255, 256, 4_095, 4_096, 4_097, 65_537, 262_144, 262_145, 1_048_577] {
                let content = Data.patterned(count: size)
                try await store.save(content, to: "bytes")
                try expect(try await store.load("bytes") == content, "\(size) bytes should come back unchanged")
            }
        },
        FileStoreCheck("a slice of data is saved as the slice") { store in
            try await store.save(Data("0123456789".utf8).dropFirst(3).prefix(4), to: "slice")
            try expectEqual(try await store.load("slice"), Data("3456".utf8), "content")
        },
        FileStoreCheck("a save replaces the whole file") { store in
            try await store.save(Data("long content".utf8), to: "file")
            try await store.save(Data("short".utf8), to: "file")
            try expectEqual(try await store.load("file"), Data("short".utf8), "content")
        },
        FileStoreCheck("a save that may not overwrite creates a missing file") { store in
            try await store.save(Data("a".utf8), to: "docs/file.txt", overwrite: false)
            try expectEqual(try await store.load("docs/file.txt"), Data("a".utf8), "content")
        },
        FileStoreCheck("a save that may not overwrite leaves an existing file unchanged") { store in
            try await store.save(Data("a".utf8), to: "file.txt")
            try await expectCode(.alreadyExists, "save without overwriting") {
                try await store.save(Data("b".utf8), to: "file.txt", overwrite: false)
            }
            try expectEqual(try await store.load("file.txt"), Data("a".utf8), "content")
        },
        FileStoreCheck("a file that was deleted can be created again without overwriting") { store in
            try await store.save(Data("a".utf8), to: "file.txt", overwrite: false)
            try await store.delete("file.txt")
            try await store.save(Data("b".utf8), to: "file.txt", overwrite: false)
            try expectEqual(try await store.load("file.txt"), Data("b".utf8), "content")
        },
        FileStoreCheck("a directory is not replaced by a file") { store in
            try await store.save(Data("a".utf8), to: "foo/bar")
            try await expectCode(.isDirectory, "save over a directory") {
                try await store.save(Data("b".utf8), to: "foo")
            }
            try await expectCode(.isDirectory, "save over a directory without overwriting") {
                try await store.save(Data("b".utf8), to: "foo", overwrite: false)
            }
            try expectEqual(try await store.load("foo/bar"), Data("a".utf8), "content")
        },
        FileStoreCheck("a file has nothing below it") { store in
            try await store.save(Data("a".utf8), to: "foo")
            try await expectCode(.notDirectory, "save below a file") {
                try await store.save(Data("b".utf8), to: "foo/bar")
            }
            try await expectCode(.notDirectory, "load below a file") { try await store.load("foo/bar") }
            try expect(!(await store.exists("foo/bar")), "nothing should exist below a file")
            try expectEqual(try await store.load("foo"), Data("a".utf8), "content")
        },
        FileStoreCheck("keys that differ in one byte are different files") { store in
            try await store.save(Data("1".utf8), to: "a1")
            try await store.save(Data("2".utf8), to: "a2")
            try expectEqual(try await store.load("a1"), Data("1".utf8), "a1")
            try expectEqual(try await store.load("a2"), Data("2".utf8), "a2")
        },
        FileStoreCheck("an error names the operation and the key and is one line") { store in
            let error = try await expectCode(.notFound, "load of a missing file") {
                try await store.load("no/such.txt")
            }
            try expectEqual(error.operation, .load, "operation")
            try expectEqual(error.key, "no/such.txt", "key")
            try expect(!error.description.contains("\n"), "the description should be one line")
            try expect(error.description.contains("no/such.txt"), "the description should name the key")
        },
    ]

    static let fileMetadata: [FileStoreCheck] = [
        FileStoreCheck("a file that was never saved is not found") { store in
            try await expectCode(.notFound, "load") { try await store.load("nonexistent.txt") }
            try await expectCode(.notFound, "info") { try await store.info("nonexistent.txt") }
            try await expectCode(.notFound, "size") { try await store.size("nonexistent.txt") }
            try expect(!(await store.exists("nonexistent.txt")), "it should not exist")
        },
        FileStoreCheck("a file in a directory that was never created is not found") { store in
            try await expectCode(.notFound, "load") { try await store.load("no/such/file") }
            try await expectCode(.notFound, "info") { try await store.info("no/such/file") }
        },
        FileStoreCheck("a file exists from its save to its removal") { store in
            try expect(!(await store.exists("file.txt")), "before")
            try await store.save(Data("x".utf8), to: "file.txt")
            try expect(await store.exists("file.txt"), "before its removal")
            try await store.delete("file.txt")
            try expect(!(await store.exists("file.txt")), "after")
        },
        FileStoreCheck("info has key, name, kind and size") { store in
            try await store.save(Data("12345".utf8), to: "a/b/c.bin")
            let info = try await store.info("a/b/c.bin")
            try expectEqual(info.key, "a/b/c.bin", "key")
            try expectEqual(info.name, "c.bin", "name")
            try expectEqual(info.kind, .file, "kind")
            try expectEqual(info.sizeInBytes, 5, "size")
            try expectEqual(try await store.size("a/b/c.bin"), 5, "size")
        },
        FileStoreCheck("info of a directory reports a directory") { store in
            try await store.save(Data("1".utf8), to: "a/b/c")
            let info = try await store.info("a/b")
            try expectEqual(info.kind, .directory, "kind")
            try expectEqual(info.key, "a/b", "key")
            try expect(await store.exists("a/b"), "a directory should exist")
        },
        FileStoreCheck("a directory has no content and no size") { store in
            try await store.save(Data("1".utf8), to: "a/b")
            try await expectCode(.isDirectory, "load of a directory") { try await store.load("a") }
            try await expectCode(.isDirectory, "size of a directory") { try await store.size("a") }
        },
        FileStoreCheck("a later save does not have an earlier modification time") { store in
            try await store.save(Data("1".utf8), to: "a")
            let first = try await store.info("a").modified
            try await store.save(Data("2".utf8), to: "a")
            try expect(try await store.info("a").modified >= first, "the time of modification should not go back")
        },
    ]
}
