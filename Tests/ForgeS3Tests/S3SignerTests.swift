#if S3
import Foundation
import Testing

@testable import ForgeS3

/// The examples of AWS: "Signature Calculations for the Authorization Header" and "Authenticating Requests: Using Query
/// Parameters" in the Amazon S3 API Reference, and the test suite of Signature Version 4.
@Suite("Signatures of requests")
struct S3SignerTests {
    private static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    private static let date = Date(timeIntervalSince1970: 1_369_353_600)
    private static let signer = S3Signer(
        credentials: S3Credentials(
            accessKeyID: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region: "us-east-1")

    struct Example: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var wire: S3Wire
        var payload = S3SignerTests.empty
        var signature: String
    }

    private static func wire(
        _ method: String, _ path: String, _ query: [(String, String)] = [], _ headers: [(String, String)] = []
    ) -> S3Wire {
        S3Wire(
            method: method, host: "examplebucket.s3.amazonaws.com", path: S3Encoding.path(path), query: query,
            headers: headers)
    }

    private static let examples = [
        Example(
            testDescription: "GET Object", wire: wire("GET", "/test.txt", [], [("Range", "bytes=0-9")]),
            signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        Example(
            testDescription: "PUT Object",
            wire: wire(
                "PUT", "/test$file.text", [],
                [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")]),
            payload: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
        Example(
            testDescription: "GET Bucket Lifecycle", wire: wire("GET", "/", [("lifecycle", "")]),
            signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        Example(
            testDescription: "Get Bucket (List Objects)",
            wire: wire("GET", "/", [("prefix", "J"), ("max-keys", "2")]),
            signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ]

    @Test("the examples of the reference have their signatures", arguments: examples)
    func headers(_ example: Example) throws {
        var wire = example.wire
        Self.signer.sign(&wire, payload: example.payload, at: Self.date)
        let value = try #require(wire.headers.first { $0.0 == "Authorization" }?.1)
        #expect(value.hasSuffix("Signature=\(example.signature)"))
        #expect(value.hasPrefix("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"))
    }

    @Test("the presigned example of the reference has its URL")
    func presigned() {
        var wire = Self.wire("GET", "/test.txt")
        Self.signer.presign(&wire, validFor: 86_400, at: Self.date)
        #expect(
            wire.url
                == "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
                + "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
                + "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
                + "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
                + "&X-Amz-SignedHeaders=host")
    }

    @Test("a session token is signed, in headers and in URLs")
    func token() {
        var signer = Self.signer
        signer.credentials = S3Credentials(accessKeyID: "A", secretAccessKey: "B", sessionToken: "a+/=")
        var wire = Self.wire("GET", "/a")
        signer.sign(&wire, payload: Self.empty, at: Self.date)
        #expect(wire.headers.contains { $0 == ("x-amz-security-token", "a+/=") })
        #expect(wire.headers.last?.1.contains("host;x-amz-content-sha256;x-amz-date;x-amz-security-token,") == true)
        var other = Self.wire("GET", "/a")
        signer.presign(&other, validFor: 1, at: Self.date)
        #expect(other.url.contains("&X-Amz-Security-Token=a%2B%2F%3D&"))
    }

    @Test(
        "paths and names are encoded as S3 wants it",
        arguments: [
            ("a b/c+d", "a%20b/c%2Bd", "a%20b%2Fc%2Bd"), ("~-_.", "~-_.", "~-_."),
            ("ä*?&=%", "%C3%A4%2A%3F%26%3D%25", nil),
            ("/\u{1F600}", "/%F0%9F%98%80", "%2F%F0%9F%98%80"),
        ])
    func encoding(_ text: String, _ path: String, _ component: String?) {
        #expect(S3Encoding.path(text) == path)
        #expect(S3Encoding.component(text) == component ?? path)
        #expect(S3Encoding.decodingListed(path) == text)
    }

    @Test("a listed name has plus signs for spaces, and is refused if it is not valid")
    func listed() {
        #expect(S3Encoding.decodingListed("a+b%2Bc") == "a b+c")
        for text in ["%", "%2", "%zz", "%ff"] { #expect(S3Encoding.decodingListed(text) == nil, "\(text)") }
    }

    @Test("a request for a key has its host, path and port")
    func places() throws {
        var configuration = S3FileStore.Configuration(bucket: "files", region: "eu-west-1")
        #expect(try url(configuration) == "https://files.s3.eu-west-1.amazonaws.com/a%20b")
        configuration.addressing = .path
        #expect(try url(configuration) == "https://s3.eu-west-1.amazonaws.com/files/a%20b")
        configuration.addressing = nil
        configuration.bucket = "my.files"
        #expect(try url(configuration) == "https://s3.eu-west-1.amazonaws.com/my.files/a%20b")
        configuration.endpoint = "http://127.0.0.1:9000"
        #expect(try url(configuration) == "http://127.0.0.1:9000/my.files/a%20b")
        configuration.endpoint = "https://storage:443"
        configuration.addressing = .host
        #expect(try url(configuration) == "https://my.files.storage/a%20b")
    }

    private func url(_ configuration: S3FileStore.Configuration) throws -> String {
        try S3Place(configuration).wire("GET", object: "a b", query: []).url
    }

    @Test(
        "a configuration that leads elsewhere is refused",
        arguments: [
            ("", "r", nil), ("a/b", "r", nil), ("a", "r/", nil), ("a", "r", "ftp://h"), ("a", "r", "https://h/path"),
            ("a", "r", "https://user@h"), ("a", "r", "h"),
        ])
    func refused(_ bucket: String, _ region: String, _ endpoint: String?) {
        #expect(throws: S3Error.self) {
            try S3FileStore(.init(bucket: bucket, region: region, endpoint: endpoint))
        }
    }
}
#endif
