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

@Suite("Documents and times of S3")
struct S3DocumentTests {
    @Test("a document is read with its elements, references and comments")
    func document() throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <!-- a -->
            <Result xmlns="http://s3/">
              <A x='1>2'>a&amp;b&#x1F600;&#65;&lt;</A><B/><A>2<!-- c --></A>
            </Result>
            """
        let document = try #require(S3Document(text.utf8))
        #expect(document.name == "Result")
        #expect(document.all("A").map(\.text) == ["a&b😀A<", "2"])
        #expect(document["B"]?.text == "")
    }

    @Test(
        "a document that is cut, unbalanced, too deep or has a document type is refused",
        arguments: [
            "", "<a>", "<a></b>", "<a>&x;</a>", "<a>&#0;x</a>&", "<a/><b/>", "<!DOCTYPE a []><a/>", "<a>&amp</a>",
            "text",
            String(repeating: "<a>", count: 40) + String(repeating: "</a>", count: 40),
        ])
    func invalid(_ text: String) { #expect(S3Document(text.utf8) == nil) }

    @Test("every cut of a document is refused")
    func cut() {
        let text = Array("<a b=\"c\"><d>&amp;</d><!-- e --></a>".utf8)
        for count in 0..<text.count { #expect(S3Document(text.prefix(count)) == nil, "\(count) bytes") }
    }

    @Test("a text is escaped and read back; one that XML cannot represent is refused")
    func escaping() throws {
        let text = "a<b>&\"'\r\n\té"
        let escaped = try #require(S3Document.escaping(text))
        #expect(S3Document("<a>\(escaped)</a>".utf8)?.text == text)
        #expect(S3Document.escaping("a\u{FFFE}") == nil)
        #expect(S3Document.escaping("\u{1}") == nil)
    }

    @Test("times are read and written")
    func times() {
        let date = Date(timeIntervalSince1970: 1_369_353_600)
        #expect(S3Date.stamp(date) == "20130524T000000Z")
        #expect(S3Date.header("Fri, 24 May 2013 00:00:00 GMT") == date)
        #expect(S3Date.listed("2013-05-24T00:00:00.000Z") == date)
        #expect(S3Date.listed("2013-05-24T00:00:00Z") == date)
        #expect(S3Date.listed("2013-05-24T02:00:00.5+02:00") == date)
        for text in ["", "Fri, 24 Foo 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 CET", "24"] {
            #expect(S3Date.header(text) == nil)
            #expect(S3Date.listed(text) == nil)
        }
    }

    @Test("Retry-After is a number of seconds or a date")
    func wishes() {
        let now = Date(timeIntervalSince1970: 1_369_353_600)
        #expect(S3Attempt.wish("3", at: now) == .seconds(3))
        #expect(S3Attempt.wish("Fri, 24 May 2013 00:00:07 GMT", at: now) == .seconds(7))
        #expect(S3Attempt.wish("-3", at: now) == .zero)
        #expect(S3Attempt.wish("soon", at: now) == nil)
    }
}
#endif
