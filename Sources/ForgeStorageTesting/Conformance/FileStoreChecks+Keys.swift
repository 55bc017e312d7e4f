import ForgeFileStore
import ForgeFileSystem
import Foundation

extension ConformanceChecks {
    static let fileKeys: [FileStoreCheck] = [
        FileStoreCheck("hostile keys are refused with their reason, and nothing is stored") { store in
            let cases: [(String, InvalidKey.Reason)] = [
                ("", .empty), ("../x", .dotComponent), ("a/../x", .dotComponent), ("./x", .dotComponent),
                ("/x", .absolute), ("a//x", .emptyComponent), ("a/", .emptyComponent), ("a\0b", .containsNUL),
                ("a\nb", .containsControlCharacter), ("a\\b", .containsBackslash),
                (String(repeating: "a", count: 256), .componentTooLong),
                (String(repeating: "a", count: 1_025), .tooLong),
                (Array(repeating: "a", count: 33).joined(separator: "/"), .tooDeep), ("#tmp-x", .reserved),
                ("#move-x", .reserved),
                ("a/#lock", .reserved),
            ]
            for (key, reason) in cases {
                try await expectCode(.invalidKey(reason), "save to \(key.debugDescription)") {
                    try await store.save(Data("x".utf8), to: key)
                }
            }
            try expectEqual(try await store.list(recursive: true), [], "what is stored")
        },
        FileStoreCheck("every call refuses a key that leads out of the store") { store in
            let key = "../outside"
            let code = FileStoreError.Code.invalidKey(.dotComponent)
            try await expectCode(code, "save") { try await store.save(Data(), to: key) }
            try await expectCode(code, "exclusive save") { try await store.save(Data(), to: key, overwrite: false) }
            try await expectCode(code, "load") { try await store.load(key) }
            try await expectCode(code, "info") { try await store.info(key) }
            try await expectCode(code, "size") { try await store.size(key) }
            try await expectCode(code, "url") { try await store.url(for: key) }
            try await expectCode(code, "list") { try await store.list(in: key) }
            try await expectCode(code, "recursive list") { try await store.list(in: key, recursive: true) }
            try await expectCode(code, "delete") { try await store.delete(key) }
            try await expectCode(code, "deleteDirectory") { try await store.deleteDirectory(key) }
            try await expectCode(code, "createDirectory") { try await store.createDirectory(key) }
            try await withSource(Data("x".utf8)) { source in
                try await expectCode(code, "copy") { try await store.copy(from: source, to: key) }
                try await expectCode(code, "move") { try await store.move(from: source, to: key) }
            }
            try expect(!(await store.exists(key)), "a key that leads out should not exist")
        },
        FileStoreCheck("unusual but valid keys are ordinary names") { store in
            let keys = [
                "...", ".hidden", "a b", " ", "x.", "~", "%2e%2e/x", "C:", "con", "-rf", "a:b", "\u{202e}x",
                "caf\u{e9}",
                "\u{1f600}/\u{1f4be}", "#1", "*?", String(repeating: "€", count: 85),
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
