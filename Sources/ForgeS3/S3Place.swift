#if S3
import ForgeFileStore
import ForgeFileSystem

/// The bucket of a store: the URLs of its objects and the keys of its files.
struct S3Place: Sendable {
    /// The longest key of an object, in bytes ("Creating object key names", Amazon S3 User Guide).
    static let maximumKeyLength = 1024

    /// Objects of the store itself, whose names are no valid keys of files.
    static let reserved = "#tmp-s3/"

    /// The beginning of the objects of records of uploads.
    var records: String { prefix + Self.reserved + "uploads/" }

    let scheme: String
    let host: String
    let bucketPath: String
    let prefix: String

    /// - Throws: ``S3Error`` with the reason `invalidConfiguration`.
    init(_ configuration: S3FileStore.Configuration) throws(S3Error) {
        let bucket = configuration.bucket
        let isName: (UInt8) -> Bool = { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte || [45, 46, 95].contains(byte)
        }
        guard !bucket.isEmpty, bucket.utf8.allSatisfy(isName), !bucket.hasPrefix(".") else {
            throw S3Error(.invalidConfiguration, detail: "the name of the bucket")
        }
        guard !configuration.region.isEmpty, configuration.region.utf8.allSatisfy(isName) else {
            throw S3Error(.invalidConfiguration, detail: "the region")
        }
        let domain = configuration.region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
        let endpoint = configuration.endpoint ?? "https://s3.\(configuration.region).\(domain)"
        let parts = endpoint.split(separator: "://", maxSplits: 1)
        guard parts.count == 2, ["http", "https"].contains(parts[0]), !parts[1].isEmpty,
            parts[1].utf8.allSatisfy({ isName($0) || [58, 91, 93].contains($0) })
        else { throw S3Error(.invalidConfiguration, detail: "the endpoint") }
        scheme = String(parts[0])
        // A signature has the port only if the client sends it.
        let port = scheme == "http" ? ":80" : ":443"
        let server = parts[1].hasSuffix(port) ? String(parts[1].dropLast(port.count)) : String(parts[1])
        // The certificate of a host with a dot in the bucket's name is not valid.
        let isHostStyle = configuration.endpoint == nil && !bucket.contains(".")
        switch configuration.addressing ?? (isHostStyle ? .host : .path) {
        case .host: (host, bucketPath) = ("\(bucket).\(server)", "")
        case .path: (host, bucketPath) = (server, "/\(bucket)")
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

    /// A request for an object, or with nil for the bucket.
    func wire(_ method: String, object: String?, query: [(String, String)]) -> S3Wire {
        let path = object.map { "\(bucketPath)/\(S3Encoding.path($0))" } ?? (bucketPath.isEmpty ? "/" : bucketPath)
        return S3Wire(method: method, scheme: scheme, host: host, path: path, query: query)
    }
}
#endif
