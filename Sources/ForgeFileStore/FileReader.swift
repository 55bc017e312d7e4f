import ForgeFileSystem
public import Foundation
import SystemPackage

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
    /// Empty where the file system has none. Of a file in S3, they are the user-defined metadata of the object, without
    /// that of the store itself.
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

/// An open file of a ``DiskFileStore`` or ``InMemoryFileStore``, read in parts.
///
/// Replacing or deleting the file does not change what the reader sees. The file is closed when the reader is released.
public final class FileReader: FileReading {
    public let file: StoredFile
    private let content: OpenFile
    /// Whether reads of what is in memory never wait.
    private let isLocal: Bool
    private let store: PlainFileStore

    init(_ key: String, _ content: consuming OpenFile, isLocal: Bool, store: PlainFileStore) {
        file = StoredFile(key: key, content.status)
        self.content = content
        self.isLocal = isLocal
        self.store = store
    }

    /// The bytes of a range that are in the file.
    ///
    /// - Parameter range: Offsets in the file; those outside of it are ignored.
    /// - Returns: The bytes.
    /// - Throws: ``FileStoreError``: ``FileStoreError/Code/tooLarge`` if memory cannot hold the range.
    nonisolated(nonsending) public func read(_ range: Range<Int64>) async throws -> Data {
        let range = range.clamped(to: 0..<file.sizeInBytes)
        try Task.checkCancellation()
        if isLocal, let data = store.cachedContents(of: content, range, on: #isolation) { return data }
        return try await store.run(.load, file.key) { [self] cancellation in
            cancellation.expectWork(ofSize: Int64(range.count))
            return try contents(range)
        }
    }

    private func contents(_ range: Range<Int64>) throws(FileStoreError) -> Data {
        try attempt { () throws(FileSystemError) in try store.contents(of: content, range) }
    }

    /// Appends bytes to a buffer on the caller's thread, which may wait for the device, until it is full or the file
    /// ends.
    ///
    /// - Returns: The number of bytes.
    /// - Throws: ``FileStoreError``; for a negative offset too.
    @discardableResult
    public func readBlocking(into buffer: inout OutputRawSpan, at offset: Int64) throws(FileStoreError) -> Int {
        try attempt { () throws(FileSystemError) in try content.read(into: &buffer, at: offset) }
    }

    nonisolated(nonsending) public func attributes() async throws -> [String: String] {
        try await store.run(.load, file.key) { [self] _ in
            try CheckedAttributes.read(from: content, key: file.key)
        }
    }

    /// The whole content, mapped into memory: pages are read when they are accessed, and need no memory of the process.
    ///
    /// The content stays valid when the file is replaced or deleted, and after the reader is released. Changing the
    /// `Data` does not change the file. If another program truncates the file, pages beyond its end read as zeros;
    /// stores never truncate a file. A store in memory returns a copy.
    ///
    /// - Throws: ``FileStoreError``.
    public func mapped() throws(FileStoreError) -> Data {
        try attempt { () throws(FileSystemError) in
            guard let fileSystem = store.disk as? SystemFileSystem, let count = Int(exactly: file.sizeInBytes),
                count > 0
            else { return try store.contents(of: content, 0..<file.sizeInBytes) }
            let mapping: PrivateMapping
            do throws(FileSystemError) {
                mapping = try content.use { (descriptor) throws(FileSystemError) in
                    try fileSystem.mapPrivately(descriptor, count: count)
                }
            } catch  where error.errno == .operationNotSupportedByDevice {
                return try store.contents(of: content, 0..<file.sizeInBytes)
            }
            return Data(mapping)
        }
    }

    private func attempt<Result>(_ body: () throws(FileSystemError) -> Result) throws(FileStoreError) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            throw FileStoreError(error, .load, key: file.key)
        }
    }
}
