#if S3
import ForgeFileStore
package import Foundation
import NIOCore

extension S3FileStore {
    /// Stores a content that a caller reads, replacing an existing file, with constant memory.
    ///
    /// - Parameters:
    ///   - sizeInBytes: The size of the content.
    ///   - checksum: Its SHA-256 in hexadecimal digits, which is compared with what was read.
    ///   - key: The key of the file.
    ///   - read: Reads a range; fewer bytes mean that the content has changed. The ranges of a content are read one
    ///     after the other, and again if the upload must be repeated.
    ///   - check: Throws if the content has changed; called before the end of an upload.
    /// - Throws: `FileStoreError`: `.invalidSource(.changed)` if the content does not have the size or the checksum;
    ///   the errors of `read` and `check`. The old file is kept, unless the code is `.unknownOutcome`.
    package func save(
        sizeInBytes: Int64, checksum: String, to key: String,
        reading read: @escaping @Sendable (Range<Int64>) async throws -> Data,
        checking check: @escaping @Sendable () throws -> Void
    ) async throws {
        var content = S3Content(sizeInBytes: sizeInBytes, checksum: checksum) { ByteBuffer(bytes: try await read($0)) }
        content.check = check
        _ = try await store(content, to: key, .always, .save)
    }
}
#endif
