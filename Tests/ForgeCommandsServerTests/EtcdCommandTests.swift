#if Etcd
import ChildProcesses
import EtcdServers
import ForgeEtcd
import ForgeStorage
import Foundation
import ServerTestSupport
import Testing

/// A part of a server of etcd of its own, and its URL.
private struct EtcdPlace: CommandServer {
    let server: EtcdServer
    let prefix = "cmd-\(UUID().uuidString)"
    var environment: [String: String] = [:]

    init(_ server: EtcdServer) {
        self.server = server
    }

    init() async throws { self.init(try await EtcdServer.shared()) }

    var url: String { "etcd://127.0.0.1:\(server.port)/\(prefix)" }

    func store() throws -> EtcdKVStore {
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.prefix = prefix + "/"
        configuration.deadline = .seconds(60)
        return try EtcdKVStore(configuration)
    }

    func names() async throws -> [String] { try await Array(store().keys()) }
}

@Suite("The command and etcd", .enabled(if: EtcdServer.isInstalled), .timeLimit(.minutes(10)))
struct EtcdCommandTests {
    /// A port at which nothing listens.
    private func unreachable() throws -> String { "etcd://127.0.0.1:\(try LoopbackSocket.freePort())/app" }

    @Test("values are set, printed, listed and removed, with their types and versions")
    func values() async throws {
        let place = try await EtcdPlace()
        for (key, value) in [("count", "42"), ("name", "dusk"), ("list", "[1,2.5,null]")] {
            #expect(try await place.forge("kv", "set", place.url, key, value).status == 0)
        }
        #expect(try await place.forge("kv", "set", place.url, "text", "42", "--string").status == 0)
        #expect(try await place.forge("kv", "get", place.url, "count").output == "42\n")
        #expect(try await place.forge("kv", "get", place.url + "/", "text", "--json").output == "\"42\"\n")
        let list = try await place.forge("kv", "list", place.url, "--json")
        #expect(list.lines.first == #"{"key":"count","bytes":\#(try await size("count", place)),"value":42}"#)
        #expect(list.lines.count == 4)
        #expect(try await place.forge("kv", "list", place.url).output.contains("dusk"))

        let versioned = KVKey<Int>("versioned", migrations: [.from(1) { (old: String) in old.count }])
        try await place.store().set(versioned, value: 1)
        #expect(try await place.forge("kv", "set", place.url, "versioned", "2").status == 0)
        #expect(try await place.store().read(versioned) == 2)

        #expect(try await place.forge("kv", "rm", place.url, "count").status == 0)
        for verb in ["get", "rm"] {
            let gone = try await place.forge("kv", verb, place.url, "count")
            #expect(gone.status == 4)
            #expect(gone.errorLines == ["Error: kv \(verb) count: there is no such key in \(place.url)"])
        }
        #expect(try await place.names() == ["list", "name", "text", "versioned"])
    }

    private func size(_ name: String, _ place: EtcdPlace) async throws -> Int {
        try await place.store().entry(named: name)?.bytes.count ?? -1
    }

    @Test("a list of many keys, in several pages, has each of them once")
    func pages() async throws {
        let place = try await EtcdPlace()
        let store = try place.store()
        for first in stride(from: 0, to: 3000, by: 100) {
            var batch = KVBatch()
            for number in first..<first + 100 { try batch.set(KVKey<Int>(String(10_000 + number)), value: number) }
            try await store.commit(batch, timeToLive: nil)
        }
        let lines = try await place.forge("kv", "list", place.url, "--json").lines
        #expect(lines.count == 3000)
        #expect(Set(lines).count == 3000)
        #expect(lines.last?.contains("\"value\":2999") == true)
    }

    @Test("changes and removals by other clients are printed until the count is reached")
    func watch() async throws {
        let place = try await EtcdPlace()
        let run = try place.start("watch", place.url, "--count", "3", "--json")
        #expect(try await eventually { try run.outputSoFar().contains("resync") })
        let store = try place.store()
        try await store.set(KVKey<Int>("new"), value: 1)
        try await store.remove(KVKey<Int>("new"))
        let ended = try await run.ended()
        #expect(ended.status == 0, "\(ended.errors)")
        #expect(
            ended.lines == [
                #"{"action":"resync","type":"change"}"#, #"{"action":"changed","key":"new","type":"change"}"#,
                #"{"action":"removed","key":"new","type":"change"}"#,
            ])
    }

    @Test("control-C ends a watch with one line")
    func interruptedWatch() async throws {
        let place = try await EtcdPlace()
        let run = try place.start("watch", place.url)
        #expect(try await eventually { try run.outputSoFar() == "resync\n" })
        run.send(SIGINT)
        let ended = try await run.ended()
        #expect(ended.status == 130 && !ended.endedBySignal)
        #expect(ended.errors == "Error: interrupted\n")
    }

    @Test("a server that cannot be reached is one line and a status of its own, for every verb")
    func unreachableServer() async throws {
        let place = try await EtcdPlace()
        let scratch = try Scratch()
        #expect(try await place.forge("kv", "set", scratch.path("kv"), "a", "1").status == 0)
        let url = try unreachable()
        for arguments in [
            ["kv", "list", url], ["kv", "get", url, "a"], ["kv", "set", url, "a", "1"], ["kv", "rm", url, "a"],
            ["watch", url], ["copy", url, "kv:\(scratch.path("new"))"], ["copy", "kv:\(scratch.path("kv"))", url],
            ["copy", url, "json:-"],
        ] {
            let run = try await ForgeRun(arguments, ["FORGE_DEADLINE": "0.5"]).ended()
            #expect(run.status == 7, "\(arguments): \(run.errors)")
            #expect(run.errorLines.count == 1, "\(run.errors)")
            #expect(run.output.isEmpty)
        }
        #expect(!FileManager.default.fileExists(atPath: scratch.path("new")))
        let json = try await ForgeRun(["kv", "list", url, "--json"], ["FORGE_DEADLINE": "0.5"]).ended()
        #expect(json.errors.hasPrefix(#"{"code":7,"kind":"unreachable","#), "\(json.errors)")
    }

    @Test(
        "output that cannot be written is one line", arguments: [["kv", "list"], ["kv", "get"], ["watch"], ["copy"]])
    func lostOutput(verb: [String]) async throws {
        let place = try await EtcdPlace()
        try await place.store().set(KVKey<Int>("a"), value: 1)
        let scratch = try Scratch()
        let extra =
            switch verb {
            case ["kv", "get"]: ["a"]
            case ["copy"]: ["kv:\(scratch.path("kv"))"]
            default: [String]()
            }
        try await expectLostOutput(verb + [place.url] + extra, [:])
    }

    @Test("etcds:// takes the certificates of the environment, and is refused without them")
    func certificates() async throws {
        let scratch = try Scratch()
        let (certificate, privateKey) = (scratch.path("certificate.pem"), scratch.path("key.pem"))
        let arguments = [
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", privateKey, "-out", certificate,
        ]
        _ = try await onThread { try ChildProcess.run("/usr/bin/openssl", arguments) }
        let options = ["--cert-file", certificate, "--key-file", privateKey, "--trusted-ca-file", certificate]
        let server = try await EtcdServer.started(options + ["--client-cert-auth"], scheme: "https")
        let place = EtcdPlace(server)
        let url = place.url.replacing("etcd://", with: "etcds://")
        let variables = ["ETCDCTL_CACERT": certificate, "ETCDCTL_CERT": certificate, "ETCDCTL_KEY": privateKey]
        let set = try await place.forge("kv", "set", url, "a", "1", variables: variables)
        #expect(set.status == 0, "\(set.errors)")
        #expect(try await place.forge("kv", "get", url, "a", variables: variables).output == "1\n")
        for names in [["ETCDCTL_CACERT"], ["ETCDCTL_CERT", "ETCDCTL_KEY"]] {
            let others = variables.filter { !names.contains($0.key) }.merging(["FORGE_DEADLINE": "0.5"]) { $1 }
            let run = try await place.forge("kv", "get", url, "a", variables: others)
            #expect(run.status != 0 && run.output.isEmpty && run.errorLines.count == 1, "\(names): \(run)")
        }
    }

    @Test("the user comes from the environment, and a wrong password is refused and not shown")
    func users() async throws {
        let server = try await EtcdServer.started()
        let gateway = Gateway(server)
        try await gateway.post("/v3/auth/user/add", #"{"name":"root","password":"secret-7"}"#)
        try await gateway.post("/v3/auth/role/add", #"{"name":"root"}"#)
        try await gateway.post("/v3/auth/user/grant", #"{"user":"root","role":"root"}"#)
        try await gateway.post("/v3/auth/enable", "{}")
        let place = EtcdPlace(server)
        for variables in [
            ["ETCDCTL_USER": "root", "ETCDCTL_PASSWORD": "secret-7"], ["ETCDCTL_USER": "root:secret-7"],
        ] {
            let run = try await place.forge("kv", "set", place.url, "a", "1", variables: variables)
            #expect(run.status == 0, "\(run.errors)")
        }
        for (variables, status) in [
            ([:], Int32(1)), (["ETCDCTL_USER": "root", "ETCDCTL_PASSWORD": "wrong-7"], 1),
            (["ETCDCTL_USER": "root"], 64),
        ] {
            let run = try await place.forge("kv", "get", place.url, "a", variables: variables)
            #expect(run.status == status, "\(run.errors)")
            #expect(run.errorLines.count == 1 && !run.errors.contains("wrong-7"), "\(run.errors)")
        }
    }
}
#endif
