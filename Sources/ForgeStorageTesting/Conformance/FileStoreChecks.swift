public import ForgeFileStore
import ForgeFileSystem
import Foundation

extension ConformanceChecks {
    /// The promises of a file store.
    ///
    /// The checks for copying and moving create their source files in the temporary directory and remove them.
    public static let fileStore: [ConformanceCheck<any FileStoring>] =
        fileSaving + fileMetadata + fileListing + fileDeleting + fileKeys + fileValues + fileSources
        + sourcesReplacedDuringMove + fileConcurrency
}

/// A check of a file store.
typealias FileStoreCheck = ConformanceCheck<any FileStoring>

/// Throws a violation unless `body` throws a ``FileStoreError`` with this code, which is returned.
@discardableResult
func expectCode<Result>(
    _ code: FileStoreError.Code, _ what: String, file: StaticString = #fileID, line: UInt = #line,
    _ body: () async throws -> Result
) async throws -> FileStoreError {
    let error = try await expectError(FileStoreError.self, "\(what): \(code)", file: file, line: line, body)
    try expectEqual(error.code, code, "\(what): the code of \(error)", file: file, line: line)
    return error
}

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
                try expectEqual(try await store.load("bytes"), content, "load(bytes) after save(to: bytes)")
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
        FileStoreCheck("a file has nothing below it, however deep") { store in
            try await store.save(Data("a".utf8), to: "foo")
            for key in ["foo/a/b", "foo/a/b/c"] {
                let calls: [(call: String, perform: @Sendable () async throws -> Void)] = [
                    ("save(to: \(key))", { try await store.save(Data("b".utf8), to: key) }),
                    ("load(\(key))", { _ = try await store.load(key) }),
                    ("info(\(key))", { _ = try await store.info(key) }),
                    ("list(in: \(key))", { _ = try await store.list(in: key) }),
                    ("delete(\(key))", { try await store.delete(key) }),
                    ("deleteDirectory(\(key))", { try await store.deleteDirectory(key) }),
                ]
                for (call, perform) in calls {
                    let error = try await expectCode(.notDirectory, "\(call) below the file foo", perform)
                    try expectEqual(error.key, key, "the key of \(error)")
                }
                try expect(!(await store.exists(key)), "exists(\(key)) below the file foo: expected false")
            }
            try expectEqual(try await store.load("foo"), Data("a".utf8), "load(foo)")
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
            try expectEqual(info.sizeInBytes, 0, "the size of info(a/b), a directory")
            try expectEqual(info.revision, nil, "the revision of info(a/b), a directory")
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
        FileStoreCheck("a save that replaces a file has a time of its own") { store in
            try await store.save(Data("1".utf8), to: "a")
            let first = try await store.info("a").modified
            // The clock of a file system may have steps of two seconds.
            for milliseconds in [0, 1, 4, 20, 100, 500, 2_500] {
                try await Task.sleep(for: .milliseconds(milliseconds))
                try await store.save(Data("2".utf8), to: "a")
                if try await store.info("a").modified > first { return }
            }
            throw ConformanceViolation(
                "info(a).modified after saves for 3 s: expected a later time, got \(shown(first))")
        },
    ]
}

extension ConformanceChecks {
    static let fileKeys: [FileStoreCheck] = [
        FileStoreCheck("hostile keys are refused with their reason, and nothing is stored") { store in
            let cases: [(String, InvalidKey.Reason)] = [
                ("", .empty), ("../x", .dotComponent), ("a/../x", .dotComponent), ("./x", .dotComponent),
                ("/x", .absolute), ("a//x", .emptyComponent), ("a/", .emptyComponent), ("a\0b", .containsNUL),
                ("a\nb", .containsControlCharacter), ("\u{1}", .containsControlCharacter),
                ("a/b\u{7F}", .containsControlCharacter), ("a\u{9F}", .containsControlCharacter),
                ("a\\b", .containsBackslash),
                (String(repeating: "a", count: 256), .componentTooLong),
                (String(repeating: "a", count: 1_025), .tooLong),
                (Array(repeating: "a", count: 33).joined(separator: "/"), .tooDeep), ("#tmp-x", .reserved),
                ("#move-x", .reserved), ("a/#lock", .reserved), ("a/#LOCK", .reserved), ("\u{200C}#lock", .reserved),
                ("#trash-x/a", .reserved), ("#journal-0", .reserved), ("#store-files", .reserved),
                ("#notes#", .reserved),
            ]
            for (key, reason) in cases {
                let error = try await expectCode(.invalidKey(reason), "save to \(key.debugDescription)") {
                    try await store.save(Data("x".utf8), to: key)
                }
                try expect(
                    error.key.utf8.elementsEqual(key.utf8), "the key of the error of save to \(key.debugDescription)")
            }
            try expectEqual(try await store.list(recursive: true), [], "what is stored")
        },
        FileStoreCheck("every call refuses a key that leads out of the store") { store in
            let key = "../outside"
            let code = FileStoreError.Code.invalidKey(.dotComponent)
            func expectRefusal(
                _ operation: FileStoreError.Operation, _ call: String, _ body: () async throws -> Void
            ) async throws {
                let error = try await expectCode(code, call, body)
                try expectEqual(error.operation, operation, "the operation of \(error)")
                try expectEqual(error.key, key, "the key of \(error)")
            }
            try await expectRefusal(.save, "save") { try await store.save(Data(), to: key) }
            try await expectRefusal(.save, "exclusive save") {
                try await store.save(Data(), to: key, overwrite: false)
            }
            try await expectRefusal(.load, "load") { _ = try await store.load(key) }
            try await expectRefusal(.info, "info") { _ = try await store.info(key) }
            try await expectRefusal(.info, "size") { _ = try await store.size(key) }
            try await expectRefusal(.url, "url") { _ = try await store.url(for: key) }
            try await expectRefusal(.list, "list") { _ = try await store.list(in: key) }
            try await expectRefusal(.list, "recursive list") { _ = try await store.list(in: key, recursive: true) }
            try await expectRefusal(.delete, "delete") { try await store.delete(key) }
            try await expectRefusal(.deleteDirectory, "deleteDirectory") { try await store.deleteDirectory(key) }
            try await expectRefusal(.createDirectory, "createDirectory") { try await store.createDirectory(key) }
            try await withSource(Data("x".utf8)) { source in
                try await expectRefusal(.copy, "copy") { try await store.copy(from: source, to: key) }
                try await expectRefusal(.move, "move") { try await store.move(from: source, to: key) }
                try expectEqual(try Data(contentsOf: source), Data("x".utf8), "the source after both")
            }
            try expect(!(await store.exists(key)), "a key that leads out should not exist")
        },
        FileStoreCheck("unusual but valid keys are ordinary names") { store in
            let keys = [
                "...", ".hidden", "a b", " ", "x.", "~", "%2e%2e/x", "C:", "con", "-rf", "a:b", "\u{202e}x",
                "caf\u{e9}",
                "\u{1f600}/\u{1f4be}", "#", "#1", "*?", String(repeating: "€", count: 85),
            ]
            for key in keys { try await store.save(Data(key.utf8), to: key) }
            for key in keys {
                try expectEqual(try await store.load(key), Data(key.utf8), key.debugDescription)
                try expectEqual(try await store.info(key).key, key, "key of \(key.debugDescription)")
            }
            let listed = Set(try await store.list(recursive: true).filter { !$0.isDirectory }.map(\.key))
            try expectEqual(listed, Set(keys), "listed keys")
        },
        FileStoreCheck("the longest and the deepest key work") { store in
            let deepest = Array(repeating: "d", count: 32).joined(separator: "/")
            let longest = Array(repeating: String(repeating: "a", count: 204), count: 5).joined(separator: "/")
            for key in [deepest, longest] {
                try await store.save(Data("x".utf8), to: key)
                try expectEqual(try await store.load(key), Data("x".utf8), "content")
            }
            let keys = try await store.list(recursive: true).filter { !$0.isDirectory }.map(\.key)
            try expectEqual(Set(keys), [deepest, longest], "listed keys")
        },
    ]

    static let fileValues: [FileStoreCheck] = [
        FileStoreCheck("a JSON value round-trips") { store in
            try await store.saveJSON(Sample.one, to: "sample.json")
            let loaded: Sample = try await store.loadJSON("sample.json")
            try expectEqual(loaded, Sample.one, "value")
            let found: Sample? = try await store.loadJSONIfExists("sample.json")
            try expectEqual(found, Sample.one, "value if it exists")
        },
        FileStoreCheck("a missing JSON file is nil with the call that allows it, an error otherwise") { store in
            let found: Sample? = try await store.loadJSONIfExists("missing.json")
            try expect(found == nil, "nothing should be found")
            try await expectCode(.notFound, "loadJSON") { try await store.loadJSON("missing.json", as: Sample.self) }
        },
        FileStoreCheck("a JSON file of another type is undecodable, never nil, and is kept") { store in
            try await store.save(Data("{\"name\":7}".utf8), to: "bad.json")
            let error = try await expectCode(.undecodable, "loadJSONIfExists") {
                try await store.loadJSONIfExists("bad.json", as: Sample.self)
            }
            try expect(error.underlying is DecodingError, "the decoding error should be there")
            try await store.save(Data(), to: "empty.json")
            try await expectCode(.undecodable, "loadJSON of an empty file") {
                try await store.loadJSON("empty.json", as: Sample.self)
            }
            try expectEqual(try await store.load("bad.json"), Data("{\"name\":7}".utf8), "content")
        },
        FileStoreCheck("only a missing file is reported as nil") { store in
            try await store.save(Data(), to: "dir/file")
            try await expectCode(.isDirectory, "a directory") {
                try await store.loadJSONIfExists("dir", as: Sample.self)
            }
            try await expectCode(.invalidKey(.dotComponent), "a hostile key") {
                try await store.loadJSONIfExists("../x", as: Sample.self)
            }
        },
        FileStoreCheck("a value that JSON cannot represent is not stored") { store in
            try await store.saveJSON(["x": 1.0], to: "number.json")
            try await expectCode(.unencodable, "saveJSON") {
                try await store.saveJSON(["x": Double.infinity], to: "number.json")
            }
            try expectEqual(try await store.loadJSON("number.json"), ["x": 1.0], "value")
        },
    ]
}

private struct Sample: Codable, Equatable {
    var name: String
    var numbers: [Int]

    static let one = Sample(name: "Grüße, 🌍", numbers: [1, -2, .max])
}
