#if S3
import Crypto
public import ForgeFileStore
import ForgeFileSystem
public import Foundation
import NIOCore
import Synchronization
import SystemPackage

/// A new file of a store in S3, written in parts.
///
/// The content is collected on this machine, first in memory and above the size of a part in a temporary file without a
/// name; its upload begins with ``commit()``. So its checksum is known before, and the upload can be repeated.
public final class S3FileWriter: FileWriting {
    private struct State {
        var isClosed = false
        var hasFailed = false
        var bytes = Data()
        var file: Descriptor?
        var sizeInBytes: Int64 = 0
        var hash = SHA256()
        /// The end of the last call.
        var last: Task<Void, Never>?
    }

    private let store: S3FileStore
    private let key: String
    private let condition: SaveCondition
    private let state = Mutex(State())

    init(_ store: S3FileStore, key: String, _ condition: SaveCondition) {
        self.store = store
        self.key = key
        self.condition = condition
    }

    deinit {
        if let file = state.withLock({ $0.file }) { SystemFileSystem().discard(file) }
    }

    public func write(_ data: Data) async throws {
        try await inOrder { [self] in
            do {
                try checkOpen()
                do throws(FileSystemError) {
                    try await append(data)
                } catch {
                    throw FileStoreError(error, .save, key: key)
                }
            } catch {
                // Cancelled too: the bytes after a hole must not be stored.
                state.withLock { $0.hasFailed = true }
                throw error
            }
        }
    }

    @discardableResult
    public func commit() async throws -> StoredFile {
        try await inOrder { [self] in
            try checkOpen()
            let content = state.withLock { state in
                state.isClosed = true
                defer { state.bytes = Data() }
                guard let file = state.file.take() else { return S3Content(state.bytes) }
                return S3Content(
                    S3TemporaryFile.complete(file, sizeInBytes: state.sizeInBytes),
                    checksum: state.hash.hexadecimalDigest())
            }
            return try await store.store(content, to: key, condition, .save)
        }
    }

    public func cancel() async {
        do {
            try await inOrder { [self] in
                let file = state.withLock { state in
                    state.isClosed = true
                    state.bytes = Data()
                    return state.file.take()
                }
                if let file { SystemFileSystem().discard(file) }
            }
        } catch {}
    }

    private func checkOpen() throws {
        let (isClosed, hasFailed) = state.withLock { ($0.isClosed, $0.hasFailed) }
        guard !isClosed, !hasFailed else { throw FileStoreError(.closed, .save, key: key) }
        try Task.checkCancellation()
    }

    private func append(_ data: Data) async throws(FileSystemError) {
        let limit = store.configuration.partSizeInBytes
        let (file, bytes, offset) = state.withLock { state -> (Descriptor?, Data, Int64) in
            state.hash.update(data: data)
            let offset = state.sizeInBytes
            state.sizeInBytes += Int64(data.count)
            guard state.file == nil else { return (state.file, data, offset) }
            state.bytes.append(data)
            guard state.bytes.count > limit else { return (nil, Data(), 0) }
            defer { state.bytes = Data() }
            return (nil, state.bytes, 0)
        }
        guard !bytes.isEmpty else { return }
        let new = try await BlockingLane.general.run { () throws(FileSystemError) in
            let target: Descriptor
            if let file { target = file } else { target = try S3TemporaryFile.create() }
            do throws(FileSystemError) {
                try SystemFileSystem().writeBytes(Array(bytes), to: target, at: offset)
            } catch {
                if file == nil { SystemFileSystem().discard(target) }
                throw error
            }
            return target
        }
        state.withLock { $0.file = new }
    }

    /// Runs a call after those before it.
    private func inOrder<Success: Sendable>(
        _ body: @escaping @Sendable () async throws -> Success
    ) async throws -> Success {
        let task = state.withLock { state in
            let last = state.last
            let task = Task {
                await last?.value
                return try await body()
            }
            state.last = Task { _ = await task.result }
            return task
        }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}

extension S3FileStore {
    /// Creates a file that is written in parts and appears at `key` when it is committed.
    ///
    /// At most the size of one part is kept in memory; longer content is collected in a temporary file before the upload.
    /// A writer that is cancelled or released leaves nothing.
    ///
    /// - Parameters:
    ///   - key: The key of the file.
    ///   - condition: The existing file that may be replaced, checked by the commit.
    /// - Returns: The writer.
    /// - Throws: `FileStoreError`: `.invalidKey`.
    public func writer(for key: String, if condition: SaveCondition = .always) throws -> S3FileWriter {
        _ = try place.object(key, .save)
        return S3FileWriter(self, key: key, condition)
    }

    public func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        _ = try place.object(key, .copy)
        _ = try await SourceContent.copying(source, key: key) { content in
            try await store(S3Content(content), to: key, overwrite ? .always : .absent, .copy)
        }
    }

    public func move(from source: URL, to key: String, overwrite: Bool) async throws {
        _ = try place.object(key, .move)
        try await SourceContent.moving(source, key: key) { content in
            _ = try await store(S3Content(content), to: key, overwrite ? .always : .absent, .move)
        }
    }
}

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
            let bytes = try ByteBuffer(capacity: range.count) { buffer in
                _ = try fileSystem.readFully(
                    descriptor, into: &buffer, upTo: range.count, at: range.lowerBound)
            }
            guard bytes.readableBytes == range.count else { throw FileSystemError(.read, .ioError) }
            return bytes
        }
    }
}
#endif
