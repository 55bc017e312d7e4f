#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing

@testable import ForgeS3

@Suite("Unusual answers of a server in S3")
struct S3AnswerTests {
    /// A store in a server that gives every request the same answer.
    private func store(answering answer: LoopbackHTTP.Answer) throws -> (S3FileStore, LoopbackHTTP) {
        let server = try LoopbackHTTP { _ in answer }
        let credentials = S3CredentialSource.values(S3Credentials(accessKeyID: "i", secretAccessKey: "s"))
        return (
            try S3FileStore(.init(bucket: "b", region: "r", credentials: credentials, endpoint: server.endpoint)),
            server
        )
    }

    @Test("a document that is longer than 8 MiB is an error that says so")
    func longDocument() async throws {
        let text = "<ListBucketResult>\(String(repeating: " ", count: 8 << 20))</ListBucketResult>"
        let (store, server) = try self.store(answering: .xml(text))
        let error = await expectFailure(.unavailable(.server)) { try await store.list() }
        let cause = error?.underlying as? S3Error
        #expect(cause?.reason == .invalidAnswer)
        #expect(cause?.detail == "it has more than 8388608 bytes")
        withExtendedLifetime(server) {}
    }

    @Test("a file whose size the server does not say is an error, not a file of no bytes")
    func noLength() async throws {
        let (store, server) = try self.store(answering: .init(headers: ["ETag": "\"1\""], hasLength: false))
        for call in [{ _ = try await store.info("a") }, { _ = try await store.reader(for: "a") }] {
            let error = await expectFailure(.unavailable(.server)) { try await call() }
            #expect((error?.underlying as? S3Error)?.reason == .invalidAnswer)
        }
        withExtendedLifetime(server) {}
    }

    @Test("directories whose names differ in their composition alone are all listed")
    func compositions() async throws {
        let keys = ["\u{E9}/a", "e\u{301}/a"].map {
            "<Contents><Key>\($0)</Key><Size>0</Size><LastModified>2013-05-24T00:00:00Z</LastModified></Contents>"
        }
        let (store, server) = try self.store(
            answering: .xml("<ListBucketResult>\(keys.joined())</ListBucketResult>"))
        let found = try await store.list(recursive: true).map { Array($0.key.utf8) }
        #expect(Set(found).count == 4)
        withExtendedLifetime(server) {}
    }

    @Test("an error of the temporary file of a writer is one of the store, with its key", arguments: [500, 2_500])
    func temporaryFile(_ size: Int64) async throws {
        let server = try FaultyS3()
        let store = try server.store()
        // The file has fewer bytes than were written.
        let file = S3TemporaryFile.complete(try S3TemporaryFile.create(), sizeInBytes: size)
        let content = S3Content(file, checksum: "c")
        let error = await expectFailure(.unavailable(.inputOutput)) {
            try await store.store(content, to: "d/a", .always, .save)
        }
        #expect(error?.key == "d/a")
        #expect(server.content.uploads.isEmpty)
        #expect(server.content.objects.isEmpty)
    }

    @Test("the types of errors in metrics are words of a bounded set")
    func errorTypes() {
        #expect(S3Error(.refused, status: 404, code: "NoSuchKey").type == "NoSuchKey")
        #expect(S3Error(.refused, status: 499, code: "Bucket-17-is-busy").type == "499")
        #expect(S3Error(.timeout).type == "timeout")
    }
}
#endif
