#if S3
import Crypto
public import ForgeFileStore
import ForgeFileSystem
import ForgeHTTP
import Foundation
import NIOCore

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
                // An empty object whose name ends with a slash stands for the directory that it names.
                let marked = entry.object.droppingByteSuffix("/")
                guard let key = place.key(ofObject: marked ?? entry.object) else { continue }
                let isDirectoryObject = marked != nil
                for parent in Self.parents(of: key) + (isDirectoryObject ? [key] : [])
                where parent.utf8.count > directory.utf8.count && directories.insert(Array(parent.utf8)).inserted {
                    found.append(.directory(parent))
                }
                guard !isDirectoryObject else { continue }
                found.append(StoredFile(key: key, sizeInBytes: entry.sizeInBytes, modified: entry.modified))
            }
            for name in page.directories {
                guard let key = place.key(ofObject: name.droppingByteSuffix("/") ?? name) else { continue }
                found.append(.directory(key))
            }
        }
        if isEmpty, !directory.isEmpty { throw try await noDirectory(directory, .list) }
        return found
    }

    /// Calls `files` with every file of a directory, and `foreign` with every other object in it: one whose name is no
    /// valid key, or that has content although it is named like a directory. Other programs have written those.
    ///
    /// - Parameters:
    ///   - directory: The directory; empty for the whole store.
    ///   - files: Called in the order of the listing.
    ///   - foreign: Called with the name of the object behind the prefix, its size, and the reason.
    /// - Throws: ``FileStoreError`` of the listing, or the error of a closure.
    package func forEachObject(
        in directory: String = "", files: (StoredFile) throws -> Void, foreign: (String, Int64, String) throws -> Void
    ) async throws {
        let prefix = try prefix(of: directory, .list)
        var isEmpty = true
        try await forEachPage(S3ListRequest(prefix: prefix, isFlat: true), .list, directory) { page in
            isEmpty = isEmpty && page.isEmpty
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
        if isEmpty, !directory.isEmpty { throw try await noDirectory(directory, .list) }
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

    /// The error for a missing directory: `.notDirectory` if the key is a file or below one, otherwise `.notFound`.
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

extension S3FileStore {
    public func deleteDirectory(_ key: String) async throws {
        let prefix = try prefix(of: key, .deleteDirectory)
        // Before anything is deleted.
        try await forEachPage(S3ListRequest(prefix: prefix, isFlat: true), .deleteDirectory, key) { page in
            guard page.entries.allSatisfy({ isOwn($0, below: prefix) }) else {
                throw FileStoreError(.foreignContent, .deleteDirectory, key: key)
            }
        }
        let found = try await deleteObjects(below: prefix, .deleteDirectory, key)
        guard found else { throw try await noDirectory(key, .deleteDirectory) }
    }

    public func deleteAll() async throws {
        _ = try await deleteObjects(below: place.prefix, .deleteAll, "")
    }

    /// Whether an object is a file or the empty marker of a directory, and not one that another program gave a name which
    /// no key has.
    private func isOwn(_ entry: S3Page.Entry, below prefix: String) -> Bool {
        guard let directory = entry.object.droppingByteSuffix("/") else {
            return place.key(ofObject: entry.object) != nil
        }
        guard entry.sizeInBytes == 0 else { return false }
        return entry.object.hasSameBytes(as: place.prefix) || entry.object.hasSameBytes(as: prefix)
            || place.key(ofObject: directory) != nil
    }

    /// Deletes the files and markers below a prefix; returns whether there was an object.
    ///
    /// - Throws: The error of the first object that could not be deleted, after the others were; `.foreignContent` if a
    ///   directory has an object whose key is not valid.
    private func deleteObjects(
        below prefix: String, _ operation: FileStoreError.Operation, _ key: String
    ) async throws -> Bool {
        var (isFound, isForeign) = (false, false)
        var first: (any Error)?
        try await forEachPage(S3ListRequest(prefix: prefix, isFlat: true), operation, key) { page in
            isFound = isFound || !page.isEmpty
            var objects: [String] = []
            for entry in page.entries {
                let object = entry.object
                guard object.utf8.starts(with: prefix.utf8) else {
                    throw failure(S3Error(.invalidAnswer), operation, key)
                }
                if isOwn(entry, below: prefix) {
                    objects.append(object)
                } else if operation == .deleteDirectory {
                    isForeign = true
                }
            }
            do {
                try await deleteBatch(objects, operation, key)
            } catch let error as FileStoreError {
                // Without the server or the rights, the next page would fail too.
                guard let cause = error.underlying as? S3Error, cause.status == 200 else { throw error }
                first = first ?? error
            }
        }
        if let first { throw first }
        if isForeign { throw FileStoreError(.foreignContent, operation, key: key) }
        return isFound
    }

    /// Deletes up to 1,000 objects; those that the server could not delete for a passing reason again.
    private func deleteBatch(
        _ objects: [String], _ operation: FileStoreError.Operation, _ key: String
    ) async throws {
        var rest: [String] = []
        for object in objects {
            // XML cannot represent every character of a key.
            guard S3Document.escaping(object) == nil else {
                rest.append(object)
                continue
            }
            _ = try await send(
                S3Request(name: "DeleteObject", method: "DELETE", object: object, isWrite: true), operation, key)
        }
        let end = ContinuousClock.now + configuration.deadline
        var backoff = Backoff()
        var refused: Failure?
        while !rest.isEmpty {
            let failures = try await deleteOnce(rest, operation, key)
            refused = refused ?? failures.first { !$0.isTransient }
            rest = failures.filter(\.isTransient).map(\.object)
            guard !rest.isEmpty else { break }
            var generator = SystemRandomNumberGenerator()
            let wait = backoff.next(using: &generator)
            guard ContinuousClock.now + wait < end else {
                refused = refused ?? failures.first
                break
            }
            try await Task.sleep(for: wait)
        }
        guard let refused else { return }
        throw failure(
            S3Error(.refused, status: 200, code: refused.code), operation,
            place.key(ofObject: refused.object) ?? key)
    }

    private struct Failure {
        var object: String
        var code: String

        var isTransient: Bool { ["InternalError", "SlowDown", "ServiceUnavailable"].contains(code) }
    }

    /// One request to delete objects; returns those that it could not delete ("DeleteObjects", Amazon S3 API
    /// Reference).
    private func deleteOnce(
        _ objects: [String], _ operation: FileStoreError.Operation, _ key: String
    ) async throws -> [Failure] {
        let list = objects.map { "<Object><Key>\(S3Document.escaping($0) ?? "")</Key></Object>" }.joined()
        let body = Data(
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>\(list)</Delete>".utf8)
        let digest = Data(Insecure.MD5.hash(data: body)).base64EncodedString()
        let request = S3Request(
            name: "DeleteObjects", method: "POST", query: [("delete", "")],
            headers: [("Content-MD5", digest), ("Content-Type", "application/xml")], body: ByteBuffer(bytes: body),
            isWrite: true)
        do throws(S3Error) {
            let document = try await transport.send(request).document()
            guard document.name == "DeleteResult" else { throw S3Error(.invalidAnswer) }
            let failures = document.all("Error").map {
                Failure(object: $0["Key"]?.text ?? "", code: $0["Code"]?.text ?? "")
            }
            guard failures.allSatisfy({ failure in objects.contains { $0.utf8.elementsEqual(failure.object.utf8) } })
            else { throw S3Error(.invalidAnswer) }
            return failures
        } catch {
            throw failure(error, operation, key)
        }
    }
}
#endif
