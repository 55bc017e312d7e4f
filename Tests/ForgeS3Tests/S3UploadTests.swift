#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing
@testable import ForgeS3

@Suite("Files in parts in S3")
struct S3UploadTests {
    @Test(
        "every size around the size of a part is stored and loaded",
        arguments: [0, 1, 999, 1_000, 1_001, 2_000, 12_345])
    func sizes(_ size: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(pattern(size), to: "a")
        #expect(server.objects["a"] == pattern(size))
        #expect(try await store.load("a") == pattern(size))
        var content = Data()
        for try await part in store.contents(of: "a") {
            #expect(part.count <= 1_000)
            content += part
        }
        #expect(content == pattern(size))
        let reader = try await store.reader(for: "a")
        #expect(try await reader.readAll() == pattern(size))
        #expect(try await reader.read(Int64(size / 3)..<Int64(size)) == pattern(size)[(size / 3)...])
        #expect(server.ownObjects.isEmpty)
    }

    @Test("a reader has the metadata that another program has stored with the object, without the store's own")
    func attributes() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        try await store.save(Data("own".utf8), to: "own")
        #expect(try await store.reader(for: "own").attributes() == [:])
        try await store.put("other", headers: [("X-Amz-Meta-Author", "Ada, Grace"), ("x-amz-meta-note", "")])
        let reader = try await store.reader(for: "other")
        #expect(try await reader.attributes() == ["author": "Ada, Grace", "note": ""])
        try await store.save(Data("own".utf8), to: "other")
        #expect(try await reader.attributes() == ["author": "Ada, Grace", "note": ""])
        #expect(try await store.reader(for: "other").attributes() == [:])
    }

    @Test("a writer stores what it was given when it is committed, and nothing before", arguments: [500, 5_500])
    func writer(_ size: Int) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        let writer = try store.writer(for: "a")
        for start in stride(from: 0, to: size, by: 300) {
            try await writer.write(pattern(size)[start..<min(start + 300, size)])
        }
        #expect(server.requests.isEmpty)
        let file = try await writer.commit()
        #expect(file.sizeInBytes == size)
        #expect(try await store.revision(of: "a") == file.revision)
        #expect(try await store.load("a") == pattern(size))
        await expectFailure(.closed) { try await writer.write(Data()) }
        await expectFailure(.closed) { try await writer.commit() }
        let other = try store.writer(for: "b")
        try await other.write(pattern(size))
        await other.cancel()
        await expectFailure(.closed) { try await other.commit() }
        #expect(server.objects.count == 1)
    }

    @Test("a writer does not commit after a cancelled write, whose bytes are missing", arguments: [500, 5_500])
    func cancelledWrite(_ size: Int) async throws {
        let server = try FaultyS3()
        let writer = try server.store().writer(for: "a")
        try await writer.write(pattern(size))
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await writer.write(pattern(size))
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        await expectFailure(.closed) { try await writer.write(pattern(size)) }
        await expectFailure(.closed) { try await writer.commit() }
        #expect(server.requests.isEmpty)
    }

    @Test("a failure in the middle of an upload is repeated for its part alone")
    func part() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("PUT", "/b/a?partNumber&uploadId", .fails(500, "InternalError"), .losesAnswer, .losesRequest)
        try await store.save(pattern(5_000), to: "a")
        #expect(server.objects["a"] == pattern(5_000))
        #expect(server.count("PUT", "/b/a?partNumber&uploadId") == 8)
    }

    @Test(
        "an upload that fails is aborted, with its record",
        arguments: [
            ("PUT", "/b/a?partNumber&uploadId"), ("POST", "/b/a?uploadId"), ("POST", "/b/a?uploads"),
        ])
    func aborted(_ method: String, _ request: String) async throws {
        let server = try FaultyS3()
        server.next(method, request, .fails(403, "AccessDenied"))
        await expectFailure(.notPermitted) { try await server.store().save(pattern(5_000), to: "a") }
        #expect(server.count("POST", "/b/a?uploads") == 1)
        #expect(server.content.uploads.isEmpty)
        #expect(server.content.objects.isEmpty)
    }

    @Test("an error document with status 200 is an error; a transient one is retried, another ends the upload")
    func errorsIn200() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("POST", "/b/a?uploadId", .fails(200, "InternalError"), .fails(200, "SlowDown"))
        try await store.save(pattern(2_000), to: "a")
        #expect(server.objects["a"] == pattern(2_000))
        server.next("POST", "/b/c?uploadId", .fails(200, "AccessDenied"))
        await expectFailure(.notPermitted) { try await store.save(pattern(2_000), to: "c") }
        #expect(server.objects["c"] == nil)
        #expect(server.content.uploads.isEmpty)
    }

    @Test("an upload whose last answer is lost has stored its file; after another write its outcome is unknown")
    func lostEnd() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("POST", "/b/a?uploadId", .losesAnswer)
        try await store.save(pattern(2_000), to: "a")
        #expect(server.objects["a"] == pattern(2_000))
        server.next(
            "POST", "/b/a?uploadId", .before { content in _ = content.put("a", Data("other".utf8)) })
        try await store.save(pattern(2_000), to: "a")
        server.next(
            "POST", "/b/a?uploadId", .losesAnswer, .after { content in _ = content.put("a", Data("other".utf8)) })
        await expectFailure(.unknownOutcome) { try await store.save(pattern(2_000), to: "a") }
    }

    @Test("a cancelled upload is aborted, with its record")
    func cancelled() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        server.next("PUT", "/b/a?partNumber&uploadId", .isLate(.seconds(60)))
        let task = Task { try await store.save(pattern(5_000), to: "a") }
        while server.count("PUT", "/b/a?partNumber&uploadId") == 0 { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(server.content.uploads.isEmpty)
        #expect(server.content.objects.isEmpty)
    }

    @Test("a copied file is sent in parts; a source that changes meanwhile is not stored")
    func copies() async throws {
        let server = try FaultyS3()
        let store = try server.store()
        let url = FileManager.default.temporaryDirectory.appending(path: "forge-s3-\(UUID().uuidString)")
        try pattern(4_500).write(to: url)
        defer { do { try FileManager.default.removeItem(at: url) } catch {} }
        try await store.copy(from: url, to: "a")
        #expect(server.objects["a"] == pattern(4_500))
        server.next(
            "PUT", "/b/c?partNumber&uploadId",
            .after { _ in
                let handle = FileHandle(forWritingAtPath: url.path)
                handle?.write(Data([9]))
            })
        await expectFailure(.invalidSource(.changed)) { try await store.copy(from: url, to: "c") }
        #expect(server.objects["c"] == nil)
        #expect(server.content.uploads.isEmpty)
    }
}

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
