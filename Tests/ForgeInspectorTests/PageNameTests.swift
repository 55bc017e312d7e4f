#if Inspector
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Testing

@testable import ForgeInspector

/// Names that other programs take for one another, in the requests and answers of the page.
@Suite("names on the page", .timeLimit(.minutes(10))) struct PageNameTests {
    private let stores: TemporaryStores

    init() throws {
        stores = try TemporaryStores()
    }

    private func object(_ answer: ServedPage.Answer) throws -> [String: Any] {
        #expect(answer.status == 200, "\(answer.body)")
        return try #require(JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any])
    }

    /// The rows of a list, each with its `id`, or with its name if it has none, and the name that is shown.
    private func rows(_ answer: ServedPage.Answer, in member: String) throws -> [(id: String, name: String)] {
        let rows = try #require(try object(answer)[member] as? [[String: Any]])
        return try rows.map { row in
            let name = try #require(row["name"] as? String)
            return (row["id"] as? String ?? name, name)
        }
    }

    /// A text as a form field, with every byte escaped.
    private func field(_ text: String) -> String {
        text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private func add(_ path: POSIXPath, _ key: String, _ value: String) throws {
        let directory = try POSIXPath(stores.url).appending(path)
        let store = try FileKVStore(at: URL(directory))
        try store.set(KVKey<String>(key), value: value)
        try store.close()
    }

    private var writable: InspectorOptions {
        var options = InspectorOptions()
        options.isWritable = true
        return options
    }

    @Test("a leading U+FEFF belongs to a name: of a store, a key, a prefix and a file")
    func byteOrderMarks() async throws {
        try add("b", "k", "plain")
        try add("\u{FEFF}b", "k", "marked")
        try add("b", "x", "x-plain")
        try add("b", "\u{FEFF}x", "x-marked")
        try await DiskFileStore(root: stores.place("files")).save(Data("f-plain".utf8), to: "f")
        let directory = try POSIXPath(stores.url)
        try SystemFileSystem().write(Data("f-marked".utf8), to: URL(directory.appending("files/\u{FEFF}f")))
        let mark = "%EF%BB%BF"
        try await ServedPage.serving(stores.url, writable) { page in
            let id = try #require(
                try await rows(page.get("/api/stores"), in: "stores").first {
                    $0.name.utf8.count > 1 && $0.name.utf8.last == UInt8(ascii: "b")
                }
            ).id
            #expect(try await page.get("/api/value?store=\(field(id))&key=k").body.contains("marked"))
            #expect(try await page.get("/api/value?store=b&key=k").body.contains("plain"))
            #expect(try await page.get("/api/value?store=b&key=\(mark)x").body.contains("x-marked"))
            #expect(try await page.get("/api/value?store=b&key=x").body.contains("x-plain"))
            let keys = try await page.get("/api/keys?store=b&prefix=\(mark)&delimiter=/").body
            #expect(keys.contains("x-marked") && !keys.contains("x-plain"), "\(keys)")
            #expect(try object(await page.get("/api/file?path=files/\(mark)f"))["text"] as? String == "f-marked")
            // The mark as the page sends it, unescaped, and escaped.
            for key in ["\u{FEFF}x", "\\ufeffx"] {
                let state = try await page.state(of: "\(mark)x", in: "b")
                let edit = #"{"store":"b","edits":[{"key":"\#(key)","state":"\#(state)","json":"\"new\""}]}"#
                let answer = try await page.post("/api/edits", edit)
                #expect(answer.status == 200, "\(key): \(answer.body)")
            }
            #expect(try await page.get("/api/value?store=b&key=x").body.contains("x-plain"))
            let state = try await page.state(of: "k", in: field(id))
            let edit = #"{"store":"\#(id)","edits":[{"key":"k","state":"\#(state)","json":"\"edited\""}]}"#
            #expect(try await page.post("/api/edits", edit).status == 200)
            #expect(try await page.get("/api/value?store=b&key=k").body.contains("plain"))
        }
    }

    @Test(
        "a request whose escapes are no UTF-8 is refused, and is not one for the empty name",
        arguments: ["key=%FF", "key=%C3", "key=%ED%A0%80", "key=%", "key=%4", "key=%zz", "%FF=", "key=k&text=%FF"])
    func invalidEscapes(parameters: String) async throws {
        try add("b", "", "of the empty name")
        try await ServedPage.serving(stores.url) { page in
            let answer = try await page.get("/api/value?store=b&\(parameters)")
            #expect(answer.status == 400, "\(answer.body)")
            #expect(!answer.body.contains("of the empty name"))
        }
    }

    @Test("stores with different names have different identifiers and shown names, which lead to their own values")
    func storesOfEscapedNames() async throws {
        let names: [POSIXPath] = [
            "a\nb", "a\\x0ab", "a\\\\x0ab", POSIXPath([0x64, 0xFF]), "d\\xff", "d\u{FFFD}", "é", "e\u{301}", "a%0Ab",
            "a\u{202E}", "a", "a\u{200B}", "a\u{FEFF}",
        ]
        for (number, name) in names.enumerated() { try add(name, "k", "value-\(number);") }
        try await ServedPage.serving(stores.url, writable) { page in
            let found = try await rows(page.get("/api/stores"), in: "stores")
            #expect(found.count == names.count)
            #expect(Set(found.map { POSIXPath($0.id) }).count == names.count)
            #expect(Set(found.map { POSIXPath($0.name) }).count == names.count, "\(found.map(\.name))")
            var values: Set<String> = []
            for store in found {
                let body = try await page.get("/api/value?store=\(field(store.id))&key=k").body
                values.insert(
                    try #require(body.split(separator: "value-").last.map { String($0.prefix { $0 != ";" }) }))
                let state = try await page.state(of: "k", in: field(store.id))
                let edit: [String: Any] = [
                    "store": store.id, "edits": [["key": "k", "state": state, "json": "\"edited\""]],
                ]
                let text = String(decoding: try JSONSerialization.data(withJSONObject: edit), as: UTF8.self)
                #expect(try await page.post("/api/edits", text).status == 200, "\(store)")
            }
            #expect(values == Set(names.indices.map { "\($0)" }))
        }
    }

    @Test("files with different names are shown under different names, and lead to their own content")
    func filesOfEscapedNames() async throws {
        let names: [POSIXPath] = [
            "a\nb", "a\\x0ab", POSIXPath([0x64, 0xFF]), "d\\xff", "d\u{FFFD}", "é", "e\u{301}", "a%0Ab", "%", "a b",
            "+",
        ]
        let system = SystemFileSystem()
        let directory = try POSIXPath(stores.url).appending("d")
        try system.createDirectory(directory)
        for (number, name) in names.enumerated() {
            try system.write(Data("content-\(number)".utf8), to: URL(directory.appending(name)))
        }
        try await ServedPage.serving(stores.url) { page in
            let found = try await rows(page.get("/api/files?path=d"), in: "rows")
            #expect(Set(found.map { POSIXPath($0.name) }).count == names.count, "\(found.map(\.name))")
            var contents: Set<String> = []
            for file in found {
                let answer = try await page.get("/api/file?path=d/\(field(file.id))")
                contents.insert(try object(answer)["text"] as? String ?? "")
            }
            #expect(contents == Set(names.indices.map { "content-\($0)" }))
        }
    }

    @Test("names that Characters and bytes divide differently are those of keys, files and secrets, and lead to them")
    func unevenNames() async throws {
        let names = Array(HostileKeys.unevenNames.prefix(32))
        let store = try FileKVStore(at: stores.place("kv"))
        for (number, name) in names.enumerated() { try store.set(KVKey<String>(name), value: "value-\(number);") }
        try store.close()
        let files = DiskFileStore(root: stores.place("files"))
        for (number, name) in names.enumerated() { try await files.save(Data("content-\(number)".utf8), to: name) }
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("vaults/key"))
        let vault = try VaultCrypt(at: stores.place("vaults/v"), key: key)
        for name in names { try vault.set("secret", for: CryptKey<String>(key: name)) }
        var options = writable
        options.vaultKeys = [key]
        let all = Set(names.map { POSIXPath($0) })
        try await ServedPage.serving(stores.url, options) { page in
            let list = try object(await page.get("/api/keys?store=kv"))
            let rows = try #require(list["rows"] as? [[String: Any]])
            let keys = rows.compactMap { $0["key"] as? String }
            #expect(keys.count == names.count && Set(keys.map { POSIXPath($0) }) == all)
            #expect(try await page.post("/api/unlock", #"{"store":"vaults/v"}"#).status == 200)
            let secrets = try object(await page.get("/api/vault?store=vaults/v"))["names"] as? [String]
            #expect(Set((secrets ?? []).map { POSIXPath($0) }) == all)
            for (number, name) in names.enumerated() {
                let value = try await page.get("/api/value?store=kv&key=\(field(name))")
                #expect(value.body.contains("value-\(number);"), "\(name)")
                // Percent-encoded as a path, and again as a field.
                let path = field("files/" + POSIXPath(name).percentEncoded)
                let file = try object(await page.get("/api/file?path=\(path)"))
                #expect(file["text"] as? String == "content-\(number)", "\(name)")
            }
            for name in ["\u{e9}", "\u{600}/x"] {
                let state = try await page.state(of: field(name), in: "kv")
                let edit: [String: Any] = [
                    "store": "kv", "edits": [["key": name, "state": state, "json": "\"edited\""]],
                ]
                let text = String(decoding: try JSONSerialization.data(withJSONObject: edit), as: UTF8.self)
                #expect(try await page.post("/api/edits", text).status == 200, "\(name)")
            }
        }
        let edited = try FileKVStore(at: stores.place("kv"), options: .init(access: .readOnly))
        #expect(try edited.keys().count == names.count)
        let changed = try names.filter { try edited.read(KVKey<String>($0)) == "edited" }.map { POSIXPath($0) }
        #expect(changed == ["\u{e9}", "\u{600}/x"])
    }

    @Test("a file of a store is shown if its name begins with # and is a valid key")
    func numberSigns() async throws {
        let files = DiskFileStore(root: stores.place("files"))
        for name in ["#note", "#forge:x", "sub/#note", "#", "#reserve"] {
            try await files.save(Data("content".utf8), to: name)
        }
        try add("kv", "k", "v")
        try Data("hidden".utf8).write(to: stores.place("#lock-x"))
        try await ServedPage.serving(stores.url) { page in
            for name in ["#note", "#forge:x", "sub/#note", "#", "#reserve"] {
                let path = name.split(separator: "/").map { field(String($0)) }.joined(separator: "/")
                let file = try object(await page.get("/api/file?path=files/\(path)"))
                #expect(file["content"] as? String == "plain", "\(name)")
                #expect(file["text"] as? String == "content", "\(name)")
            }
            let own = try FileManager.default.contentsOfDirectory(atPath: stores.place("kv").path)
                .filter { $0.hasPrefix("#") }
            #expect(!own.isEmpty)
            for path in own.map({ "kv/" + field($0) }) + ["%23lock-x"] {
                #expect(try object(await page.get("/api/file?path=\(path)"))["content"] as? String == "own", "\(path)")
            }
        }
    }
}
#endif
