import EtcdServers
import Foundation
import S3Servers
import Testing

/// `Examples/Fleet` as processes that share a real etcd, and moto as S3.
@Suite(
    "A fleet of two servers", .enabled(if: EtcdServer.isInstalled && MotoServer.isInstalled), .timeLimit(.minutes(10)))
struct FleetTests {
    @Test("shares sessions, settings and avatars; one is killed, the other goes on, and the first comes back")
    func sharing() async throws {
        let (etcd, s3) = (try await EtcdServer.started(), try await MotoServer.shared())
        var a = try await FleetProcess.started(etcd, s3)
        let b = try await FleetProcess.started(etcd, s3)
        let image = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })

        let token = try await a.signIn("Ada")
        #expect(try await b.greeting(token) == "Hello, Ada")
        #expect(try await b.status("GET", "greeting", token: "unknown") == 401)

        #expect(try await a.status("PUT", "greeting", token: token, body: Data("Welcome".utf8)) == 204)
        #expect(try await a.greeting(token) == "Welcome, Ada", "a server sees its own change at once")
        try await b.waitForGreeting("Welcome, Ada", token, within: .seconds(1))

        #expect(try await b.status("GET", "avatar", token: token) == 404)
        #expect(try await a.status("PUT", "avatar", token: token, body: image) == 204)
        #expect(try await b.request("GET", "avatar", token: token).body == image)

        await a.kill()
        await #expect(throws: (any Error).self) { try await a.greeting(token) }
        #expect(try await b.greeting(token) == "Welcome, Ada")
        #expect(try await b.request("GET", "avatar", token: token).body == image)
        #expect(try await b.status("PUT", "greeting", token: token, body: Data("Hi".utf8)) == 204)
        let other = try await b.signIn("Grace")
        #expect(try await b.status("DELETE", "sessions", token: token) == 204)
        #expect(try await b.status("GET", "health") == 200)

        a = try await FleetProcess.started(etcd, s3)
        #expect(try await a.greeting(other) == "Hi, Grace")
        #expect(
            try await a.status("GET", "greeting", token: token) == 401, "the session was cleared at the other server")
        #expect(try await a.status("PUT", "greeting", token: other, body: Data("Again".utf8)) == 204)
        try await b.waitForGreeting("Again, Grace", other, within: .seconds(1))
        let returned = try await a.signIn("Ada")
        #expect(try await a.request("GET", "avatar", token: returned).body == image)
    }

    @Test("starts without etcd from its copy of the settings, says so, and catches up")
    func withoutEtcd() async throws {
        let (etcd, s3) = (try await EtcdServer.started(), try await MotoServer.shared())
        let copy = FileManager.default.temporaryDirectory.appending(path: "fleet-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: copy) } catch {} }
        let first = try await FleetProcess.started(etcd, s3, "--settings-copy", copy.path)
        let token = try await first.signIn("Ada")
        #expect(try await first.status("PUT", "greeting", token: token, body: Data("Welcome".utf8)) == 204)
        await first.kill()

        try await etcd.stop()
        await #expect(throws: FleetProcess.NotStarted.self) { _ = try await FleetProcess.started(etcd, s3) }
        let second = try await FleetProcess.started(etcd, s3, "--settings-copy", copy.path)
        #expect(try await second.status("GET", "health") == 503)
        #expect(try await second.status("GET", "greeting", token: token) == 503, "there is no session without etcd")

        try await etcd.start()
        while try await second.status("GET", "health") != 200 { try await Task.sleep(for: .milliseconds(50)) }
        #expect(try await second.greeting(token) == "Welcome, Ada")
    }

    @Test("stops at SIGTERM without an error")
    func stopping() async throws {
        let server = try await FleetProcess.started(try await EtcdServer.shared(), try await MotoServer.shared())
        #expect(try await server.status("GET", "health") == 200)
        #expect(await server.stop() == 0)
    }
}
