import AsyncHTTPClient
import Crypto
import ForgeS3
import Foundation
import NIOCore
import NIOHTTP1

/// The plainest correct requests of the same client, with the same signatures.
struct RawRequests: Sendable {
    struct Refused: Error { var status: UInt }

    let client: HTTPClient
    let port: Int
    private let signer = S3Signer(
        credentials: S3Credentials(accessKeyID: "id", secretAccessKey: "secret"), region: "us-east-1")

    init(port: Int) {
        self.port = port
        var settings = HTTPClient.Configuration()
        settings.httpVersion = .http1Only
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    }

    func close() async throws { try await client.shutdown() }

    @discardableResult
    func send(
        _ method: String, _ key: String, query: [(String, String)] = [], headers: [(String, String)] = [],
        _ body: ByteBuffer = ByteBuffer(), limit: Int = 16 << 20
    ) async throws -> ByteBuffer {
        let hash = body.withUnsafeReadableBytes { bytes in
            var hash = SHA256()
            hash.update(bufferPointer: bytes)
            return S3Encoding.hexadecimal(hash.finalize())
        }
        var wire = S3Wire(
            method: method, scheme: "http", host: "127.0.0.1:\(port)", path: "/b/\(S3Encoding.path(key))", query: query,
            headers: headers)
        signer.sign(&wire, payload: hash, at: Date())
        var request = HTTPClientRequest(url: wire.url)
        request.method = HTTPMethod(rawValue: method)
        request.headers.add(contentsOf: wire.headers)
        if body.readableBytes > 0 { request.body = .bytes(body) }
        let response = try await client.execute(request, timeout: .seconds(60))
        guard 200..<300 ~= response.status.code else { throw Refused(status: response.status.code) }
        return try await response.body.collect(upTo: limit)
    }

    /// Sends a file in parts, several at the same time.
    func upload(_ file: FileHandle, size: Int, to key: String, partSize: Int, count: Int) async throws {
        try await send("POST", key, query: [("uploads", "")])
        let descriptor = file.fileDescriptor
        try await Self.parallel(size, partSize, count) { range in
            var bytes = ByteBufferAllocator().buffer(capacity: range.count)
            try bytes.writeWithUnsafeMutableBytes(minimumWritableBytes: range.count) { buffer in
                let count = pread(descriptor, buffer.baseAddress, range.count, off_t(range.lowerBound))
                guard count == range.count else { throw CocoaError(.fileReadUnknown) }
                return count
            }
            let number = range.lowerBound / partSize + 1
            try await send("PUT", key, query: [("partNumber", "\(number)"), ("uploadId", "u")], bytes)
        }
        try await send("POST", key, query: [("uploadId", "u")], ByteBuffer(string: "<CompleteMultipartUpload/>"))
    }

    /// Loads a file in parts, several at the same time; the bytes are dropped.
    func download(_ key: String, size: Int, partSize: Int, count: Int) async throws {
        try await Self.parallel(size, partSize, count) { range in
            let part = try await send(
                "GET", key, headers: [("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")])
            guard part.readableBytes == range.count else { throw CocoaError(.fileReadUnknown) }
        }
    }

    private static func parallel(
        _ size: Int, _ partSize: Int, _ count: Int, _ body: @escaping @Sendable (Range<Int>) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, start) in stride(from: 0, to: size, by: partSize).enumerated() {
                if index >= count { try await group.next() }
                group.addTask { try await body(start..<min(start + partSize, size)) }
            }
            try await group.waitForAll()
        }
    }
}
