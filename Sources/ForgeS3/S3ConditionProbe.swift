#if S3
import ForgeHTTP
import Logging
import NIOCore
import Synchronization

/// The conditional requests that a server implements. Each is tried once, before it is first needed.
///
/// Servers that do not know a condition ignore it, and a save that should fail replaces a file. Each test works on an
/// object of its own and deletes it. A failure of the server is not remembered.
final class S3ConditionProbe: Sendable {
    private struct Promise: Hashable {
        var isExclusive: Bool
        var isMultipart: Bool
    }

    private let transport: S3Transport
    private let tests = Mutex<[Promise: Task<Bool, any Error>]>([:])

    init(_ transport: S3Transport) {
        self.transport = transport
    }

    /// Throws unless the server keeps a condition.
    ///
    /// - Precondition: `condition` is not `.none`, which would be tested as a replacement.
    func require(_ condition: S3Condition, isMultipart: Bool) async throws(S3Error) {
        let promise = Promise(isExclusive: condition == .absent, isMultipart: isMultipart)
        let test = tests.withLock { tests in
            let test = tests[promise] ?? Task { [transport] in try await Self.isKept(promise, transport) }
            tests[promise] = test
            return test
        }
        let isKept: Bool
        do {
            isKept = try await test.valueForWaiter()
        } catch {
            guard !Task.isCancelled else { throw S3Error(.cancelled) }
            tests.withLock { tests in
                if tests[promise] == test { tests[promise] = nil }
            }
            throw error as? S3Error ?? S3Error(.unavailable)
        }
        guard isKept else {
            throw S3Error(
                promise.isExclusive ? .noExclusiveCreation : .noConditionalReplacement,
                detail: isMultipart ? "CompleteMultipartUpload" : "PutObject")
        }
    }

    private static func isKept(_ promise: Promise, _ transport: S3Transport) async throws -> Bool {
        let object = transport.place.prefix + S3Place.reserved + "test-" + S3Metadata.newWriteID()
        let result: Result<Bool, any Error>
        do {
            result = .success(try await isKept(promise, object, transport))
        } catch {
            result = .failure(error)
        }
        do {
            _ = try await transport.send(
                S3Request(name: "DeleteObject", method: "DELETE", object: object, isWrite: true))
        } catch {
            transport.configuration.logger.debug("a test object stays", metadata: ["error": "\(error)"])
        }
        return try result.get()
    }

    private static func isKept(_ promise: Promise, _ object: String, _ transport: S3Transport) async throws -> Bool {
        let put = { (content: String, condition: S3Condition) async throws(S3Error) -> String in
            let answer = try await transport.send(
                S3Request(
                    name: "PutObject", method: "PUT", object: object, headers: condition.headers,
                    body: ByteBuffer(string: content), isWrite: true))
            // S3 always sends one; a proxy that answers itself says nothing about the server.
            guard let etag = answer.etag else { throw S3Error(.invalidAnswer, detail: "the answer has no ETag") }
            return etag
        }
        let write = { (condition: S3Condition) async throws(S3Error) in
            if promise.isMultipart {
                try await upload(object, condition, transport)
            } else {
                _ = try await put("3", condition)
            }
        }
        let first = try await put("1", .none)
        guard !promise.isExclusive else {
            return try await isRefused(.absent) { () async throws(S3Error) in try await write(.absent) }
        }
        let second = try await put("2", .none)
        let (old, present) = (S3Condition.unchanged(etag: first), S3Condition.unchanged(etag: second))
        guard try await isRefused(old, { () async throws(S3Error) in try await write(old) }) else { return false }
        // radosgw compares the quotes too, and so refuses every ETag.
        return try await !isRefused(present) { () async throws(S3Error) in try await write(present) }
    }

    /// Stores a content in one part.
    private static func upload(
        _ object: String, _ condition: S3Condition, _ transport: S3Transport
    ) async throws(S3Error) {
        let upload = try await S3Upload.begin(object, [], transport)
        do throws(S3Error) {
            let part = try await upload.send(ByteBuffer(string: "3"), number: 1)
            _ = try await upload.complete([part], condition)
        } catch {
            await upload.abort()
            throw error
        }
    }

    /// Whether a server refuses a request because of a condition that is not met. One that does not implement the
    /// condition may say so.
    private static func isRefused(
        _ condition: S3Condition, _ body: () async throws(S3Error) -> Void
    ) async throws(S3Error) -> Bool {
        do throws(S3Error) {
            try await body()
            return false
        } catch {
            if error.refuses(condition) { return true }
            guard error.reason == .refused, [400, 501].contains(error.status) else { throw error }
            return false
        }
    }
}
#endif
