#if Inspector
import Crypto
import ForgeStorage
import Foundation
import Testing

@testable import ForgeInspector

@Suite("The server of the page", .timeLimit(.minutes(10))) struct ServerTests {
    private let stores: TemporaryStores

    init() throws {
        stores = try .withOneKey()
    }

    /// Runs `body` with a server of the directory.
    private func serving(
        _ options: InspectorOptions = InspectorOptions(), timeLimit: Duration = .seconds(30),
        _ body: (ServedPage) async throws -> Void
    ) async throws {
        try await ServedPage.serving(stores.url, options, timeLimit: timeLimit, body)
    }

    private var writable: InspectorOptions {
        var options = InspectorOptions()
        options.isWritable = true
        return options
    }

    @Test("puts a token of 256 bits into the fragment of the URL")
    func token() async throws {
        try await serving { page in
            #expect(page.token.count == 43)
            #expect(page.token.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_".contains($0)) })
            try await serving { other in #expect(other.token != page.token) }
        }
    }

    @Test(
        "answers with the token, and with status 401 and no body otherwise",
        arguments: [
            nil, "", "Bearer ", "Bearer x", "Basic %", "bearer %", "Bearer %x", "%",
        ])
    func authorization(header: String?) async throws {
        try await serving { page in
            let right = try await page.get("/api/stores")
            #expect(right.status == 200)
            #expect(right.body.contains("settings"))
            for path in ["/api/stores", "/api/keys?store=settings", "/api/missing", "/missing"] {
                let wrong = try await page.request(
                    "GET", path, authorization: .some(header?.replacing("%", with: page.token)))
                #expect(wrong.status == 401, "\(path)")
                #expect(wrong.body.isEmpty)
            }
        }
    }

    @Test(
        "refuses other hosts",
        arguments: ["example.org", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:%", "", "evil:%"])
    func host(host: String) async throws {
        try await serving { page in
            for path in ["/", "/app.js", "/api/stores"] {
                let answer = try await page.request("GET", path, host: host.replacing("%", with: "\(page.port)"))
                #expect(answer.status == 403 || answer.status == 400, "\(path)")
                #expect(!answer.body.contains("settings"))
            }
            #expect(try await page.request("GET", "/api/stores", host: "localhost:\(page.port)").status == 200)
        }
    }

    @Test(
        "refuses other origins, and writes without one",
        arguments: [
            "http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:%", "http://localhost:%",
        ])
    func origin(origin: String) async throws {
        let edit = #"{"store":"settings","edits":[{"key":"new","json":"1"}]}"#
        try await serving(writable) { page in
            let other = origin.replacing("%", with: "\(page.port)")
            let answers = [
                try await page.request("GET", "/api/stores", origin: other),
                try await page.request("POST", "/api/edits", origin: other, body: edit),
                try await page.request("POST", "/api/edits", origin: nil, body: edit),
                try await page.request(
                    "POST", "/api/edits", authorization: .some(nil), origin: page.origin, body: edit),
            ]
            #expect(answers.map(\.status) == [403, 403, 403, 401])
            #expect(try FileKVStore(at: stores.place("settings"), options: .init(access: .readOnly)).keys() == ["key"])
        }
    }

    @Test("sends a strict policy and the other headers with every answer")
    func headers() async throws {
        try await serving { page in
            for path in ["/", "/style.css", "/api/stores", "/api/missing"] {
                let answer = try await page.get(path)
                let policy = try #require(answer.header("content-security-policy"))
                #expect(policy.hasPrefix("default-src 'none'; script-src 'self'; "))
                #expect(!policy.contains("unsafe") && !policy.contains("*"))
                #expect(answer.header("x-content-type-options") == "nosniff")
                #expect(answer.header("cache-control") == "no-store")
                #expect(answer.header("referrer-policy") == "no-referrer")
                #expect(answer.header("access-control-allow-origin") == nil)
            }
            #expect(
                try await page.request("GET", "/", authorization: .some(nil)).header("content-type")
                    == "text/html; charset=utf-8")
            #expect(try await page.request("POST", "/", origin: page.origin, body: "").status == 405)
            #expect(try await page.request("PUT", "/api/edits", origin: page.origin, body: "").status == 405)
        }
    }

    /// The request that edits the value that is shown.
    private func edit(_ page: ServedPage, to value: String) async throws -> String {
        let state = try await page.state(of: "key", in: "settings")
        return #"{"store":"settings","edits":[{"key":"key","state":"\#(state)","json":"\"\#(value)\""}]}"#
    }

    @Test("edits only if it is writable, and only the value that was shown")
    func edits() async throws {
        try await serving { page in
            let answer = try await page.post("/api/edits", try await edit(page, to: "new"))
            #expect(answer.status == 403)
            #expect(answer.body.contains("--write"))
        }
        try await serving(writable) { page in
            let edit = try await edit(page, to: "new")
            #expect(try await page.post("/api/edits", edit).status == 200)
            let again = try await page.post("/api/edits", edit)
            #expect(again.status == 409)
            #expect(again.body.contains("has changed"))
        }
        #expect(try stores.keyValueStore().read(KVKey<String>("key")) == "new")
    }

    @Test("shows an edit with the answer to it, and as the page's own")
    func ownEdits() async throws {
        try await serving(writable) { page in
            _ = try await page.get("/api/keys?store=settings")
            for number in 1...10 {
                let answer = try await page.post("/api/edits", try await edit(page, to: "new \(number)"))
                #expect(answer.status == 200, "\(answer.body)")
                #expect(try await page.get("/api/value?store=settings&key=key").body.contains("new \(number)"))
            }
            let changes = try await page.get("/api/changes?after=0").body.components(separatedBy: "\"isOwn\":")
            #expect(changes.filter { $0.hasPrefix("true") }.count == 10, "\(changes)")
        }
    }

    @Test("shows the names of a vault's secrets, and its sessions, only while a given key opens it")
    func vault() async throws {
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("key"))
        let vault = try VaultCrypt(at: stores.place("vault"), key: key)
        for name in ["session.user", "other"] { try vault.set("hidden", for: CryptKey<String>(key: name)) }
        let request = #"{"store":"vault"}"#
        try await serving { page in
            let answer = try await page.post("/api/unlock", request)
            #expect(answer.status == 409)
            #expect(answer.body.contains("--vault-key"))
            #expect(try await page.post("/api/unlock", #"{"store":"missing"}"#).status == 404)
            #expect(try await page.post("/api/unlock", "{}").status == 400)
        }
        var options = InspectorOptions()
        options.vaultKeys = [.init(size: .bits256)]
        try await serving(options) { page in
            let answer = try await page.post("/api/unlock", request)
            #expect(answer.status == 409)
            #expect(answer.body.contains("none of the given keys"))
        }
        options.vaultKeys.append(key)
        try await serving(options) { page in
            for (path, isUnlocked) in [("unlock", true), ("lock", false), ("unlock", true)] {
                let answer = try await page.post("/api/\(path)", request)
                #expect(answer.status == 200)
                let shown = try await page.get("/api/vault?store=vault")
                #expect(shown.status == 200)
                for body in [answer.body, shown.body] {
                    #expect(body.contains(#""count":2"#))
                    #expect(body.contains("session.user") == isUnlocked)
                    #expect(!body.contains("hidden"))
                }
                let sessions = try await page.get("/api/sessions")
                #expect(sessions.status == 200)
                #expect(sessions.body.contains("session.user") == isUnlocked)
                #expect(!sessions.body.contains("other"))
            }
            // Its first bytes still tell that it is a vault.
            let content = try Data(contentsOf: stores.place("vault"))
            try content.dropLast(1).write(to: stores.place("vault"), options: .atomic)
            let sessions = try await page.get("/api/sessions")
            #expect(sessions.status == 200)
            #expect(sessions.body.contains(#""failures":["vault: "#))
        }
    }

    @Test("lists the entries of a cache")
    func cache() async throws {
        let cache = try BoundedCache<String>(directory: stores.place("cache"), coding: .codable)
        await cache.insert("value", for: "https://example.org/a")
        try await serving { page in
            let answer = try await page.get("/api/cache?store=cache")
            #expect(answer.status == 200)
            #expect(answer.body.contains(#""count":1"#))
            #expect(try await page.get("/api/cache?store=settings").status == 404)
        }
    }

    @Test("tells that another process has opened a store, and does not name its key")
    func inUse() {
        let error = KVStoreError(.unavailable(.inUse(processID: 7)), .batch, key: "name")
        let reason = PageFailure(error).reason
        #expect(reason.hasPrefix("refused: another process has opened this store for itself"))
        #expect(reason.hasSuffix("; nothing was stored") && !reason.contains("name"))
    }

    @Test("tells a space from a plus sign in a key, as forms encode them")
    func spaces() async throws {
        let store = try stores.keyValueStore()
        try store.set(KVKey<String>("a b"), value: "space")
        try store.set(KVKey<String>("a+b"), value: "plus")
        try await serving { page in
            let space = try await page.get("/api/value?store=settings&key=a+b")
            #expect(space.body.contains("space"))
            let plus = try await page.get("/api/value?store=settings&key=a%2Bb")
            #expect(plus.body.contains("plus"))
        }
    }

    @Test("answers a wait for changes when there is one")
    func changes() async throws {
        try await serving { page in
            _ = try await page.get("/api/keys?store=settings")
            let store = try stores.keyValueStore()
            try store.set(KVKey<String>("live"), value: "x")
            let answer = try await page.get("/api/changes?after=0")
            #expect(answer.status == 200)
            #expect(answer.body.contains("\"live\""))
        }
    }

    @Test(
        "answers requests that make no sense with a status and a reason",
        arguments: [
            ("/api/keys?store=missing", 404), ("/api/keys?store=settings&offset=x", 400),
            ("/api/keys?store=settings&offset=-1", 400), ("/api/value?store=settings&key=missing", 404),
            ("/api/file?path=../x", 400), ("/api/file?path=missing", 404), ("/api/vault?store=x", 404), ("/api/x", 404),
            ("/api/keys?store=settings&delimiter=%C3%A9", 400), ("/api/changes?after=x", 400),
        ])
    func failures(path: String, status: Int) async throws {
        try await serving { page in
            let answer = try await page.get(path)
            #expect(answer.status == status)
            #expect(answer.body.hasPrefix(#"{"error":""#))
        }
    }

    @Test("throws if the port is in use")
    func portInUse() async throws {
        try await serving { page in
            let second = try Inspector(stores.url)
            await #expect(throws: (any Error).self) { try await second.serve(port: page.port) { _ in } }
        }
    }
}
#endif
