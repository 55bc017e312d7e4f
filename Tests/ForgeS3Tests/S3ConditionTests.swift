#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing

@testable import ForgeS3

@Suite("Conditional saves in S3")
struct S3ConditionTests {
    /// Contents that are sent at once and in parts.
    static let sizes = [500, 2_500]

    @Test(
        "an exclusive save whose answer is lost, or which is repeated on its way, has stored its file", arguments: sizes
    )
    func ownAttempt(_ size: Int) async throws {
        for fault in [FaultyS3.Fault.losesAnswer, .repeats] {
            let server = try FaultyS3()
            let store = try server.store()
            server.next(size > 1_000 ? "POST" : "PUT", size > 1_000 ? "/b/a?uploadId" : "/b/a", fault)
            try await store.save(pattern(size), to: "a", overwrite: false)
            #expect(server.objects == ["a": pattern(size)])
            #expect(server.content.uploads.isEmpty)
            #expect(server.ownObjects.isEmpty)
        }
    }

    @Test("an exclusive save does not mistake another writer's file for its own", arguments: sizes)
    func otherFile(_ size: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(Data("old".utf8), to: "a")
        server.next(size > 1_000 ? "POST" : "PUT", size > 1_000 ? "/b/a?uploadId" : "/b/a", .losesAnswer)
        // The first attempt may have stored it, and another have replaced it since.
        await expectFailure(.unknownOutcome) { try await store.save(pattern(size), to: "a", overwrite: false) }
        #expect(server.objects == ["a": Data("old".utf8)])
        #expect(server.content.uploads.isEmpty)
    }

    @Test("a conflict with another request is repeated", arguments: sizes)
    func conflict(_ size: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        let conflict = FaultyS3.Fault.fails(409, "ConditionalRequestConflict")
        server.next(size > 1_000 ? "POST" : "PUT", size > 1_000 ? "/b/a?uploadId" : "/b/a", conflict, conflict)
        try await store.save(pattern(size), to: "a", overwrite: false)
        #expect(server.objects == ["a": pattern(size)])
        #expect(server.content.uploads.isEmpty)
        // Parts must be sent again.
        if size > 1_000 { #expect(server.count("POST", "/b/a?uploads") == 3) }
    }

    @Test("refuses conditions that the server ignores, and changes nothing", arguments: sizes)
    func promises(_ size: Int) async throws {
        let isMultipart = size > 1_000
        let server = try FaultyS3(ignoring: isMultipart ? .multipart : .plain)
        let store = try server.store()
        let old = try await store.save(Data("old".utf8), to: "a", if: .always)
        for condition in [SaveCondition.absent, .unchanged(try #require(old.revision))] {
            for _ in 0..<2 {
                let error = await expectFailure(.unsupported) {
                    try await store.save(pattern(size), to: "a", if: condition)
                }
                let cause = try #require(error?.underlying as? S3Error)
                #expect(cause.reason == (condition == .absent ? .noExclusiveCreation : .noConditionalReplacement))
                #expect(cause.detail == (isMultipart ? "CompleteMultipartUpload" : "PutObject"))
            }
        }
        #expect(server.objects == ["a": Data("old".utf8)])
        #expect(server.ownObjects.isEmpty)
        #expect(server.content.uploads.isEmpty)
        // The other kind of upload keeps its promise.
        try await store.save(pattern(3_000 - size), to: "b", overwrite: false)
        try await store.save(pattern(size), to: "a")
        #expect(server.objects["a"] == pattern(size))
    }

    @Test("a server is tried once, and again after a failure")
    func tests() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(20) }
        server.next("PUT", "", .fails(403, "AccessDenied"))
        await expectFailure(.notPermitted) { try await store.save(Data(), to: "a", overwrite: false) }
        for key in ["a", "b", "c"] { try await store.save(Data(), to: key, overwrite: false) }
        let tests = server.requests.filter { $0.method == "PUT" && $0.path.contains("#tmp-s3/test-") }
        #expect(tests.count == 3)
    }

    @Test("an answer without an ETag does not decide about a server")
    func undecided() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("PUT", "~#tmp-s3/test-", .hidesAnswer("InternalError"))
        await expectFailure(.unavailable(.server)) { try await store.save(Data(), to: "a", overwrite: false) }
        try await store.save(Data(), to: "a", overwrite: false)
    }

    @Test("a cancelled save does not wait for the test of the server, which goes on for others")
    func cancelledTest() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("PUT", "~#tmp-s3/test-", .isLate(.seconds(15)))
        let start = ContinuousClock.now
        let cancelled = Task { try await store.save(Data(), to: "a", overwrite: false) }
        while server.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let other = Task { try await store.save(Data(), to: "b", overwrite: false) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(ContinuousClock.now - start < .seconds(14))
        try await other.value
        #expect(server.requests.filter { $0.path.contains("#tmp-s3/test-") && $0.method == "PUT" }.count == 2)
    }

    @Test("a save of a revision replaces only the write that it names", arguments: sizes)
    func revisions(_ size: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        let first = try #require(try await store.save(pattern(size), to: "a", if: .always).revision)
        #expect(try await store.revision(of: "a") == first)
        // The same content by another write, with the same ETag.
        let second = try #require(try await store.save(pattern(size), to: "a", if: .always).revision)
        #expect(first != second)
        await expectFailure(.conflict) { try await store.save(pattern(size, seed: 1), to: "a", if: .unchanged(first)) }
        let third = try await store.save(pattern(size, seed: 1), to: "a", if: .unchanged(second))
        #expect(server.objects == ["a": pattern(size, seed: 1)])
        try await store.delete("a")
        await expectFailure(.conflict) {
            try await store.save(Data(), to: "a", if: .unchanged(try #require(third.revision)))
        }
        #expect(server.objects.isEmpty)
    }

    @Test("a file that is replaced or deleted after the look at it is a conflict", arguments: sizes)
    func race(_ size: Int) async throws {
        for isDeleted in [false, true] {
            let server = try FaultyS3()
            let store = try server.store()
            let first = try #require(try await store.save(Data("old".utf8), to: "a", if: .always).revision)
            server.next(
                size > 1_000 ? "POST" : "PUT", size > 1_000 ? "/b/a?uploadId" : "/b/a",
                .after { content in
                    if isDeleted { content.objects["a"] = nil } else { _ = content.put("a", Data("other".utf8)) }
                })
            await expectFailure(.conflict) { try await store.save(pattern(size), to: "a", if: .unchanged(first)) }
            #expect(server.objects == (isDeleted ? [:] : ["a": Data("other".utf8)]))
        }
    }

    @Test("a conditional save whose answer is lost is known as our own")
    func ownReplacement() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        let first = try #require(try await store.save(Data("old".utf8), to: "a", if: .always).revision)
        server.next("PUT", "/b/a", .losesAnswer)
        let second = try await store.save(Data("new".utf8), to: "a", if: .unchanged(first))
        #expect(try await store.revision(of: "a") == second.revision)
    }
}
#endif
