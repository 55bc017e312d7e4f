#if Etcd
import EtcdServers
import ForgeEtcd
import ForgeStorage
import Foundation
import Testing

/// A part of the shared server, and a directory.
private struct Fixture: CommandServer {
    let server: EtcdServer
    let scratch: Scratch
    let prefix = "copy-\(UUID().uuidString)"
    let environment = ["FORGE_DEADLINE": "60"]

    init(_ server: EtcdServer) throws {
        self.server = server
        scratch = try Scratch()
    }

    init() async throws { try self.init(await EtcdServer.shared()) }

    func url(_ name: String = "a") -> String { "etcd://127.0.0.1:\(server.port)/\(prefix)/\(name)" }

    func store(_ name: String = "a") throws -> EtcdKVStore {
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.prefix = "\(prefix)/\(name)/"
        configuration.deadline = .seconds(60)
        return try EtcdKVStore(configuration)
    }

    /// The encoded values of a part of the server by the bytes of their names.
    func remote(_ name: String = "a") async throws -> [[UInt8]: [UInt8]] {
        let page = try await store(name).entries(prefix: "", after: nil, limit: 100_000, at: nil)
        return Dictionary(uniqueKeysWithValues: page.entries.map { (Array($0.name.utf8), $0.entry.bytes) })
    }

    /// The encoded values of a store in the directory.
    func local(_ name: String) throws -> [[UInt8]: [UInt8]] {
        let store = try FileKVStore(
            at: scratch.url.appending(path: name), options: FileKVStore.Options(access: .readOnly))
        return Dictionary(uniqueKeysWithValues: try store.snapshot().map { (Array($0.name.utf8), $0.entry.bytes) })
    }

    func fill(_ name: String = "kv", count: Int = 0) throws {
        let store = try FileKVStore(at: scratch.url.appending(path: name))
        try store.set(KVKey<String>("name"), value: "dusk")
        try store.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 1_000_000.125))
        try store.setRawValue([0xFF, 0x00], named: "foreign")
        // Equal as texts, not as keys.
        try store.set(KVKey<Int>("e\u{301}"), value: 1)
        try store.set(KVKey<Int>("\u{E9}"), value: 2)
        for number in 0..<count {
            try store.set(KVKey<String>("k\(number)"), value: String(repeating: "\(number) ", count: 100))
        }
        try store.close()
    }
}

@Suite("copy with etcd", .enabled(if: EtcdServer.isInstalled), .timeLimit(.minutes(10)))
struct EtcdTransferTests {
    @Test("values survive a copy to etcd, within it, and back, byte for byte, and are verified")
    func bothWays() async throws {
        let fixture = try await Fixture()
        try fixture.fill(count: 300)
        let kv = "kv:\(fixture.scratch.path("kv"))"
        for (from, to) in [
            (kv, fixture.url()), (fixture.url(), fixture.url("b")),
            (fixture.url("b"), "json:\(fixture.scratch.path("lines"))"),
            ("json:\(fixture.scratch.path("lines"))", fixture.url("c")),
            (fixture.url("c"), "kv:\(fixture.scratch.path("back"))"),
        ] {
            let run = try await fixture.forge("copy", from, to, "--verify")
            #expect(run.status == 0, "\(run.errors)")
            #expect(
                run.output.hasPrefix("305 copied") && run.output.hasSuffix("0 equal, 305 verified\n"), "\(run.output)")
        }
        let expected = try fixture.local("kv")
        #expect(expected.count == 305)
        #expect(try fixture.local("back") == expected)
        let again = try await fixture.forge("copy", kv, fixture.url())
        #expect(again.output == "0 copied (0 B), 305 equal\n", "\(again.output)")
    }

    @Test("only what differs is written, and --delete removes what the source does not have, up to the maximum")
    func differences() async throws {
        let fixture = try await Fixture()
        try fixture.fill()
        let words = ["copy", "kv:\(fixture.scratch.path("kv"))", fixture.url()]
        #expect(try await ForgeRun(words, fixture.environment).ended().status == 0)
        let store = try fixture.store()
        let before = try await store.entry(named: "name")
        try await store.set(KVKey<Int>("date"), value: 7)
        for number in 0..<200 { try await store.set(KVKey<Int>("old\(number)"), value: number) }

        let dry = try await ForgeRun(words + ["--delete", "--max-delete", "200", "--dry-run"], [:]).ended()
        #expect(dry.output.hasSuffix("1 to copy (12 B), 4 equal, 200 to delete\n"), "\(dry.lines.last ?? "")")
        let refused = try await ForgeRun(words + ["--delete"], [:]).ended()
        #expect(refused.status == 2 && refused.errors.contains("nothing was deleted: 200 keys"), "\(refused.errors)")
        #expect(try await fixture.remote().count == 205)
        let run = try await ForgeRun(words + ["--delete", "--max-delete", "200"], fixture.environment).ended()
        #expect(run.status == 0, "\(run.errors)")
        #expect(try await fixture.remote() == fixture.local("kv"))
        #expect(try await store.entry(named: "name") == before)
    }

    @Test("a value that ends with a lease is written anew, and stays")
    func leases() async throws {
        let fixture = try await Fixture()
        try fixture.fill()
        let words = ["copy", "kv:\(fixture.scratch.path("kv"))", fixture.url(), "--verify"]
        #expect(try await ForgeRun(words, fixture.environment).ended().status == 0)
        let gateway = Gateway(fixture.server)
        let answer = try await gateway.post("/v3/lease/grant", #"{"TTL":"600"}"#)
        let lease = try #require(
            (JSONSerialization.jsonObject(with: Data(answer.utf8)) as? [String: Any])?["ID"] as? String)
        let key = Data("\(fixture.prefix)/a/name".utf8).base64EncodedString()
        let value = Data(try #require(try fixture.local("kv")[Array("name".utf8)])).base64EncodedString()
        try await gateway.post("/v3/kv/put", #"{"key":"\#(key)","value":"\#(value)","lease":"\#(lease)"}"#)
        let run = try await ForgeRun(words, fixture.environment).ended()
        #expect(run.status == 0 && run.output.hasPrefix("1 copied ("), "\(run)")
        #expect(run.output.hasSuffix(", 4 equal, 5 verified\n"), "\(run.output)")
        try await gateway.post("/v3/lease/revoke", #"{"ID":"\#(lease)"}"#)
        #expect(try await fixture.remote() == fixture.local("kv"))
        let again = try await ForgeRun(words, fixture.environment).ended()
        #expect(again.output == "0 copied (0 B), 5 equal, 5 verified\n", "\(again.output)")
    }

    @Test("a value that the server refuses is listed, and the others are copied")
    func tooLarge() async throws {
        let fixture = try await Fixture()
        try fixture.fill()
        let store = try FileKVStore(at: fixture.scratch.url.appending(path: "kv"))
        try store.setRawValue([UInt8](repeating: 7, count: 2_000_000), named: "large")
        try store.close()
        let run = try await fixture.forge("copy", "kv:\(fixture.scratch.path("kv"))", fixture.url())
        #expect(run.status == 2, "\(run.errors)")
        #expect(run.lines.count == 2 && run.lines[0].hasPrefix("fail  kv:"), "\(run.output)")
        #expect(run.lines[0].contains("too large"), "\(run.output)")
        #expect(try await fixture.remote().count == 5)
    }

    @Test("a copy that is killed or interrupted is continued by the same command", arguments: [SIGKILL, SIGINT])
    func continued(signal: Int32) async throws {
        let fixture = try await Fixture()
        try fixture.fill(count: 20_000)
        let kv = "kv:\(fixture.scratch.path("kv"))"
        let run = try fixture.start("copy", kv, fixture.url())
        let store = try fixture.store()
        #expect(try await eventually { try await !store.keys(prefix: "", after: nil, limit: 1).names.isEmpty })
        run.send(signal)
        let ended = try await run.ended()
        #expect(ended.endedBySignal == (signal == SIGKILL))
        if signal == SIGINT {
            #expect(ended.status == 130)
            #expect(ended.errors == "Error: interrupted\n")
        }
        let done = try await fixture.remote()
        #expect(!done.isEmpty && done.count < 20_005, "\(done.count)")
        let rest = try await fixture.forge("copy", kv, fixture.url(), "--verify")
        #expect(rest.status == 0, "\(rest.errors)")
        #expect(rest.output.contains("\(done.count) equal, 20005 verified"), "\(rest.output)")
        #expect(try await fixture.remote().count == 20_005)
    }

    @Test("control-C ends a copy that waits for the server")
    func interruptedWait() async throws {
        let server = try await EtcdServer.started()
        let fixture = try Fixture(server)
        try fixture.fill()
        try await server.stop()
        let start = ContinuousClock.now
        let run = try fixture.start("copy", "kv:\(fixture.scratch.path("kv"))", fixture.url())
        try await Task.sleep(for: .seconds(2))
        #expect(run.isRunning)
        run.send(SIGINT)
        let ended = try await run.ended()
        #expect(ended.status == 130 && ended.errors == "Error: interrupted\n", "\(ended)")
        #expect(ContinuousClock.now - start < .seconds(30))
    }

    @Test("keys of other programs that cannot be names are listed; copied and failed are all that there is")
    func foreignKeys() async throws {
        let fixture = try await Fixture()
        try await fixture.store().set(KVKey<Int>("ok"), value: 1)
        let gateway = Gateway(fixture.server)
        let start = Data("\(fixture.prefix)/a/".utf8)
        let foreign = [Data([0xFF, 0x00]), Data([0x80]), Data(repeating: 0x6E, count: 1025)]
        for name in foreign {
            try await gateway.post(
                "/v3/kv/put", "{\"key\":\"\((start + name).base64EncodedString())\",\"value\":\"AA==\"}")
        }
        let run = try await fixture.forge("copy", fixture.url(), "kv:\(fixture.scratch.path("kv"))", "--json")
        #expect(run.status == 2, "\(run.status) \(run.errors)")
        let summary = try #require(run.lines.last)
        #expect(summary.contains("\"copied\":1") && summary.contains("\"failed\":3"), "\(summary)")
        #expect(try await fixture.forge("kv", "list", fixture.url()).status == 2)
    }

    @Test("a copy into itself, and an empty source, are refused")
    func refusals() async throws {
        let fixture = try await Fixture()
        let own = try await fixture.forge("copy", fixture.url(), fixture.url() + "/b")
        #expect(own.status == 64 && own.errorLines.count == 1, "\(own.errors)")
        // The same server by another name.
        try await fixture.store("a/b").set(KVKey<Int>("x"), value: 1)
        let alias = fixture.url().replacing("127.0.0.1", with: "localhost")
        let around = try await fixture.forge("copy", fixture.url("a/b"), alias, "--delete")
        #expect(around.status == 64 && around.errors.contains("contain one another"), "\(around.errors)")
        #expect(try await fixture.store("a/b").contains(KVKey<Int>("x")))
        let empty = try await fixture.forge("copy", fixture.url("none"), "kv:\(fixture.scratch.path("new"))")
        #expect(empty.status == 1 && empty.errors.contains("the source is empty"), "\(empty.errors)")
        #expect(!FileManager.default.fileExists(atPath: fixture.scratch.path("new")))
    }
}
#endif
