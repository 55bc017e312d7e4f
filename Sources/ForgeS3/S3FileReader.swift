#if S3
public import ForgeFileStore
public import ForgeFileSystem
public import Foundation
import NIOCore

/// A file of a store in S3, read in parts.
///
/// Unlike a reader of a file on disk it does not keep the content: after the file was replaced or deleted, it throws
/// `.conflict`. A read of the whole file compares the checksum, that of a part does not.
public final class S3FileReader: FileReading {
    public let file: StoredFile
    private let store: S3FileStore
    private let object: S3Object

    init(_ store: S3FileStore, _ object: S3Object) {
        self.store = store
        self.object = object
        file = StoredFile(
            key: object.key, sizeInBytes: object.sizeInBytes, modified: object.modified, revision: object.revision)
    }

    /// The revision of the file, for ``S3FileStore/save(_:to:if:)``.
    public var revision: FileRevision { object.revision }

    /// The SHA-256 that was stored with the file, in hexadecimal digits; nil if another program has stored it.
    package var checksum: String? { object.metadata.checksum }

    public func read(_ range: Range<Int64>) async throws -> Data {
        let range = range.clamped(to: 0..<file.sizeInBytes)
        guard !range.isEmpty else { return Data() }
        let content = try await parts(of: range)
        if range.count == file.sizeInBytes, let expected = object.metadata.checksum {
            guard try await S3Content(content).digest(partSize: max(content.count, 1)) == expected else {
                throw store.failure(S3Error(.damaged), .load, file.key)
            }
        }
        return content
    }

    private func parts(of range: Range<Int64>) async throws -> Data {
        let (store, object) = (store, object)
        let parts = S3Content.parts(of: Int64(range.count), size: store.configuration.partSizeInBytes).map {
            $0.lowerBound + range.lowerBound..<$0.upperBound + range.lowerBound
        }
        return try await withThrowingTaskGroup(of: (Int64, ByteBuffer).self) { group in
            var content = Data(count: range.count)
            var rest = parts[...]
            for _ in 0..<store.configuration.transferCount {
                guard let part = rest.popFirst() else { break }
                group.addTask { (part.lowerBound, try await store.load(part, of: object, .load)) }
            }
            while let (offset, bytes) = try await group.next() {
                let start = content.startIndex + Int(offset - range.lowerBound)
                content.replaceSubrange(start..<start + bytes.readableBytes, with: bytes.readableBytesView)
                guard let part = rest.popFirst() else { continue }
                group.addTask { (part.lowerBound, try await store.load(part, of: object, .load)) }
            }
            return content
        }
    }

    /// Empty: files in S3 have none.
    public func attributes() async throws -> [String: String] { [:] }
}

extension S3FileStore {
    /// Opens the file at `key` for reading in parts.
    ///
    /// - Throws: `FileStoreError`.
    public func reader(for key: String) async throws -> S3FileReader {
        let name = try place.object(key, .open)
        guard let head = try await head(name, .open, key) else { throw try await missing(key, .open) }
        do throws(S3Error) {
            return S3FileReader(self, try S3Object(name, key, head))
        } catch {
            throw failure(error, .open, key)
        }
    }
}
#endif
