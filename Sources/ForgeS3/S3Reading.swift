#if S3
import Crypto
public import ForgeFileStore
public import ForgeFileSystem
public import Foundation
import NIOCore
import NIOFoundationCompat

/// The content of a file as a sequence of parts, several of which are loaded at the same time.
///
/// All parts are of one write: if the file is replaced meanwhile, the sequence throws `.conflict`. Its checksum is
/// compared at the end: a consumer must not trust the content before the sequence has ended without an error. At most
/// ``S3FileStore/Configuration/transferCount`` parts are in memory. An iterator that is released ends the transfer.
public struct S3FileContents: AsyncSequence, Sendable {
    let store: S3FileStore
    let key: String

    public struct AsyncIterator: AsyncIteratorProtocol {
        private let transfer: S3Download

        fileprivate init(_ transfer: S3Download) { self.transfer = transfer }

        /// The next part; nil at the end, and after an error.
        ///
        /// - Throws: `FileStoreError`, or `CancellationError`.
        public mutating func next() async throws -> Data? {
            // Shares the memory of the buffer: most consumers only read it.
            try await transfer.next().map { Data(buffer: $0, byteTransferStrategy: .noCopy) }
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(S3Download(store, key: key, maximumSizeInBytes: .max))
    }
}

/// A transfer of a whole object.
final class S3Download {
    private let store: S3FileStore
    private let key: String
    private let maximumSizeInBytes: Int
    private var object: S3Object?
    private var hash = SHA256()
    private var rest: ArraySlice<Range<Int64>> = []
    private var tasks: ArraySlice<Task<ByteBuffer, any Error>> = []
    private var hasFailed = false

    init(_ store: S3FileStore, key: String, maximumSizeInBytes: Int) {
        self.store = store
        self.key = key
        self.maximumSizeInBytes = maximumSizeInBytes
    }

    deinit { for task in tasks { task.cancel() } }

    /// The next part; nil at the end, and after an error: the parts behind a missing one are not the content.
    func next() async throws -> ByteBuffer? {
        guard !hasFailed else { return nil }
        do {
            return try await advance()
        } catch {
            hasFailed = true
            for task in tasks { task.cancel() }
            tasks = []
            throw error
        }
    }

    private func advance() async throws -> ByteBuffer? {
        guard let object else {
            let (object, first) = try await store.open(key, maximumSizeInBytes: maximumSizeInBytes)
            self.object = object
            rest = S3Content.parts(of: object.sizeInBytes, size: store.configuration.partSizeInBytes).dropFirst()
            request(object)
            hash.update(first)
            if first.readableBytes == 0 { try verify(object) }
            return first.readableBytes == 0 ? nil : first
        }
        guard let task = tasks.popFirst() else {
            try verify(object)
            return nil
        }
        let part = try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
        request(object)
        hash.update(part)
        return part
    }

    /// Begins to load the next parts.
    private func request(_ object: S3Object) {
        while tasks.count < store.configuration.transferCount - 1 || tasks.isEmpty, let range = rest.popFirst() {
            let store = store
            tasks.append(Task { try await store.load(range, of: object, .load) })
        }
    }

    private func verify(_ object: S3Object) throws {
        guard let expected = object.metadata.checksum else { return }
        guard hash.hexadecimalDigest() == expected else {
            throw store.failure(S3Error(.damaged), .load, key)
        }
    }
}

/// An object as it was when it was opened.
struct S3Object: Sendable {
    var object: String
    var key: String
    var etag: String
    var sizeInBytes: Int64
    var modified: Date
    var metadata: S3Metadata
    /// The metadata that other programs have stored with it.
    var attributes: [String: String]

    /// - Throws: ``S3Error`` if the server does not say what the object is.
    init(_ object: String, _ key: String, _ response: S3Response) throws(S3Error) {
        guard let etag = response.etag, let size = response.sizeInBytes, size >= 0 else {
            throw S3Error(.invalidAnswer, status: response.status)
        }
        self.object = object
        self.key = key
        self.etag = etag
        sizeInBytes = size
        modified = response.modified
        metadata = response.metadata
        attributes = S3Metadata.attributes(response.headers)
    }

    var revision: FileRevision { S3Revision(writeID: metadata.writeID, etag: etag).revision }
}

extension S3FileStore {
    public func load(_ key: String) async throws -> Data {
        var attempts = 0
        while true {
            let download = S3Download(self, key: key, maximumSizeInBytes: configuration.maximumLoadSizeInBytes)
            do {
                var content = Data()
                while let part = try await download.next() { content.append(contentsOf: part.readableBytesView) }
                return content
            } catch let error as FileStoreError where error.code == .conflict && attempts < 8 {
                // The file was replaced between two parts.
                attempts += 1
            }
        }
    }

    /// The content of the file at `key` in parts, with constant memory.
    ///
    /// The file is opened when the first part is asked for.
    public func contents(of key: String) -> S3FileContents { S3FileContents(store: self, key: key) }

    /// Opens an object and loads its first part.
    func open(_ key: String, maximumSizeInBytes: Int) async throws -> (S3Object, ByteBuffer) {
        let name = try place.object(key, .load)
        try Task.checkCancellation()
        let partSize = configuration.partSizeInBytes
        let response: S3Response
        do throws(S3Error) {
            response = try await openRange(name, partSize)
        } catch {
            guard error.code == "NoSuchKey" else { throw failure(error, .load, key) }
            throw try await missing(key, .load)
        }
        do throws(S3Error) {
            let object = try S3Object(name, key, response)
            guard object.sizeInBytes <= maximumSizeInBytes else {
                throw S3Error(.refused, code: "EntityTooLarge", detail: "\(object.sizeInBytes) bytes")
            }
            guard response.bytes.readableBytes == min(Int64(partSize), object.sizeInBytes) else {
                throw S3Error(.invalidAnswer, status: response.status, detail: "a part has another size")
            }
            return (object, response.bytes)
        } catch {
            throw failure(error, .load, key)
        }
    }

    private func openRange(_ name: String, _ partSize: Int) async throws(S3Error) -> S3Response {
        var request = S3Request(
            name: "GetObject", object: name, headers: [("Range", "bytes=0-\(partSize - 1)")],
            maximumAnswerSizeInBytes: max(partSize, 1 << 20))
        do throws(S3Error) {
            return try await transport.send(request)
        } catch {
            // An empty object has no range.
            guard error.status == 416 else { throw error }
            request.headers = []
            return try await transport.send(request)
        }
    }

    /// Loads a range of an object, if it was not replaced.
    ///
    /// - Throws: `FileStoreError`: `.conflict` if it was.
    func load(
        _ range: Range<Int64>, of object: S3Object, _ operation: FileStoreError.Operation
    ) async throws -> ByteBuffer {
        let request = S3Request(
            name: "GetObject", object: object.object,
            headers: [("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"), ("If-Match", object.etag)],
            maximumAnswerSizeInBytes: max(range.count, 1 << 20))
        do throws(S3Error) {
            let response = try await transport.send(request)
            guard response.bytes.readableBytes == range.count, response.status == 206 else {
                throw S3Error(.invalidAnswer, status: response.status, detail: "a part has another size")
            }
            // A server that ignores the condition sends another object.
            guard response.etag == object.etag, response.metadata.writeID == object.metadata.writeID else {
                throw S3Error(.refused, status: 412)
            }
            return response.bytes
        } catch {
            guard error.refuses(.unchanged(etag: object.etag)) else { throw failure(error, operation, object.key) }
            throw FileStoreError(.conflict, operation, key: object.key, underlying: error)
        }
    }
}

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

    /// The user-defined metadata that another program has stored with the object: the headers `x-amz-meta-…`, by their
    /// names in lower case without that prefix, and their values as the server sends them. This store saves none.
    public func attributes() async throws -> [String: String] { object.attributes }
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
