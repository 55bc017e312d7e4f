#if S3
import ForgeFileStore
import Foundation
import NIOCore
import S3Servers
import Testing
@testable import ForgeS3

/// The server of the tests that need a whole one: that of the environment, or moto.
enum S3TestServer {
    struct NotOnLoopback: Error {}

    private static let variables = ProcessInfo.processInfo.environment

    /// The server that a script has started.
    private static let endpoint = variables["FORGE_S3_ENDPOINT"]

    /// Whether it is moto; otherwise it is radosgw, as the script starts it.
    private static let isMoto = endpoint == nil

    /// Whether it keeps `If-None-Match` at the end of an upload in parts. radosgw ignores it.
    static let createsPartsExclusively = isMoto

    /// Whether it keeps `If-Match` of a plain save. radosgw compares the quotes too, and refuses every ETag.
    static let replacesConditionally = isMoto

    /// Whether the tests can run.
    static let isAvailable = !isMoto || MotoServer.isInstalled

    /// A configuration with a bucket of its own, which is created.
    static func configuration() async throws -> S3FileStore.Configuration {
        guard let endpoint else { return try await MotoServer.shared().configuration() }
        guard endpoint.hasPrefix("http://127.0.0.1:") else { throw NotOnLoopback() }
        var configuration = S3FileStore.Configuration(
            bucket: "test-\(UUID().uuidString.lowercased())", region: "us-east-1",
            credentials: .environment(variables), endpoint: endpoint)
        configuration.deadline = .seconds(180)
        try await configuration.createBucket()
        return configuration
    }
}

extension S3FileStore.Configuration {
    func createBucket() async throws {
        let transport = try S3Transport(self)
        _ = try await transport.send(S3Request(name: "CreateBucket", method: "PUT"))
    }
}

extension MotoServer {
    /// A configuration with a bucket of its own, which is created.
    func configuration() async throws -> S3FileStore.Configuration {
        var configuration = S3FileStore.Configuration(
            bucket: "test-\(UUID().uuidString.lowercased())", region: "us-east-1", credentials: .values(credentials),
            endpoint: endpoint)
        // Enough time for a busy machine.
        configuration.deadline = .seconds(180)
        try await configuration.createBucket()
        return configuration
    }
}

extension S3FileStore {
    /// A store in a bucket of its own.
    static func test(_ change: (inout Configuration) -> Void = { _ in }) async throws -> S3FileStore {
        var configuration = try await S3TestServer.configuration()
        change(&configuration)
        return try S3FileStore(configuration)
    }

    /// All objects of the bucket.
    func objects() async throws -> [String] {
        try await page(S3ListRequest(prefix: "", isFlat: true), .list, "").entries.map(\.object)
    }

    /// Stores an object as another program does.
    func put(_ object: String, _ content: String = "x", headers: [(String, String)] = []) async throws {
        _ = try await transport.send(
            S3Request(
                name: "PutObject", method: "PUT", object: object, headers: headers, body: ByteBuffer(string: content)))
    }

    /// The number of uploads that were begun and not ended.
    func uploadCount() async throws -> Int {
        let request = S3Request(name: "ListMultipartUploads", query: [("uploads", "")])
        return try await transport.send(request).document().all("Upload").count
    }
}

/// Expects a failure with a code.
@discardableResult
func expectFailure<Success>(
    _ code: FileStoreError.Code, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Success
) async -> FileStoreError? {
    do {
        _ = try await body()
        Issue.record("it has succeeded", sourceLocation: sourceLocation)
    } catch let error as FileStoreError {
        #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
        return error
    } catch {
        Issue.record("it has thrown \(error)", sourceLocation: sourceLocation)
    }
    return nil
}

/// Bytes that differ at every place.
func pattern(_ count: Int, seed: UInt8 = 0) -> Data {
    Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) ^ seed })
}
#endif
