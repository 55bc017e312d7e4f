#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation
import NIOCore
import SystemPackage

/// A file without a name, which the system removes when it is closed.
final class S3TemporaryFile: Sendable {
    private let fileSystem = SystemFileSystem()
    private let descriptor: Descriptor

    /// The number of bytes that were appended.
    let sizeInBytes: Int64

    private init(_ descriptor: Descriptor, sizeInBytes: Int64) {
        self.descriptor = descriptor
        self.sizeInBytes = sizeInBytes
    }

    deinit { fileSystem.discard(descriptor) }

    /// Creates a file in the directory of temporary files.
    static func create() throws(FileSystemError) -> Descriptor {
        let fileSystem = SystemFileSystem()
        let path = try POSIXPath(FileManager.default.temporaryDirectory)
            .appending(POSIXPath("forge-s3-\(S3Metadata.newWriteID())"))
        let descriptor = try fileSystem.open(
            path, .readWrite, options: [.create, .exclusiveCreate, .noFollow], permissions: .ownerReadWrite)
        do throws(FileSystemError) {
            try fileSystem.unlink(path)
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
        return descriptor
    }

    /// A file that is complete.
    static func complete(_ descriptor: Descriptor, sizeInBytes: Int64) -> S3TemporaryFile {
        S3TemporaryFile(descriptor, sizeInBytes: sizeInBytes)
    }

    /// - Throws: `FileSystemError`.
    func read(_ range: Range<Int64>) async throws -> ByteBuffer {
        try await BlockingLane.general.run { [self] () throws(any Error) in
            let bytes = try ByteBuffer(capacity: range.count) {
                try fileSystem.readFully(descriptor, into: $0, at: range.lowerBound)
            }
            guard bytes.readableBytes == range.count else { throw FileSystemError(.read, .ioError) }
            return bytes
        }
    }
}
#endif
