#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Synchronization
import Testing

@testable import ForgeS3

@Suite("The store in S3 on a server that fails")
struct S3FailureTests {
    @Test(
        "a request is repeated after failures that pass",
        arguments: [
            FaultyS3.Fault.fails(500), .fails(502), .fails(503), .fails(504), .fails(429), .fails(503, "SlowDown"),
            .fails(400, "RequestTimeout"), .fails(409, "OperationAborted"), .losesRequest, .losesAnswer, .repeats,
        ])
    func repeated(_ fault: FaultyS3.Fault) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("PUT", "/b/a", fault, fault)
        try await store.save(Data("content".utf8), to: "a")
        #expect(server.objects == ["a": Data("content".utf8)])
        if case .repeats = fault { return }
        #expect(server.count("PUT", "/b/a") == 3)
    }

    @Test("a store that was closed fails at once")
    func closed() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(Data(), to: "a")
        await store.close()
        await store.close()
        await expectFailure(.unavailable(.server)) { try await store.save(Data("x".utf8), to: "a") }
        await expectFailure(.unavailable(.server)) { try await store.load("a") }
        #expect(server.requests.count == 1)
    }

    @Test("a request is not repeated after a refusal", arguments: [400, 401, 403, 404, 501])
    func refused(_ status: Int) async throws {
        let server = try FaultyS3()
        server.next("PUT", "/b/a", .fails(status, "Code"))
        let error = await expectFailure(
            [401, 403].contains(status) ? .notPermitted : status == 501 ? .unsupported : .unavailable(.server)
        ) { try await server.store().save(Data(), to: "a") }
        #expect((error?.underlying as? S3Error)?.code == "Code")
        #expect(server.count("PUT", "/b/a") == 1)
    }

    @Test("waits as long as Retry-After says")
    func waits() async throws {
        let server = try FaultyS3()
        server.next("PUT", "/b/a", .fails(503, "SlowDown", headers: ["Retry-After": "2"]))
        let start = ContinuousClock.now
        try await server.store().save(Data(), to: "a")
        #expect(ContinuousClock.now - start >= .seconds(2))
    }

    @Test("fails at once if Retry-After exceeds the deadline")
    func waitsTooLong() async throws {
        let server = try FaultyS3()
        server.next("GET", "/b/a", .fails(503, "SlowDown", headers: ["Retry-After": "100000"]))
        let error = await expectFailure(.unavailable(.server)) { try await server.store().load("a") }
        #expect((error?.underlying as? S3Error)?.code == "SlowDown")
        #expect(server.count("GET", "/b/a") == 1)
    }

    @Test("a body that is cut, or comes late, is asked for again", arguments: [true, false])
    func cut(_ isCut: Bool) async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(isCut ? 120 : 30) }
        try await store.save(pattern(900), to: "a")
        // An attempt has a third of the time.
        server.next("GET", "/b/a", isCut ? .cutsBody : .isLate(.seconds(15)))
        #expect(try await store.load("a") == pattern(900))
        #expect(server.count("GET", "/b/a") == 2)
    }

    @Test("at the deadline a load has failed, and the outcome of a save that was sent is unknown")
    func deadline() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(9) }
        server.next(
            "GET", "/b/a", .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)))
        server.next(
            "PUT", "/b/a", .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)))
        await expectFailure(.unavailable(.server)) { try await store.load("a") }
        let error = await expectFailure(.unknownOutcome) { try await store.save(Data("x".utf8), to: "a") }
        #expect((error?.underlying as? S3Error)?.reason == .unknownOutcome)
    }

    @Test("a deletion whose answers are lost has an unknown outcome, and none if there is no server")
    func deletion() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(9) }
        try await store.save(Data(), to: "a")
        server.next(
            "DELETE", "/b/a", .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20))
        )
        await expectFailure(.unknownOutcome) { try await store.delete("a") }
    }

    @Test("content that was changed on its way or in the store is an error")
    func damaged() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(pattern(2_500), to: "a")
        for call in 0..<3 {
            server.next("GET", "/b/a", .damages)
            let error = await expectFailure(.unavailable(.inputOutput)) {
                switch call {
                case 0: _ = try await store.load("a")
                case 1: for try await _ in store.contents(of: "a") {}
                default: _ = try await store.reader(for: "a").readAll()
                }
            }
            #expect((error?.underlying as? S3Error)?.reason == .damaged)
        }
        #expect(try await store.load("a") == pattern(2_500))
        server.change { $0.objects["a"]?.data[2_400] ^= 1 }
        await expectFailure(.unavailable(.inputOutput)) { try await store.load("a") }
    }

    @Test("a load of parts never mixes two contents")
    func replaced() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(pattern(2_500), to: "a")
        let replace = FaultyS3.Fault.before { _ = $0.put("a", pattern(3_500, seed: 1)) }
        server.next("GET", "/b/a", replace)
        #expect(try await store.load("a") == pattern(3_500, seed: 1))
        try await store.save(pattern(2_500), to: "a")
        server.next("GET", "/b/a", replace)
        await expectFailure(.conflict) { for try await _ in store.contents(of: "a") {} }
        let reader = try await store.reader(for: "a")
        server.change { _ = $0.put("a", Data("other".utf8)) }
        await expectFailure(.conflict) { try await reader.readAll() }
        await expectFailure(.conflict) { try await reader.read(0..<1) }
    }

    @Test("a server that ignores ranges is refused, not believed")
    func ignoredRanges() async throws {
        let server = try FaultyS3(ignoring: .ranges)
        let store = try server.store()
        server.change { _ = $0.put("a", pattern(2_500)) }
        let error = await expectFailure(.unavailable(.server)) { try await store.load("a") }
        #expect((error?.underlying as? S3Error)?.reason == .invalidAnswer)
        server.change { _ = $0.put("a", pattern(500)) }
        #expect(try await store.load("a") == pattern(500))
    }

    @Test("a file that is larger than the limit is not loaded")
    func tooLarge() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.maximumLoadSizeInBytes = 1_500 }
        try await store.save(pattern(1_501), to: "a")
        await expectFailure(.tooLarge) { try await store.load("a") }
        #expect(server.count("GET", "/b/a") == 1)
        try await store.save(pattern(1_500), to: "a")
        #expect(try await store.load("a").count == 1_500)
    }

    @Test("the clock is corrected once, with the time of the server", arguments: ["PUT", "HEAD"])
    func skew(_ method: String) async throws {
        let server = try FaultyS3()
        let start = Date(timeIntervalSince1970: 1_369_353_600)
        let store = try server.store { $0.now = { start } }
        server.change { _ = $0.put("a", Data()) }
        let code = method == "PUT" ? "RequestTimeTooSkewed" : nil
        server.next(method, "/b/a", .fails(403, code, headers: ["Date": "Fri, 24 May 2013 01:00:00 GMT"]))
        if method == "PUT" { try await store.save(Data(), to: "a") } else { _ = try await store.info("a") }
        _ = try await store.info("a")
        #expect(
            server.requests.map { $0.headers["x-amz-date"] }
                == ["20130524T000000Z", "20130524T010000Z", "20130524T010000Z"])
    }

    @Test("credentials that the server refuses as expired are renewed", arguments: ["ExpiredToken", "InvalidToken"])
    func expired(_ code: String) async throws {
        let server = try FaultyS3()
        let count = Mutex(0)
        let store = try server.store {
            $0.credentials = .custom {
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                return S3Credentials(accessKeyID: "key\(number)", secretAccessKey: "s")
            }
        }
        server.next("PUT", "/b/a", .fails(400, code))
        try await store.save(Data(), to: "a")
        let keys = server.requests.map { $0.headers["authorization"]?.contains("Credential=key1/") }
        #expect(keys == [true, false])
    }

    @Test("deletions in batches report the key that could not be deleted, after the others")
    func batches() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.change { content in
            for number in 0..<2_500 { _ = content.put("d/\(number)", Data()) }
            _ = content.put("e", Data())
        }
        server.failDeletion(of: "d/17", "InternalError")
        server.failDeletion(of: "d/1234", "AccessDenied")
        let error = await expectFailure(.notPermitted) { try await store.deleteDirectory("d") }
        #expect(error?.key == "d/1234")
        #expect(Set(server.objects.keys) == ["d/1234", "e"])
        try await store.deleteDirectory("d")
        #expect(Set(server.objects.keys) == ["e"])
    }

    @Test("a listing whose token is repeated fails, and deletes nothing else")
    func repeatedToken() async throws {
        let server = try LoopbackHTTP { _ in
            .xml(
                "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
                    + "</ListBucketResult>")
        }
        let store = try S3FileStore(
            .init(
                bucket: "b", region: "r",
                credentials: .values(S3Credentials(accessKeyID: "i", secretAccessKey: "s")), endpoint: server.endpoint))
        for call in [
            { _ = try await store.list() }, { _ = try await store.totalSize() }, { try await store.deleteAll() },
        ] {
            let error = await expectFailure(.unavailable(.server)) { try await call() }
            #expect((error?.underlying as? S3Error)?.reason == .invalidAnswer)
        }
    }

    @Test("a prefix that is the beginning of another store's is refused")
    func openPrefix() throws {
        var configuration = S3FileStore.Configuration(
            bucket: "b", region: "r", credentials: .values(S3Credentials(accessKeyID: "i", secretAccessKey: "s")))
        configuration.prefix = "app"
        #expect(throws: S3Error.self) { try S3FileStore(configuration) }
    }

    @Test("a listing of several pages is complete")
    func pages() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.change { content in for number in 0..<1_200 { _ = content.put("\(number)", Data(count: 1)) } }
        #expect(try await store.list().count == 1_200)
        #expect(try await store.totalSize() == 1_200)
    }

    @Test("an answer that is not one of S3 is an error", arguments: ["", "<html/>", "<ListBucketResult>"])
    func invalidAnswers(_ text: String) async throws {
        let server = try LoopbackHTTP { _ in .xml(text) }
        let store = try S3FileStore(
            .init(
                bucket: "b", region: "r",
                credentials: .values(S3Credentials(accessKeyID: "i", secretAccessKey: "s")), endpoint: server.endpoint))
        let error = await expectFailure(.unavailable(.server)) { try await store.list() }
        #expect((error?.underlying as? S3Error)?.reason == .invalidAnswer)
    }

    @Test("contents that have thrown an error have ended")
    func afterError() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(pattern(5_500), to: "a")
        server.next("GET", "/b/a", .isLate(.zero), .fails(403, "AccessDenied"))
        var iterator = store.contents(of: "a").makeAsyncIterator()
        await expectFailure(.notPermitted) { while try await iterator.next() != nil {} }
        #expect(try await iterator.next() == nil)
    }
}
#endif
