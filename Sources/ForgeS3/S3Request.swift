#if S3
import ForgeFileStore
import Foundation
import NIOCore
import NIOHTTP1

/// A request of one call of a store.
struct S3Request: Sendable {
    /// The name of the operation in S3's API, such as `PutObject`.
    var name: String
    var method = "GET"

    /// The object; nil for the bucket.
    var object: String?
    var query: [(String, String)] = []
    var headers: [(String, String)] = []
    var body = ByteBuffer()

    /// The SHA-256 of the body in hexadecimal digits; nil if it must be computed.
    var payloadHash: String?

    /// Whether it changes something: then a lost answer leaves its outcome unknown.
    var isWrite = false

    /// Whether it creates something that a lost answer leaves at the server, without effect on any object.
    var isCreation = false

    /// Whether an answer with status 200 may report an error, and begins before the work is done
    /// ("CompleteMultipartUpload" and "CopyObject", Amazon S3 API Reference).
    var answersBeforeItsEnd = false

    /// Whether it is sent again after `409`, when another request for the object is under way.
    var repeatsAfterConflict = true

    /// The maximum size of the answer. A page of 1,000 of the longest keys, encoded, has less than 4 MiB.
    var maximumAnswerSizeInBytes = 8 << 20
}

/// An answer that is a success.
struct S3Response: Sendable {
    var status: Int
    var headers: HTTPHeaders
    var bytes = ByteBuffer()

    /// Whether an earlier attempt of a creation may have taken effect too.
    var followsLostAnswer = false

    /// The user's metadata.
    var metadata: S3Metadata { S3Metadata(headers) }

    var etag: String? { headers.first(name: "ETag") }

    var modified: Date { S3Date.header(headers.first(name: "Last-Modified")) ?? .distantPast }

    /// The size of the whole object.
    var sizeInBytes: Int64? {
        if let range = headers.first(name: "Content-Range"), let total = range.split(separator: "/").last {
            return Self.size(String(total))
        }
        return headers.first(name: "Content-Length").flatMap(Self.size)
    }

    /// A size that an object may have, with room beyond the present limit of 5 TiB.
    private static func size(_ text: String) -> Int64? {
        Int64(text).flatMap { (0...1 << 46).contains($0) ? $0 : nil }
    }

    /// The document in the body.
    func document() throws(S3Error) -> S3Document {
        guard let document = S3Document(bytes.readableBytesView) else {
            throw S3Error(.invalidAnswer, status: status, requestID: headers.first(name: "x-amz-request-id"))
        }
        return document
    }
}

/// The user metadata that the store writes with an object.
struct S3Metadata: Hashable, Sendable {
    /// A random name of the write that has stored the object.
    var writeID: String?

    /// The SHA-256 of the content in hexadecimal digits.
    var checksum: String?

    static let writeIDHeader = "x-amz-meta-forge-write"
    static let checksumHeader = "x-amz-meta-forge-sha256"

    init(writeID: String) { self.writeID = writeID }

    init(_ headers: HTTPHeaders) {
        writeID = headers.first(name: Self.writeIDHeader)
        checksum = headers.first(name: Self.checksumHeader)
    }

    var headers: [(String, String)] {
        [(Self.writeIDHeader, writeID), (Self.checksumHeader, checksum)].compactMap { name, value in
            value.map { (name, $0) }
        }
    }

    /// 128 random bits.
    static func newWriteID() -> String {
        var generator = SystemRandomNumberGenerator()
        return S3Encoding.hexadecimal((0..<16).map { _ in UInt8.random(in: 0 ... .max, using: &generator) })
    }
}
#endif
