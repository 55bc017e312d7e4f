#if Etcd
import ChildProcesses
import ForgeFileSystem
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import ServerTestSupport
import Testing

@Suite("Users and certificates of etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdAccessTests {
    private let key = KVKey<Int>("a")

    /// A server with the user `root`, who may do everything, and `reader`, who may do nothing.
    private func serverWithUsers() async throws -> (server: EtcdServer, configuration: EtcdKVStore.Configuration) {
        let server = try await EtcdServer.started()
        let gateway = Gateway(server)
        for user in ["root", "reader"] {
            try await gateway.post("/v3/auth/user/add", #"{"name":"\#(user)","password":"secret-\#(user)"}"#)
        }
        try await gateway.post("/v3/auth/role/add", #"{"name":"root"}"#)
        try await gateway.post("/v3/auth/user/grant", #"{"user":"root","role":"root"}"#)
        try await gateway.post("/v3/auth/enable", "{}")
        var configuration = EtcdKVStore.Configuration.test(server.endpoint)
        configuration.credentials = .init(user: "root", password: "secret-root")
        configuration.deadline = .seconds(10)
        return (server, configuration)
    }

    @Test("a user logs in, again when the tokens or users have changed, watches included")
    func logIn() async throws {
        let (server, configuration) = try await serverWithUsers()
        let store = try EtcdKVStore(configuration)
        try await store.set(key, value: 1)
        var iterator = store.changes().makeAsyncIterator()
        #expect(try await iterator.next() == .resync)

        // A change of the users makes the token's revision old.
        let token = try await Gateway(server).post(
            "/v3/auth/authenticate", #"{"name":"root","password":"secret-root"}"#)
        let text = try #require(token.split(separator: "\"token\":\"").last?.split(separator: "\"").first)
        try await Gateway(server).post(
            "/v3/auth/user/add", #"{"name":"third","password":"x"}"#, token: String(text))
        try await store.set(key, value: 2)

        // A restarted server knows no token.
        try await server.restart()
        try await store.set(key, value: 3)
        #expect(try await store.read(key) == 3)
        var found: Int?
        while found != 3 {
            switch try await iterator.next() {
            case .resync: found = try await store.read(key)
            case .changed(_, let entry, _): found = try entry?.value(of: key)
            case nil: Issue.record("the sequence has ended")
            }
        }
    }

    @Test("a wrong password, missing rights and a missing user are refused, and the password is not shown")
    func refusals() async throws {
        let (server, access) = try await serverWithUsers()
        var configuration = access
        configuration.credentials = .init(user: "root", password: "wrong-7")
        let wrong = await #expect(throws: KVStoreError.self) {
            try await EtcdKVStore(configuration).read(key)
        }
        #expect(wrong?.code == .refused)
        #expect(wrong?.operation == .logIn)
        #expect(wrong.map { "\($0)".contains("wrong-7") } == false)

        configuration.credentials = .init(user: "reader", password: "secret-reader")
        let reader = try EtcdKVStore(configuration)
        let denied = await #expect(throws: KVStoreError.self) { try await reader.set(key, value: 1) }
        #expect(denied?.code == .refused)
        var iterator = reader.changes().makeAsyncIterator()
        let watch = await #expect(throws: KVStoreError.self) { try await iterator.next() }
        #expect(watch?.code == .refused)

        configuration.credentials = nil
        let refused = await #expect(throws: KVStoreError.self) {
            try await EtcdKVStore(configuration).set(key, value: 1)
        }
        #expect(refused?.code == .refused)
        withExtendedLifetime(server) {}
    }

    @Test("a client certificate secures the connection, and one is needed if the server wants it")
    func certificates() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "forge-tls-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        let (certificate, privateKey) = (directory.path + "/certificate.pem", directory.path + "/key.pem")
        let arguments = [
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", privateKey, "-out", certificate,
        ]
        _ = try await onThread { try ChildProcess.run("/usr/bin/openssl", arguments) }
        let server = try await EtcdServer.started(
            [
                "--cert-file", certificate, "--key-file", privateKey, "--trusted-ca-file", certificate,
                "--client-cert-auth",
            ], scheme: "https")
        var configuration = EtcdKVStore.Configuration.test(server.endpoint)
        configuration.tls = .init(
            trustRootsPath: certificate, certificatePath: certificate, privateKeyPath: privateKey)
        let store = try EtcdKVStore(configuration)
        try await store.set(key, value: 1)
        #expect(try await store.read(key) == 1)

        configuration.deadline = .seconds(2)
        configuration.tls = .init(trustRootsPath: certificate)
        let unknown = try EtcdKVStore(configuration)
        await #expect(throws: KVStoreError.self) { try await unknown.set(key, value: 2) }
        configuration.tls = .init()
        let untrusting = try EtcdKVStore(configuration)
        let error = await #expect(throws: KVStoreError.self) { try await untrusting.set(key, value: 2) }
        #expect(error?.code == .unavailable(.server))
        #expect(try await store.read(key) == 1)
    }
}
#endif
