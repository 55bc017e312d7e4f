#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import S3Servers
import Synchronization
import Testing
@testable import ForgeS3

@Suite("Credentials of the store in S3")
struct S3CredentialTests {
    private static let credentials = S3Credentials(
        accessKeyID: "id", secretAccessKey: "top-secret", sessionToken: "token-secret")

    private func load(_ source: S3CredentialSource) async throws -> S3Credentials {
        let transport = try S3Transport(.init(bucket: "b", region: "r"))
        let found = try await S3CredentialLoader(client: transport.client).load(source)
        await transport.close()
        return found
    }

    @Test("reads credentials from the environment, and reports missing ones")
    func environment() async throws {
        let variables = ["AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "top-secret"]
        #expect(try await load(.environment(variables)).sessionToken == nil)
        #expect(
            try await load(.environment(variables.merging(["AWS_SESSION_TOKEN": "token-secret"]) { $1 }))
                == Self.credentials)
        await #expect(throws: S3Error(.noCredentials, detail: "the environment has no AWS_ACCESS_KEY_ID")) {
            try await load(.environment(["AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""]))
        }
        await #expect(
            throws: S3Error(
                .credentialsUnavailable,
                detail: "the environment has only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        ) {
            try await load(.environment(["AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": ""]))
        }
    }

    @Test("a profile is read from its file")
    func profiles() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "forge-s3-\(UUID().uuidString)")
        try Data(
            """
            # comment
            [default]
            aws_access_key_id = other
            aws_secret_access_key=o=ther

            [ work ]
            aws_access_key_id=id
            ; comment
            aws_secret_access_key = top-secret
            aws_session_token = token-secret
            [empty]
            """.utf8
        ).write(to: file)
        defer { do { try FileManager.default.removeItem(at: file) } catch {} }
        #expect(try await load(.profile("work", path: file.path)) == Self.credentials)
        #expect(try await load(.profile("default", path: file.path)).secretAccessKey == "o=ther")
        for (name, path) in [("empty", file.path), ("none", file.path), ("work", file.path + "-")] {
            await #expect(throws: S3Error.self) { try await load(.profile(name, path: path)) }
        }
        // The first source that has some.
        #expect(
            try await load(
                .first(of: [.environment([:]), .profile("none", path: file.path), .values(Self.credentials)]))
                == Self.credentials)
    }

    private static let answer = """
        {"Code": "Success", "AccessKeyId": "id", "SecretAccessKey": "top-secret", "Token": "token-secret",
        "Expiration": "2013-05-24T00:00:00Z"}
        """

    @Test("a container's endpoint is asked with its token")
    func container() async throws {
        let server = try LoopbackHTTP { request in
            request.path == "/creds" && request.headers["authorization"] == "Bearer x"
                ? .xml(Self.answer) : .error(403, nil)
        }
        let variables = [
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.endpoint + "/creds",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Bearer x",
        ]
        let found = try await load(.container(variables))
        #expect(found.sessionToken == "token-secret")
        #expect(found.expiration == Date(timeIntervalSince1970: 1_369_353_600))
        await #expect(throws: S3Error.self) {
            try await load(.container(variables.merging(["AWS_CONTAINER_AUTHORIZATION_TOKEN": "y"]) { $1 }))
        }
        await #expect(throws: S3Error.self) { try await load(.container([:])) }
    }

    @Test(
        "credentials are asked for only at trusted addresses",
        arguments: [
            ("http://127.0.0.1:80/a", true), ("http://localhost/a", true), ("http://169.254.170.23/a", true),
            ("http://[::1]/a", true), ("http://[fd00:ec2::23]/a", true), ("https://example.com/a", true),
            ("http://example.com/a", false), ("http://127.0.0.1.example.com/a", false), ("ftp://127.0.0.1/a", false),
            ("http://127.evil/a", false), ("", false),
        ])
    func trust(_ url: String, _ isTrusted: Bool) { #expect(S3CredentialLoader.isTrusted(url) == isTrusted) }

    @Test("an instance is asked in a session")
    func instance() async throws {
        let server = try LoopbackHTTP { request in
            if request.path == "/latest/api/token" {
                return request.method == "PUT" && request.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
                    ? .xml("session") : .error(400, nil)
            }
            guard request.headers["x-aws-ec2-metadata-token"] == "session" else { return .error(401, nil) }
            switch request.path {
            case "/latest/meta-data/iam/security-credentials/": return .xml("role\n")
            case "/latest/meta-data/iam/security-credentials/role": return .xml(Self.answer)
            default: return .error(404, nil)
            }
        }
        #expect(try await load(.instanceMetadata(endpoint: server.endpoint)).secretAccessKey == "top-secret")
        let broken = try LoopbackHTTP { _ in .xml("{}") }
        await #expect(throws: S3Error(.credentialsUnavailable, detail: "the answer of the endpoint is not valid")) {
            try await load(.instanceMetadata(endpoint: broken.endpoint))
        }
    }

    @Test("credentials are renewed before they end, once for many calls, and used until they end if that fails")
    func renewal() async throws {
        let now = Mutex(Date(timeIntervalSince1970: 1_000_000))
        let count = Mutex(0)
        let cache = S3CredentialCache(now: { now.withLock { $0 } }) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            try await Task.sleep(for: .milliseconds(50))
            if number == 3 { throw S3Error(.credentialsUnavailable) }
            return S3Credentials(
                accessKeyID: "\(number)", secretAccessKey: "s", expiration: now.withLock { $0 } + 3_600)
        }
        let many = { () async throws -> Set<String> in
            try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<8 { group.addTask { try await cache.current().accessKeyID } }
                return try await group.reduce(into: []) { $0.insert($1) }
            }
        }
        #expect(try await many() == ["1"])
        now.withLock { $0 += 3_200 }
        #expect(try await many() == ["1"])
        // Renewed beside the calls, which do not wait yet.
        now.withLock { $0 += 110 }
        for _ in 0..<1_000 where try await cache.current().accessKeyID == "1" {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try await many() == ["2"])
        #expect(count.withLock { $0 } == 2)
        now.withLock { $0 += 3_570 }
        #expect(try await cache.current().accessKeyID == "2")
        #expect(count.withLock { $0 } == 3)
        #expect(try await many() == ["2"])
        #expect(count.withLock { $0 } == 3)
        now.withLock { $0 += 2 }
        #expect(try await cache.current().accessKeyID == "4")
        cache.forget(try await cache.current())
        #expect(try await cache.current().accessKeyID == "5")
    }

    @Test("a source that does not answer delays no call until a minute before the expiration")
    func hangingRenewal() async throws {
        let now = Mutex(Date(timeIntervalSince1970: 1_000_000))
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let count = Mutex(0)
        let cache = S3CredentialCache(now: { now.withLock { $0 } }) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number > 1 { for await _ in gate { break } }
            return S3Credentials(
                accessKeyID: "\(number)", secretAccessKey: "s", expiration: now.withLock { $0 } + 3_600)
        }
        #expect(try await cache.current().accessKeyID == "1")
        now.withLock { $0 += 3_500 }
        for _ in 0..<3 { #expect(try await cache.current().accessKeyID == "1") }
        while count.withLock({ $0 }) < 2 { await Task.yield() }
        now.withLock { $0 += 50 }
        let waiting = Task { try await cache.current().accessKeyID }
        open.yield()
        #expect(try await waiting.value == "2")
        #expect(count.withLock { $0 } == 2)
    }

    @Test("a source of short-lived credentials is asked once a minute, and more often only at their end")
    func shortLived() async throws {
        let now = Mutex(Date(timeIntervalSince1970: 1_000_000))
        let count = Mutex(0)
        let end = now.withLock { $0 } + 240
        let cache = S3CredentialCache(now: { now.withLock { $0 } }) {
            count.withLock { $0 += 1 }
            return S3Credentials(accessKeyID: "1", secretAccessKey: "s", expiration: end)
        }
        for _ in 0..<150 {
            #expect(try await cache.current().accessKeyID == "1")
            now.withLock { $0 += 1 }
            await Task.yield()
        }
        #expect(1...4 ~= count.withLock { $0 })
        // Credentials that the server refuses are renewed at once.
        let before = count.withLock { $0 }
        cache.forget(try await cache.current())
        _ = try await cache.current()
        #expect(count.withLock { $0 } > before)
    }

    @Test("a cancelled call does not end the renewal of the others")
    func cancelledRenewal() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let count = Mutex(0)
        let cache = S3CredentialCache(now: { Date() }) {
            count.withLock { $0 += 1 }
            for await _ in gate { break }
            return Self.credentials
        }
        let cancelled = Task { try await cache.current() }
        while count.withLock({ $0 }) == 0 { await Task.yield() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let other = Task { try await cache.current() }
        open.yield()
        #expect(try await other.value == Self.credentials)
        #expect(count.withLock { $0 } == 1)
    }

    @Test("no description, dump or error has a secret")
    func secrets() async throws {
        var texts: [String] = []
        var configuration = S3FileStore.Configuration(bucket: "b", region: "r", endpoint: "http://127.0.0.1:9")
        configuration.credentials = .values(Self.credentials)
        for value in [Self.credentials, configuration.credentials, configuration] as [Any] {
            var text = ""
            dump(value, to: &text)
            texts += [text, "\(value)", String(reflecting: value)]
        }
        configuration.deadline = .milliseconds(50)
        configuration.credentials = .custom {
            struct Leak: Error { var secret = "top-secret" }
            throw Leak()
        }
        let error = await expectFailure(.unavailable(.server)) { try await S3FileStore(configuration).load("a") }
        texts += ["\(try #require(error))", String(reflecting: error)]
        for text in texts { #expect(!text.contains("secret"), "\(text)") }
    }

    @Test("a wrong secret, and a key that does not exist, are refused", .enabled(if: MotoServer.isInstalled))
    func refused() async throws {
        var configuration = try await MotoServer.shared().configuration()
        try await S3FileStore(configuration).save(Data(), to: "a")
        let id = try await MotoServer.shared().credentials.accessKeyID
        for (id, code) in [(id, "SignatureDoesNotMatch"), ("AKIANONE", "InvalidAccessKeyId")] {
            configuration.credentials = .values(S3Credentials(accessKeyID: id, secretAccessKey: "top-secret"))
            let store = try S3FileStore(configuration)
            let error = await expectFailure(.notPermitted) { try await store.load("a") }
            #expect((error?.underlying as? S3Error)?.code == code)
            #expect("\(String(reflecting: error))".contains("top-secret") == false)
        }
    }
}

@Suite("Several sources of credentials of the store in S3")
struct S3CredentialChainTests {
    private static let next = S3Credentials(accessKeyID: "next", secretAccessKey: "s")

    private func load(_ sources: S3CredentialSource...) async throws -> S3Credentials {
        let transport = try S3Transport(.init(bucket: "b", region: "r"))
        let loader = S3CredentialLoader(client: transport.client)
        do {
            let found = try await loader.load(.first(of: sources + [.values(Self.next)]))
            await transport.close()
            return found
        } catch {
            await transport.close()
            throw error
        }
    }

    /// Expects that a source which is configured fails, and that the next is not used.
    private func expectFailure(
        of source: S3CredentialSource, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let error = await #expect(throws: S3Error.self, sourceLocation: sourceLocation) { try await load(source) }
        #expect(error?.reason == .credentialsUnavailable, sourceLocation: sourceLocation)
    }

    private func container(_ uri: String, token: String? = nil) -> S3CredentialSource {
        var variables = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": uri]
        variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = token
        return .container(variables)
    }

    @Test("sources that are not configured are skipped")
    func skipped() async throws {
        let noRole = try LoopbackHTTP { $0.method == "PUT" ? .xml("session") : .error(404, nil) }
        let found = try await load(
            .environment([:]), .profile("none", path: "/nonexistent"), .container([:]),
            .instanceMetadata(endpoint: noRole.endpoint), .instanceMetadata(endpoint: "http://127.0.0.1:1"))
        #expect(found == Self.next)
    }

    @Test("a container or an instance that fails ends the call", arguments: [403, 404, 500, 200, 0])
    func endpoints(_ status: Int) async throws {
        let server = try LoopbackHTTP { _ in status == 0 ? .init(isLost: true) : .error(status, nil) }
        await expectFailure(of: container(server.endpoint))
        // An instance without metadata, or without a role, answers so.
        if status != 404, status != 200 { await expectFailure(of: .instanceMetadata(endpoint: server.endpoint)) }
    }

    @Test("a container that is not reached, or is not trusted, ends the call")
    func containers() async throws {
        await expectFailure(of: container("http://127.0.0.1:1/"))
        await expectFailure(of: container("http://example.com/"))
        await expectFailure(of: container("http://127.0.0.1:1/", token: "/nonexistent"))
    }

    @Test("a container's relative URI cannot continue the name of the host")
    func relative() async throws {
        for path in ["creds", ".example.com/", "@example.com/", ":80@example.com/"] {
            let source = S3CredentialSource.container(["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": path])
            let error = await #expect(throws: S3Error.self) { try await load(source) }
            #expect(error == S3Error(.credentialsUnavailable, detail: "the container's relative URI has no slash"))
        }
    }

    @Test("half of the keys, and a profile without keys that has other credentials, end the call")
    func profiles() async throws {
        await expectFailure(of: .environment(["AWS_ACCESS_KEY_ID": "id"]))
        await expectFailure(of: .environment(["AWS_SECRET_ACCESS_KEY": "s"]))
        let text = "[half]\naws_access_key_id = id\n[role]\nrole_arn = arn\n[region]\nregion = r\n"
        let file = FileManager.default.temporaryDirectory.appending(path: "forge-s3-\(UUID().uuidString)")
        try Data(text.utf8).write(to: file)
        defer { do { try FileManager.default.removeItem(at: file) } catch {} }
        for name in ["half", "role"] { await expectFailure(of: .profile(name, path: file.path)) }
        await expectFailure(of: .profile("a", path: FileManager.default.temporaryDirectory.path))
        await expectFailure(of: S3CredentialSource(kind: .profile(name: "none", path: file.path, isRequired: true)))
        #expect(try await load(.profile("region", path: file.path)) == Self.next)
    }

    @Test("a closure that throws ends the call")
    func closures() async throws {
        await expectFailure(of: .custom { throw CocoaError(.fileReadUnknown) })
    }

    @Test(
        "the end of credentials is read with any zone, and refused if it is not a time",
        arguments: [
            ("2013-05-24T00:00:00Z", 0), ("2013-05-24T01:30:00.123+01:30", 0), ("2013-05-23T23:00:00-01:00", 0),
            ("2013-05-24T00:00:00", nil), ("2013-05-24T00:00:00+1", nil), ("soon", nil), ("", nil),
        ] as [(String, TimeInterval?)])
    func expirations(_ text: String, _ offset: TimeInterval?) async throws {
        let server = try LoopbackHTTP { _ in
            .xml(#"{"AccessKeyId": "id", "SecretAccessKey": "s", "Expiration": "\#(text)"}"#)
        }
        let source = container(server.endpoint)
        if let offset {
            #expect(try await load(source).expiration == Date(timeIntervalSince1970: 1_369_353_600 + offset))
        } else {
            await expectFailure(of: source)
        }
    }

    @Test("renewals that fail pause, longer every time up to a minute, and throw the same error meanwhile")
    func pauses() async throws {
        let start = Date(timeIntervalSince1970: 1_000_000)
        let now = Mutex(start)
        let times = Mutex<[Date]>([])
        let cache = S3CredentialCache(now: { now.withLock { $0 } }) {
            times.withLock { $0.append(now.withLock { $0 }) }
            throw S3Error(.credentialsUnavailable, detail: "closed")
        }
        for _ in 0..<3_000 {
            await #expect(throws: S3Error(.credentialsUnavailable, detail: "closed")) { try await cache.current() }
            now.withLock { $0 += 0.1 }
        }
        let found = times.withLock { $0 }
        let pauses = zip(found, found.dropFirst()).map { $1.timeIntervalSince($0) }
        #expect(pauses.count >= 9)
        for (number, pause) in pauses.enumerated() {
            let limit = min(60, Double(1 << number))
            #expect(pause >= limit / 2 - 0.01 && pause <= limit + 0.2, "\(number)")
        }
        // A clock that is set back does not prolong a pause.
        now.withLock { $0 = start }
        await #expect(throws: S3Error.self) { try await cache.current() }
        #expect(times.withLock { $0.count } == found.count + 1)
    }
}
#endif
