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
    ///
    /// - Throws: As ``read(_:)``; ``FileStoreError/Code/conflict`` if another program has truncated the file since it
    ///   was opened.
    public func readAll() async throws -> Data {
        let content = try await read(0..<file.sizeInBytes)
        guard Int64(content.count) == file.sizeInBytes else { throw FileStoreError(.conflict, .load, key: file.key) }
        return content
    }

    /// The content, or the part of it in a range, in chunks, each read when the loop asks for it.
    public func chunks(ofSize size: Int = 1 << 20, in range: Range<Int64>? = nil) -> FileChunks {
        let content = 0..<file.sizeInBytes
        return FileChunks(reader: self, range: range?.clamped(to: content) ?? content, size: Int64(max(size, 1)))
    }
}

/// The content of a file as a sequence of chunks.
///
/// The loop determines the speed: no chunk is read before it is asked for. If another program has truncated the file
/// since it was opened, the iteration throws ``FileStoreError/Code/conflict`` there.
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
            let count = Swift.min(chunks.size, end - offset)
            let chunk = try await chunks.reader.read(offset..<offset + count)
            guard Int64(chunk.count) == count else {
                throw FileStoreError(.conflict, .load, key: chunks.reader.file.key)
            }
            offset += Int64(chunk.count)
            return chunk
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(chunks: self, offset: range.lowerBound)
    }
}
