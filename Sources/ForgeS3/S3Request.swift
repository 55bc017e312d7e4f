#if S3
import ForgeFileStore
import ForgeFileSystem
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

    private static let prefix = "x-amz-meta-"
    static let writeIDHeader = prefix + "forge-write"
    static let checksumHeader = prefix + "forge-sha256"

    init(writeID: String) { self.writeID = writeID }

    init(_ headers: HTTPHeaders) {
        writeID = headers.first(name: Self.writeIDHeader)
        checksum = headers.first(name: Self.checksumHeader)
    }

    /// The metadata that other programs have stored with an object, by their names in lower case without the prefix.
    static func attributes(_ headers: HTTPHeaders) -> [String: String] {
        var attributes: [String: String] = [:]
        for (header, value) in headers {
            let header = header.lowercased()
            guard header != writeIDHeader, header != checksumHeader, let name = header.droppingBytePrefix(prefix) else {
                continue
            }
            // Several fields of a name are one list (RFC 9110, section 5.3).
            attributes[name] = attributes[name].map { $0 + ", " + value } ?? value
        }
        return attributes
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

/// The bucket of a store: the URLs of its objects and the keys of its files.
struct S3Place: Sendable {
    /// The longest key of an object, in bytes ("Creating object key names", Amazon S3 User Guide).
    static let maximumKeyLength = 1024

    /// Objects of the store itself, whose names are no valid keys of files.
    static let reserved = "#tmp-s3/"

    let scheme: String
    let host: String
    let bucketPath: String
    let prefix: String

    /// The bucket and the server, for errors.
    let text: String

    /// - Throws: ``S3Error`` with the reason `invalidConfiguration`.
    init(_ configuration: S3FileStore.Configuration) throws(S3Error) {
        let bucket = configuration.bucket
        let isName: (UInt8) -> Bool = { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte || [45, 46, 95].contains(byte)
        }
        guard !bucket.isEmpty, bucket.utf8.allSatisfy(isName), !bucket.hasBytePrefix(".") else {
            throw S3Error(.invalidConfiguration, detail: "the name of the bucket")
        }
        guard !configuration.region.isEmpty, configuration.region.utf8.allSatisfy(isName) else {
            throw S3Error(.invalidConfiguration, detail: "the region")
        }
        let domain = configuration.region.hasBytePrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
        let endpoint = configuration.endpoint ?? "https://s3.\(configuration.region).\(domain)"
        guard let (scheme, server) = endpoint.splitAtBytes("://"), ["http", "https"].contains(scheme), !server.isEmpty,
            server.utf8.allSatisfy({ isName($0) || [58, 91, 93].contains($0) })
        else { throw S3Error(.invalidConfiguration, detail: "the endpoint") }
        self.scheme = scheme
        text = "s3://\(bucket) at \(endpoint)"
        // A signature has the port only if the client sends it.
        let port = scheme == "http" ? ":80" : ":443"
        let address = server.droppingByteSuffix(port) ?? server
        // The certificate of a host with a dot in the bucket's name is not valid.
        let isHostStyle = configuration.endpoint == nil && !bucket.utf8.contains(UInt8(ascii: "."))
        switch configuration.addressing ?? (isHostStyle ? .host : .path) {
        case .host: (host, bucketPath) = ("\(bucket).\(address)", "")
        case .path: (host, bucketPath) = (address, "/\(bucket)")
        }
        prefix = configuration.prefix
        // Otherwise `app` would be the beginning of the keys of another store, `application/`, too.
        guard prefix.isEmpty || prefix.utf8.last == UInt8(ascii: "/") else {
            throw S3Error(.invalidConfiguration, detail: "the prefix does not end with a slash")
        }
        guard configuration.partSizeInBytes > 0, configuration.transferCount > 0 else {
            throw S3Error(.invalidConfiguration, detail: "the size or number of parts")
        }
    }

    /// The object of a key: the key itself, or with a slash the marker of a directory.
    ///
    /// - Throws: `FileStoreError`: `.invalidKey`.
    func object(_ key: String, _ operation: FileStoreError.Operation) throws(FileStoreError) -> String {
        let checked: RelativeKey
        do {
            checked = try RelativeKey(key)
        } catch {
            throw FileStoreError(.invalidKey(error.reason), operation, key: key, underlying: error)
        }
        let object = prefix + checked.string
        guard object.utf8.count <= Self.maximumKeyLength else {
            throw FileStoreError(.invalidKey(.tooLong), operation, key: key)
        }
        return object
    }

    /// The key of an object of the store; nil for other objects.
    func key(ofObject object: String) -> String? {
        guard object.utf8.starts(with: prefix.utf8) else { return nil }
        let key = String(decoding: object.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
        do {
            return try RelativeKey(key).string
        } catch {
            return nil
        }
    }

    /// Whether an object is that of a key, or one of the store itself.
    func isOwn(_ object: String) -> Bool {
        key(ofObject: object) != nil || object.utf8.starts(with: (prefix + Self.reserved).utf8)
    }

    /// A request for an object, or with nil for the bucket.
    func wire(_ method: String, object: String?, query: [(String, String)]) -> S3Wire {
        let path = object.map { "\(bucketPath)/\(S3Encoding.path($0))" } ?? (bucketPath.isEmpty ? "/" : bucketPath)
        return S3Wire(method: method, scheme: scheme, host: host, path: path, query: query)
    }
}

/// The condition of a request that stores an object.
enum S3Condition: Hashable, Sendable {
    case none
    case absent

    /// The object has this ETag.
    case unchanged(etag: String)

    var headers: [(String, String)] {
        switch self {
        case .none: []
        case .absent: [("If-None-Match", "*")]
        case .unchanged(let etag): [("If-Match", etag)]
        }
    }

    /// The code of a failed save.
    var failure: FileStoreError.Code { self == .absent ? .alreadyExists : .conflict }
}

/// The revision of an object: the name of the write, and the ETag.
struct S3Revision: Hashable, Sendable {
    /// Nil for objects of other programs.
    var writeID: String?
    var etag: String

    init(writeID: String?, etag: String) {
        self.writeID = writeID
        self.etag = etag
    }

    /// Reads a revision; nil for one of another kind of store.
    init?(_ revision: FileRevision) {
        guard let (writeID, etag) = revision.rawValue.splitAtBytes(" "), !etag.isEmpty else { return nil }
        self.init(writeID: writeID.isEmpty ? nil : writeID, etag: etag)
    }

    var revision: FileRevision { FileRevision(rawValue: "\(writeID ?? "") \(etag)") }
}

extension S3Error {
    /// Whether a condition was not met. A server says `404` if the object that `If-Match` expects does not exist.
    func refuses(_ condition: S3Condition) -> Bool {
        guard reason == .refused, condition != .none else { return false }
        return status == 412 || code == "PreconditionFailed" || condition != .absent && code == "NoSuchKey"
    }
}
#endif
