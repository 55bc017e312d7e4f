#if S3
import Crypto
import ForgeFileStore
import ForgeFileSystem
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
        read = { range in
            try await BlockingLane.general.run { () throws(any Error) in
                try ByteBuffer(capacity: range.count) { try source.read(into: $0, at: range.lowerBound) }
            }
        }
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

    /// The SHA-256 of the content in hexadecimal digits. The next part is read while one is hashed.
    func digest(partSize: Int) async throws -> String {
        if let checksum { return checksum }
        return try await withThrowingTaskGroup(of: ByteBuffer.self) { group in
            var rest = S3Content.parts(of: sizeInBytes, size: partSize)[...]
            if let range = rest.popFirst() { group.addTask { try await read(range) } }
            var hash = SHA256()
            while let bytes = try await group.next() {
                try Task.checkCancellation()
                if let range = rest.popFirst() { group.addTask { try await read(range) } }
                hash.update(bytes)
            }
            return hash.hexadecimalDigest()
        }
    }

    /// The ranges of the parts of a size.
    static func parts(of sizeInBytes: Int64, size: Int) -> [Range<Int64>] {
        stride(from: 0, to: sizeInBytes, by: size).map { $0..<min($0 + Int64(size), sizeInBytes) }
    }
}

extension ByteBuffer {
    /// Creates a buffer of a capacity, which `read` fills; `read` returns the number of bytes that it has written.
    init(capacity: Int, readingWith read: (UnsafeMutableRawBufferPointer) throws -> Int) throws {
        self.init()
        reserveCapacity(capacity)
        try writeWithUnsafeMutableBytes(minimumWritableBytes: capacity) {
            try read(UnsafeMutableRawBufferPointer(rebasing: $0[..<capacity]))
        }
    }
}
#endif
