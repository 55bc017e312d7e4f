#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing

@testable import ForgeS3

@Suite("The sweep of uploads in S3")
struct S3SweepTests {
    @Test("only old uploads of the store itself are removed")
    func abandoned() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.abandonedUploadAge = .seconds(3_600) }
        // The end of an upload whose outcome is unknown leaves its record.
        let short = try server.store { $0.deadline = .seconds(9) }
        server.next(
            "POST", "/b/a?uploadId", .isLate(.seconds(20)), .isLate(.seconds(20)), .isLate(.seconds(20)),
            .isLate(.seconds(20)))
        await expectFailure(.unknownOutcome) { try await short.save(pattern(2_000), to: "a") }
        server.change { content in
            content.uploads["upload1"] = FaultyS3.Upload(key: "a", used: Date() - 3_700)
            content.uploads["foreign"] = FaultyS3.Upload(key: "a", used: Date() - 3_700)
        }
        #expect(server.ownObjects.count == 1)
        #expect(try await store.removeAbandonedUploads() == 0)
        #expect(server.content.uploads.count == 2)
        server.change { content in
            for key in content.objects.keys { content.objects[key]?.modified -= 3_700 }
        }
        #expect(try await store.removeAbandonedUploads() == 1)
        #expect(Set(server.content.uploads.keys) == ["foreign"])
        #expect(server.ownObjects.isEmpty)
    }

    /// An upload of a process that has ended, or still runs, with its record.
    private func leaveUpload(_ server: FaultyS3, recorded: Double, used: Double, id: String? = "u") throws {
        var record = S3UploadRecord(object: "a", seconds: 60)
        record.upload = id
        let data = try JSONEncoder().encode(record)
        server.change { content in
            let start = Date() - recorded
            let name = "#tmp-s3/uploads/r"
            _ = content.put(name, data)
            content.objects[name]?.modified = start
            content.uploads["u"] = FaultyS3.Upload(
                key: "a", parts: [1: Data("x".utf8), 2: Data("y".utf8)], begun: start, used: Date() - used)
        }
    }

    @Test("an upload that was recorded long ago and still receives parts is kept, with its record")
    func live() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.abandonedUploadAge = .seconds(3_600) }
        for id in ["u", nil] {
            try leaveUpload(server, recorded: 90_000, used: 60, id: id)
            #expect(try await store.removeAbandonedUploads() == 0)
            #expect(server.content.uploads.count == 1)
            #expect(server.ownObjects.count == 1)
            try leaveUpload(server, recorded: 90_000, used: 3_700, id: id)
            #expect(try await store.removeAbandonedUploads() == 1)
            #expect(server.content.uploads.isEmpty)
            #expect(server.ownObjects.isEmpty)
        }
    }

    @Test("an upload without parts is removed when its record is old")
    func empty() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.abandonedUploadAge = .seconds(3_600) }
        try leaveUpload(server, recorded: 3_700, used: 3_700)
        server.change { $0.uploads["u"]?.parts = [:] }
        #expect(try await store.removeAbandonedUploads() == 1)
        #expect(server.content.uploads.isEmpty)
    }

    @Test("an upload whose beginning had no answer is removed; those to other files and of other times are kept")
    func unnamed() async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.abandonedUploadAge = .seconds(3_600) }
        server.next("POST", "/b/a?uploads", .losesAnswer)
        try await store.save(pattern(2_500), to: "a")
        #expect(server.content.uploads.count == 1)
        #expect(server.ownObjects.count == 1)
        server.change { content in
            for key in content.objects.keys { content.objects[key]?.modified -= 3_700 }
            for id in content.uploads.keys { content.uploads[id]?.begun -= 3_700 }
            for key in ["a", "a/b", "b"] {
                content.uploads["foreign \(key)"] = FaultyS3.Upload(
                    key: key, begun: Date() - (key == "a" ? 80_000 : 3_700), used: Date() - 3_700)
            }
        }
        #expect(try await store.removeAbandonedUploads() == 1)
        #expect(Set(server.content.uploads.keys) == ["foreign a", "foreign a/b", "foreign b"])
        #expect(server.ownObjects.isEmpty)
        #expect(server.objects["a"] == pattern(2_500))
    }

    @Test("an upload whose beginning fails leaves a record only if it may have begun", arguments: [403, 500])
    func notBegun(_ status: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store { $0.deadline = .seconds(12) }
        server.next("POST", "/b/a?uploads", .fails(status, "Code"))
        for _ in 0..<100 { server.next("POST", "/b/a?uploads", .fails(500, "InternalError")) }
        await expectFailure(status == 403 ? .notPermitted : .unavailable(.server)) {
            try await store.save(pattern(2_500), to: "a")
        }
        #expect(server.ownObjects.count == (status == 403 ? 0 : 1))
    }

    @Test("a record that is not valid removes neither an upload nor an object")
    func invalid() async throws {
        let server = try FaultyS3()
        let store = try server.store {
            $0.abandonedUploadAge = .seconds(3_600)
            $0.prefix = "app/"
        }
        try await store.save(Data("x".utf8), to: "a")
        let contents = [
            #"{"version":1,"object":"app/a","upload":"","seconds":60}"#,
            #"{"version":1,"object":"other","upload":"u","seconds":60}"#, "{}", "",
            #"{"version":1,"object":"app/a","upload":"u","seconds":1e300}"#,
        ]
        server.change { content in
            for (number, text) in contents.enumerated() {
                let name = "app/#tmp-s3/uploads/\(number)"
                _ = content.put(name, Data(text.utf8))
                content.objects[name]?.modified -= 3_700
            }
            content.uploads["u"] = FaultyS3.Upload(key: "other", used: Date() - 3_700)
        }
        #expect(try await store.removeAbandonedUploads() == 0)
        #expect(try await store.load("a") == Data("x".utf8))
        #expect(server.content.uploads.count == 1)
        #expect(server.requests.allSatisfy { $0.method != "DELETE" })
    }
}
#endif
