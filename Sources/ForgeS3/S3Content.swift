#if S3
import Crypto
import ForgeFileStore
import Foundation
import NIOCore

/// A content to store, which can be read several times.
struct S3Content: Sendable {
    var sizeInBytes: Int64

    /// Its SHA-256; nil if it must be computed.
    var checksum: String?

    /// Reads a range.
    var read: @Sendable (Range<Int64>) async throws -> ByteBuffer

    /// Throws if the source of the content has changed.
    var check: @Sendable () throws -> Void = {}

    init(_ data: Data) {
        let bytes = ByteBuffer(bytes: data)
        sizeInBytes = Int64(data.count)
        read = { range in
            guard let part = bytes.getSlice(at: Int(range.lowerBound), length: range.count) else {
                throw S3Error(.damaged)
            }
            return part
        }
    }

    init(_ source: SourceContent) {
        sizeInBytes = source.sizeInBytes
        read = { ByteBuffer(bytes: try await source.read($0)) }
        check = { try source.checkUnchanged() }
    }

    init(_ file: S3TemporaryFile, checksum: String) {
        sizeInBytes = file.sizeInBytes
        self.checksum = checksum
        read = { try await file.read($0) }
    }

    init(sizeInBytes: Int64, checksum: String, read: @escaping @Sendable (Range<Int64>) async throws -> ByteBuffer) {
        self.sizeInBytes = sizeInBytes
        self.checksum = checksum
        self.read = read
    }

    /// The SHA-256 of the content in hexadecimal digits, read in parts.
    func digest(partSize: Int) async throws -> String {
        if let checksum { return checksum }
        var hash = SHA256()
        for range in S3Content.parts(of: sizeInBytes, size: partSize) {
            hash.update(try await read(range))
        }
        return hash.hexadecimalDigest()
    }

    /// The ranges of the parts of a size.
    static func parts(of sizeInBytes: Int64, size: Int) -> [Range<Int64>] {
        stride(from: 0, to: sizeInBytes, by: size).map { $0..<min($0 + Int64(size), sizeInBytes) }
    }
}
#endif
