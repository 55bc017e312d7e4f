#if S3
public import ForgeFileStore
import ForgeFileSystem
import Foundation

/// A request for a page of a listing.
struct S3ListRequest: Sendable {
    var prefix: String

    /// Whether all levels are listed.
    var isFlat: Bool
    var limit = 1_000
    var token: String?
}

/// A page of a listing.
struct S3Page: Sendable {
    struct Entry: Sendable {
        var object: String
        var sizeInBytes: Int64
        var modified: Date
    }

    var entries: [Entry] = []

    /// The beginnings of keys up to the next slash.
    var directories: [String] = []

    /// Where the next page begins; nil for the last.
    var token: String?

    var isEmpty: Bool { entries.isEmpty && directories.isEmpty }
}

extension S3FileStore {
    public func list(in directory: String) async throws -> [StoredFile] {
        try await list(in: directory, recursive: false)
    }

    public func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        let prefix = try prefix(of: directory, .list)
        var found: [StoredFile] = []
        // As bytes: equal strings can be different keys.
        var directories: Set<[UInt8]> = []
        var isEmpty = true
        try await forEachPage(S3ListRequest(prefix: prefix, isFlat: recursive), .list, directory) { page in
            isEmpty = isEmpty && page.isEmpty
            for entry in page.entries {
                // A marker is the directory that its key names.
                let isMarker = entry.object.utf8.last == UInt8(ascii: "/")
                guard let key = place.key(ofObject: isMarker ? String(entry.object.dropLast()) : entry.object)
                else { continue }
                for parent in Self.parents(of: key) + (isMarker ? [key] : [])
                where parent.utf8.count > directory.utf8.count && directories.insert(Array(parent.utf8)).inserted {
                    found.append(.directory(parent))
                }
                guard !isMarker else { continue }
                found.append(StoredFile(key: key, sizeInBytes: entry.sizeInBytes, modified: entry.modified))
            }
            for name in page.directories {
                guard let key = place.key(ofObject: String(name.dropLast())) else { continue }
                found.append(.directory(key))
            }
        }
        if isEmpty, !directory.isEmpty { throw try await noDirectory(directory, .list) }
        return found
    }

    /// Calls `files` with every file of the store, and `foreign` with every other object below its prefix: one whose name
    /// is no valid key, or that has content although it is named like a directory. Other programs have written those.
    ///
    /// - Parameters:
    ///   - files: Called in the order of the listing.
    ///   - foreign: Called with the name of the object behind the prefix, its size, and the reason.
    /// - Throws: ``FileStoreError`` of the listing, or the error of a closure.
    package func forEachObject(
        files: (StoredFile) throws -> Void, foreign: (String, Int64, String) throws -> Void
    ) async throws {
        try await forEachPage(S3ListRequest(prefix: place.prefix, isFlat: true), .list, "") { page in
            for entry in page.entries {
                let name = String(decoding: entry.object.utf8.dropFirst(place.prefix.utf8.count), as: UTF8.self)
                if entry.object.utf8.last == UInt8(ascii: "/") {
                    // An empty one stands for the directory that it names, or for the prefix itself.
                    guard entry.sizeInBytes > 0 else { continue }
                    try foreign(name, entry.sizeInBytes, "it is named like a directory, but has content")
                    continue
                }
                let key: RelativeKey
                do {
                    key = try RelativeKey(name)
                } catch {
                    try foreign(name, entry.sizeInBytes, "\(error)")
                    continue
                }
                try files(
                    StoredFile(key: key.string, sizeInBytes: entry.sizeInBytes, modified: entry.modified))
            }
        }
    }

    public func totalSize() async throws -> Int64 {
        var sum: Int64 = 0
        try await forEachPage(S3ListRequest(prefix: place.prefix, isFlat: true), .list, "") { page in
            for entry in page.entries where place.key(ofObject: entry.object) != nil {
                let (next, overflow) = sum.addingReportingOverflow(entry.sizeInBytes)
                sum = overflow ? .max : next
            }
        }
        return sum
    }

    /// The beginning of the keys of the objects in a directory.
    func prefix(of directory: String, _ operation: FileStoreError.Operation) throws -> String {
        directory.isEmpty ? place.prefix : try place.object(directory, operation) + "/"
    }

    /// The code for a missing directory: `.notDirectory` if the key is a file or below one, otherwise `.notFound`.
    func noDirectory(_ key: String, _ operation: FileStoreError.Operation) async throws -> FileStoreError {
        let isFile = try await areFiles(Self.parents(of: key) + [key], operation, key)
        return FileStoreError(isFile ? .notDirectory : .notFound, operation, key: key)
    }

    func forEachPage(
        _ request: S3ListRequest, _ operation: FileStoreError.Operation, _ key: String,
        _ body: (S3Page) async throws -> Void
    ) async throws {
        var request = request
        repeat {
            let page = try await page(request, operation, key)
            try await body(page)
            guard let token = page.token else { return }
            // A server that repeats its token would never end.
            guard token != request.token else { throw failure(S3Error(.invalidAnswer), operation, key) }
            request.token = token
        } while true
    }

    func page(
        _ request: S3ListRequest, _ operation: FileStoreError.Operation, _ key: String
    ) async throws -> S3Page {
        var query = [("list-type", "2"), ("encoding-type", "url"), ("max-keys", String(request.limit))]
        if !request.prefix.isEmpty { query.append(("prefix", request.prefix)) }
        if !request.isFlat { query.append(("delimiter", "/")) }
        if let token = request.token { query.append(("continuation-token", token)) }
        do throws(S3Error) {
            let response = try await transport.send(S3Request(name: "ListObjectsV2", query: query))
            return try S3Page(try response.document())
        } catch {
            throw failure(error, operation, key)
        }
    }
}

extension S3Page {
    init(_ document: S3Document) throws(S3Error) {
        guard document.name == "ListBucketResult" else { throw S3Error(.invalidAnswer) }
        let isEncoded = document["EncodingType"]?.text == "url"
        let name: (S3Document?) -> String? = { element in
            element.flatMap { isEncoded ? S3Encoding.decodingListed($0.text) : $0.text }
        }
        for element in document.all("Contents") {
            guard let object = name(element["Key"]), let size = (element["Size"]?.text).flatMap({ Int64($0) }),
                let modified = S3Date.listed(element["LastModified"]?.text)
            else { throw S3Error(.invalidAnswer) }
            entries.append(Entry(object: object, sizeInBytes: size, modified: modified))
        }
        for element in document.all("CommonPrefixes") {
            guard let prefix = name(element["Prefix"]) else { throw S3Error(.invalidAnswer) }
            directories.append(prefix)
        }
        if document["IsTruncated"]?.text == "true" {
            guard let token = document["NextContinuationToken"]?.text, !token.isEmpty else {
                throw S3Error(.invalidAnswer)
            }
            self.token = token
        }
    }
}
#endif
