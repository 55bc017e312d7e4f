#if Inspector
import ForgeStorage
import Foundation
import Testing

@testable import ForgeInspector

/// Malformed requests and slow clients.
@Suite("The server of the page, attacked", .timeLimit(.minutes(10))) struct HostileRequestTests {
    private let stores: TemporaryStores

    init() throws {
        stores = try .withOneKey()
    }

    private func message(_ line: String, _ fields: [String], token: String) -> [UInt8] {
        let lines = [line] + fields + ["Authorization: Bearer \(token)", "Connection: close", "", ""]
        return Array(lines.joined(separator: "\r\n").utf8)
    }

    private func isAlive(_ page: ServedPage) async throws -> Bool { try await page.get("/api/stores").status == 200 }

    @Test(
        "goes on after a request line that makes no sense",
        arguments: [
            "GET x://h HTTP/1.1", "GET http://[ HTTP/1.1", "GET http://a:b:c HTTP/1.1", "GET http:// HTTP/1.1",
            "GET http://x HTTP/1.1", "GET http://[::1 HTTP/1.1", "GET http://x: HTTP/1.1", "GET http://x? HTTP/1.1",
            "GET * HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT a:1 HTTP/1.1", "GET //evil/api/stores HTTP/1.1",
            "GET /% HTTP/1.1", "GET /api/keys?store=%ff%00&%=%&& HTTP/1.1", "GET /api/file?path=%00 HTTP/1.1",
            "GET /api/keys?store=settings&offset=9223372036854775807&limit=9223372036854775807 HTTP/1.1",
            "GET /api/file?path=x&offset=9223372036854775807 HTTP/1.1", "GET  HTTP/1.1", "GET / HTTP/9.9", "x",
            "GET /api/changes?after=9223372036854775807&wait=0 HTTP/1.1",
            "GET /api/records?store=settings&offset=9223372036854775807 HTTP/1.1",
        ])
    func requestLine(line: String) async throws {
        try await ServedPage.serving(stores.url, timeLimit: .seconds(2)) { page in
            let answer = try await page.raw(message(line, ["Host: 127.0.0.1:\(page.port)"], token: page.token))
            #expect(answer.status != 500)
            #expect(try await isAlive(page))
        }
    }

    @Test("ends a request whose head is too large", arguments: [(100_000, 1), (1, 100_000), (10, 20_000), (20_000, 2)])
    func largeHead(length: Int, count: Int) async throws {
        try await ServedPage.serving(stores.url, timeLimit: .seconds(5)) { page in
            let target = count == 1 ? "/" + String(repeating: "x", count: length) : "/"
            let fields = (1..<count).map { "x\($0): \(String(repeating: "y", count: length))" }
            let host = "Host: 127.0.0.1:\(page.port)"
            let answer = try await page.raw(message("GET \(target) HTTP/1.1", [host] + fields, token: page.token))
            #expect(![200, 500].contains(answer.status))
            #expect(try await isAlive(page))
        }
    }

    @Test("refuses a second host", arguments: ["127.0.0.1:%", "example.org"])
    func hosts(other: String) async throws {
        try await ServedPage.serving(stores.url) { page in
            let own = "127.0.0.1:\(page.port)"
            for hosts in [[own, other], [other, own]] {
                let fields = hosts.map { "Host: \($0.replacing("%", with: "\(page.port)"))" }
                let answer = try await page.raw(message("GET /api/stores HTTP/1.1", fields, token: page.token))
                #expect([400, 403].contains(answer.status))
            }
        }
    }

    @Test("refuses a body of more than 4 MiB")
    func largeBody() async throws {
        var options = InspectorOptions()
        options.isWritable = true
        try await ServedPage.serving(stores.url, options) { page in
            let answer = try await page.post("/api/edits", String(repeating: " ", count: 5 << 20))
            #expect(answer.status == 413)
            #expect(try await isAlive(page))
        }
    }

    /// The number of times that `text` can be sent after `head` until the server closes the connection; at most 1,000.
    private func sendsUntilClosed(
        _ port: Int, _ head: String, then text: String, isWaiting: Bool,
        pause: @escaping @Sendable (Int) -> TimeInterval
    ) async throws -> Int {
        try await onThread {
            let connection = try RawConnection(port: port)
            connection.send(Array(head.utf8))
            var count = 0
            while count < 1000, connection.send(Array(text.utf8), isWaiting: isWaiting) {
                Thread.sleep(forTimeInterval: pause(count))
                count += 1
            }
            return count
        }
    }

    /// The heads of requests that are not completed: with a token and without, and half a head.
    private static let unfinished = [
        ["GET / HTTP/1.1", "Host: 127.0.0.1:%", "x:"],
        ["POST /api/edits HTTP/1.1", "Host: 127.0.0.1:%", "Content-Length: 100000", "", ""],
        [
            "POST /api/edits HTTP/1.1", "Host: 127.0.0.1:%", "Origin: http://127.0.0.1:%", "Authorization: Bearer &",
            "Content-Length: 100000", "", "",
        ],
        ["GET /app.js HTTP/1.1", "Host: 127.0.0.1:%", "Content-Length: 100000", "", ""],
    ]

    @Test("ends a request that comes byte by byte", arguments: unfinished)
    func slowRequest(lines: [String]) async throws {
        var options = InspectorOptions()
        options.isWritable = true
        try await ServedPage.serving(stores.url, options, timeLimit: .seconds(3)) { page in
            let head = lines.joined(separator: "\r\n")
                .replacing("%", with: "\(page.port)").replacing("&", with: page.token)
            // A byte every 50 ms, each long before the limit.
            let count = try await sendsUntilClosed(page.port, head, then: "x", isWaiting: true) { _ in 0.05 }
            #expect(count < 1000)
            #expect(try await isAlive(page))
        }
    }

    @Test("ends a connection whose client does not read")
    func slowReader() async throws {
        try await ServedPage.serving(stores.url, timeLimit: .seconds(1)) { page in
            let request = "GET /app.js HTTP/1.1\r\nHost: 127.0.0.1:\(page.port)\r\n\r\n"
            let count = try await sendsUntilClosed(page.port, "", then: request, isWaiting: false) { count in
                count < 500 ? 0.001 : 0.1
            }
            #expect(count < 1000)
            #expect(try await isAlive(page))
        }
    }

    @Test("answers when idle connections have used up their number")
    func manyConnections() async throws {
        try await ServedPage.serving(stores.url, timeLimit: .seconds(2)) { page in
            let idle = try (0..<2 * Inspector.connectionLimit).map { _ in try RawConnection(port: page.port) }
            let start = ContinuousClock.now
            #expect(try await isAlive(page))
            // This connection had to wait until others were idle for too long.
            #expect(ContinuousClock.now - start > .seconds(1))
            withExtendedLifetime(idle) {}
        }
    }

    @Test("finds what has changed once a page asks, however long it was idle")
    func wakes() async throws {
        try await ServedPage.serving(stores.url) { page in
            try stores.keyValueStore("later").close()
            var body = ""
            while !body.contains("later") { body = try await page.get("/api/stores").body }
        }
    }

    @Test("answers soon when connections that send nothing have used up their number, whatever the limit of a request")
    func halfOpenConnections() async throws {
        try await ServedPage.serving(stores.url, timeLimit: .seconds(60)) { page in
            let idle = try (0..<Inspector.connectionLimit + 6).map { _ in try RawConnection(port: page.port) }
            let start = ContinuousClock.now
            #expect(try await isAlive(page))
            #expect(ContinuousClock.now - start < .seconds(20))
            withExtendedLifetime(idle) {}
        }
    }

    @Test("keeps a connection that waits for a change longer than the limit")
    func longWait() async throws {
        try await ServedPage.serving(stores.url, timeLimit: .seconds(1)) { page in
            let answer = try await page.get("/api/changes?after=0&wait=3")
            #expect(answer.status == 200)
        }
    }

    @Test(
        "shows keys of any characters as they are",
        arguments: [
            "<img src=x onerror=alert(1)>", "a\nb", "\u{202e}txt", "\"';--", "%00",
            String(repeating: "k", count: 1024),
        ])
    func keys(key: String) async throws {
        let store = try stores.keyValueStore()
        try store.set(KVKey<String>(key), value: key)
        try store.close()
        try await ServedPage.serving(stores.url) { page in
            let list = try await page.get("/api/keys?store=settings")
            #expect(list.header("content-type") == "application/json")
            struct Keys: Decodable {
                struct Row: Decodable { var key: String }
                var rows: [Row]
            }
            let rows = try JSONDecoder().decode(Keys.self, from: Data(list.body.utf8)).rows
            #expect(rows.contains { Array($0.key.utf8) == Array(key.utf8) })
            let name = key.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            #expect(try await page.get("/api/value?store=settings&key=\(name)").status == 200)
        }
    }

    @Test("answers for a store that vanishes while it is shown, and lists the sessions of the others")
    func vanishing() async throws {
        let store = try stores.keyValueStore("other")
        try store.set(KVKey<String>("session.user"), value: "x")
        try store.close()
        try FileManager.default.createDirectory(at: stores.place("broken"), withIntermediateDirectories: true)
        try Data("FORGEKV\n".utf8 + [UInt8](repeating: 1, count: 99)).write(to: stores.place("broken/log"))
        try FileManager.default.copyItem(
            at: stores.place("settings/#store-key-value"), to: stores.place("broken/#store-key-value"))
        try await ServedPage.serving(stores.url) { page in
            #expect(try await page.get("/api/keys?store=settings").status == 200)
            try Data("FORGEKV\n".utf8 + [UInt8](repeating: 1, count: 99)).write(to: stores.place("settings/log"))
            let sessions = try await page.get("/api/sessions")
            #expect(sessions.status == 200 && sessions.body.contains("session.user"))
            #expect(sessions.body.contains("broken: "))
            try FileManager.default.removeItem(at: stores.place("settings"))
            for path in ["/api/keys", "/api/log", "/api/records", "/api/value"] {
                #expect([200, 404].contains(try await page.get(path + "?store=settings&key=key").status), "\(path)")
            }
        }
    }
}
#endif
