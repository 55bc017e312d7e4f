import ForgeFileSystem
public import Foundation
import SystemPackage

/// Operations on single files: load, info, exists, delete.
extension PlainFileStore {
    nonisolated(nonsending) public func load(_ key: String) async throws -> Data {
        let checked = try RelativeKey(checking: key, for: .load)
        try Task.checkCancellation()
        if let data = try loadCached(checked, on: #isolation) { return data }
        return try await run(.load, key) { [self] in try load(checked, $0) }
    }

    /// The size up to which content that is in memory is copied on the caller's thread: on an actor, such as the main
    /// one, as long as that takes less than the hop to another thread and back.
    private static func cachedLoadLimit(on actor: (any Actor)?) -> Int64 { actor == nil ? 1 << 20 : 1 << 16 }

    /// The content of a file that is in memory, read without waiting; nil if it has to be read otherwise, or that
    /// reports an error.
    private func loadCached(_ key: RelativeKey, on actor: (any Actor)?) throws(FileStoreError) -> Data? {
        guard let file = try cached(key, .load, { (root) throws(FileSystemError) in try root.openCachedFile(key) })
        else { return nil }
        let limit = min(
            Int64(configuration.options.maximumLoadSizeInBytes), Self.cachedLoadLimit(on: actor))
        guard file.status.sizeInBytes <= limit else { return nil }
        let size = file.status.sizeInBytes
        return cachedData(size + 1) { buffer in
            // A file that has grown, or of which a part is not in memory, is read otherwise.
            file.readCached(into: &buffer, at: 0) == Int(size)
        }
    }

    /// The bytes of a range that are in memory, read without waiting; nil if some are not.
    func cachedContents(of file: borrowing OpenFile, _ range: Range<Int64>, on actor: (any Actor)?) -> Data? {
        guard range.count <= Self.cachedLoadLimit(on: actor) else { return nil }
        return cachedData(Int64(range.count)) { buffer in
            file.readCached(into: &buffer, at: range.lowerBound) == range.count
        }
    }

    /// The bytes that `read` appends to a buffer of `count` bytes; nil if it returns false.
    private func cachedData(_ count: Int64, _ read: (inout OutputRawSpan) -> Bool) -> Data? {
        guard let count = Int(exactly: count) else { return nil }
        var isRead = false
        let data = Data(capacity: count) { buffer in isRead = read(&buffer) }
        return isRead ? data : nil
    }

    /// Calls `body` with the root for something that is in memory.
    private func cached<Found: ~Copyable>(
        _ key: RelativeKey, _ operation: FileStoreError.Operation,
        _ body: (LazyStoreDirectory) throws(FileSystemError) -> Found?
    ) throws(FileStoreError) -> Found? {
        guard case .success(let root) = location else { return nil }
        do throws(FileSystemError) {
            return try body(root)
        } catch {
            throw FileStoreError(error, operation, key: key.string)
        }
    }

    private func load(_ key: RelativeKey, _ cancellation: Cancellation) throws(FileStoreError) -> Data {
        let file = try open(key, for: .load)
        do throws(FileSystemError) {
            guard file.status.sizeInBytes <= min(configuration.options.maximumLoadSizeInBytes, .max - 1) else {
                throw FileSystemError(.read, .fileTooLarge, path: key.path)
            }
            cancellation.expectWork(ofSize: file.status.sizeInBytes)
            return try contents(of: file)
        } catch {
            throw FileStoreError(error, .load, key: key.string)
        }
    }

    /// Opens the file of a key for reading.
    func open(
        _ key: RelativeKey, for operation: FileStoreError.Operation
    ) throws(FileStoreError) -> OpenFile {
        let root = try location.get()
        do throws(FileSystemError) {
            if let opened = try root.openFile(key) { return opened }
        } catch {
            throw FileStoreError(error, operation, key: key.string)
        }
        return try attempt(operation, key.string) { (directory) throws(FileSystemError) in try directory.openFile(key) }
    }

    /// The whole content of a file.
    private func contents(of file: borrowing OpenFile) throws(FileSystemError) -> Data {
        let size = file.status.sizeInBytes
        let content = try data(size + 1) { (buffer) throws(FileSystemError) in
            try file.read(into: &buffer, at: 0, expecting: Int(size))
        }
        if content.count <= size { return content }
        // The file has grown since its size was read: another program appends to it. Stores never append.
        return Data(try file.contents(maximumSizeInBytes: configuration.options.maximumLoadSizeInBytes))
    }

    /// The bytes of a range; fewer where the file ends.
    ///
    /// - Throws: `EFBIG` if there is no memory for the range.
    func contents(of file: borrowing OpenFile, _ range: Range<Int64>) throws(FileSystemError) -> Data {
        try data(range.upperBound - range.lowerBound) { (buffer) throws(FileSystemError) in
            try file.read(into: &buffer, at: range.lowerBound)
        }
    }

    /// The bytes that `read` appends to a buffer of `count` bytes, which the `Data` owns then.
    ///
    /// - Throws: `EFBIG` if there is no memory for the buffer.
    private func data(
        _ count: Int64, _ read: (inout OutputRawSpan) throws(FileSystemError) -> Int
    ) throws(FileSystemError) -> Data {
        guard let count = Int(exactly: count),
            let data = try Data(
                capacity: count, filling: { (buffer) throws(FileSystemError) in _ = try read(&buffer) })
        else { throw FileSystemError(.read, .fileTooLarge) }
        return data
    }

    nonisolated(nonsending) public func reader(for key: String) async throws -> FileReader {
        let checked = try RelativeKey(checking: key, for: .load)
        try Task.checkCancellation()
        if let file = try cached(checked, .load, { (root) throws(FileSystemError) in try root.openCachedFile(checked) })
        {
            return FileReader(key, file, isLocal: true, store: self)
        }
        return try await run(.load, key) { [self] _ in
            FileReader(key, try open(checked, for: .load), isLocal: false, store: self)
        }
    }

    nonisolated(nonsending) public func info(_ key: String) async throws -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .info)
        try Task.checkCancellation()
        let known = try cached(checked, .info) { (root) throws(FileSystemError) in
            try root.cachedStatus(of: checked)
        }
        if let known { return StoredFile(key: key, known) }
        return try await run(.info, key) { [self] _ in StoredFile(key: key, try status(of: checked)) }
    }

    public func exists(_ key: String) -> Bool {
        do {
            _ = try status(of: RelativeKey(checking: key, for: .info))
            return true
        } catch {
            return false  // As documented; `info` throws the reason.
        }
    }

    private func status(of key: RelativeKey) throws(FileStoreError) -> FileStatus {
        let root = try location.get()
        do throws(FileSystemError) {
            if let status = try root.status(of: key) { return status }
        } catch {
            throw FileStoreError(error, .info, key: key.string)
        }
        return try attempt(.info, key.string) { (directory) throws(FileSystemError) in try directory.status(of: key) }
    }

    nonisolated(nonsending) public func delete(_ key: String) async throws {
        let checked = try RelativeKey(checking: key, for: .delete)
        try await run(.delete, key) { [self] _ in
            try attempt(.delete, key) { (directory) throws(FileSystemError) in
                try directory.unlink(checked, durability: durability)
            }
        }
    }

    /// The file URL of `key` below the root, computed without disk access; unsupported in memory.
    nonisolated(nonsending) public func url(for key: String) async throws -> URL {
        let checked = try RelativeKey(checking: key, for: .url)
        guard configuration.isOnDisk else { throw FileStoreError(.unsupported, .url, key: key) }
        return URL(try configuration.root.get().appending(checked.path))
    }
}
