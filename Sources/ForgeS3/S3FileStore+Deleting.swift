#if S3
import Crypto
import ForgeFileStore
import ForgeHTTP
import Foundation
import NIOCore

extension S3FileStore {
    public func deleteDirectory(_ key: String) async throws {
        let prefix = try prefix(of: key, .deleteDirectory)
        let found = try await deleteObjects(below: prefix, .deleteDirectory, key)
        guard found else { throw try await noDirectory(key, .deleteDirectory) }
    }

    public func deleteAll() async throws {
        _ = try await deleteObjects(below: place.prefix, .deleteAll, "")
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
            for object in page.entries.map(\.object) {
                guard object.utf8.starts(with: prefix.utf8) else {
                    throw failure(S3Error(.invalidAnswer), operation, key)
                }
                let isMarker = object.utf8.last == UInt8(ascii: "/")
                if object.utf8.elementsEqual(place.prefix.utf8) || object.utf8.elementsEqual(prefix.utf8)
                    || place.key(ofObject: isMarker ? String(object.dropLast()) : object) != nil
                {
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
