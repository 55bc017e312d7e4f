#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing

@testable import ForgeS3

@Suite("The removal of abandoned uploads in S3")
struct S3SweepTests {
    private let age = Duration.seconds(3_600)

    /// Leaves an upload, as a process that has ended, or still runs.
    private func leave(_ server: FaultyS3, _ key: String, begun: Double, used: Double?, id: String = "u") {
        server.change { content in
            let parts = used == nil ? [:] : [1: Data("x".utf8), 2: Data("y".utf8)]
            content.uploads[id] = FaultyS3.Upload(
                key: key, parts: parts, begun: Date() - begun, used: Date() - (used ?? begun))
        }
    }

    @Test("an upload is removed if it began and received its last part long ago")
    func ages() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        leave(server, "a", begun: 90_000, used: 3_700, id: "old")
        leave(server, "a", begun: 3_700, used: nil, id: "empty")
        leave(server, "a", begun: 90_000, used: 60, id: "receives parts")
        leave(server, "a", begun: 60, used: nil, id: "began now")
        #expect(try await store.removeAbandonedUploads(olderThan: age) == 2)
        #expect(Set(server.content.uploads.keys) == ["receives parts", "began now"])
        #expect(try await store.removeAbandonedUploads() == 0)
    }

    @Test("uploads to objects that are no keys of the store, or beside its prefix, are kept")
    func foreign() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.prefix = "app/" }
        leave(server, "app/a/b", begun: 3_700, used: 3_700, id: "own")
        leave(server, "app/#tmp-s3/probe", begun: 3_700, used: 3_700, id: "the store's own")
        for key in ["app", "apple/a", "other", "app//a", "app/a/"] {
            leave(server, key, begun: 3_700, used: 3_700, id: "foreign \(key)")
        }
        #expect(try await store.removeAbandonedUploads(olderThan: age) == 2)
        #expect(server.content.uploads.keys.allSatisfy { $0.hasPrefix("foreign") })
        #expect(server.content.uploads.count == 5)
    }

    @Test("an upload whose beginning had no answer, or whose end has an unknown outcome, is removed later")
    func lostAnswers() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(9) }
        server.next("POST", "/b/a?uploads", .losesAnswer)
        try await store.save(pattern(2_500), to: "a")
        #expect(server.content.uploads.count == 1)
        server.next(
            "POST", "/b/b?uploadId", .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)),
            .isLate(.seconds(20)))
        await expectFailure(.unknownOutcome) { try await store.save(pattern(2_000), to: "b") }
        server.change { content in
            for id in content.uploads.keys {
                content.uploads[id]?.begun -= 3_700
                content.uploads[id]?.used -= 3_700
            }
        }
        let count = server.content.uploads.count
        #expect(try await store.removeAbandonedUploads(olderThan: age) == count)
        #expect(server.content.uploads.isEmpty)
        #expect(server.objects["a"] == pattern(2_500))
        #expect(server.ownObjects.isEmpty)
    }

    @Test("a failed beginning changes no object", arguments: [403, 500])
    func notBegun(_ status: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(12) }
        server.next("POST", "/b/a?uploads", .fails(status, "Code"))
        for _ in 0..<100 { server.next("POST", "/b/a?uploads", .fails(500, "InternalError")) }
        await expectFailure(status == 403 ? .notPermitted : .unavailable(.server)) {
            try await store.save(pattern(2_500), to: "a")
        }
        #expect(server.ownObjects.isEmpty)
    }
}
#endif
