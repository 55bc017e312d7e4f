public import Foundation

/// An open file of a store, read in parts.
public protocol FileReading: Sendable {
    /// The file when it was opened.
    var file: StoredFile { get }

    /// The bytes of a range that are in the file.
    ///
    /// - Parameter range: Offsets in the file; those outside of it are ignored.
    /// - Returns: The bytes.
    /// - Throws: ``FileStoreError``, or `CancellationError`.
    func read(_ range: Range<Int64>) async throws -> Data

    /// The attributes that were stored with the content; see
    /// ``StreamingFileStoring/save(_:to:if:durability:attributes:)``.
    ///
    /// Empty where the file system has none.
    ///
    /// - Throws: ``FileStoreError``, or `CancellationError`.
    func attributes() async throws -> [String: String]
}

extension FileReading {
    /// The whole content.
    public func readAll() async throws -> Data {
        try await read(0..<file.sizeInBytes)
    }

    /// The content, or the part of it in a range, in chunks, each read when the loop asks for it.
    public func chunks(ofSize size: Int = 1 << 20, in range: Range<Int64>? = nil) -> FileChunks {
        let content = 0..<file.sizeInBytes
        return FileChunks(reader: self, range: range?.clamped(to: content) ?? content, size: Int64(max(size, 1)))
    }
}

/// The content of a file as a sequence of chunks.
///
/// The loop determines the speed: no chunk is read before it is asked for.
public struct FileChunks: AsyncSequence, Sendable {
    fileprivate let reader: any FileReading
    fileprivate let range: Range<Int64>
    fileprivate let size: Int64

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let chunks: FileChunks
        fileprivate var offset: Int64

        public mutating func next() async throws -> Data? {
            let end = chunks.range.upperBound
            guard offset < end else { return nil }
            let chunk = try await chunks.reader.read(offset..<offset + Swift.min(chunks.size, end - offset))
            // Another program has truncated the file.
            guard !chunk.isEmpty else { return nil }
            offset += Int64(chunk.count)
            return chunk
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(chunks: self, offset: range.lowerBound)
    }
}
