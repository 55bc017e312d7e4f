#if S3
import ForgeFileStore
import Foundation
import Synchronization
import Testing

@testable import ForgeS3

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
