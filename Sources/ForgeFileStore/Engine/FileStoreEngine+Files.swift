import ForgeFileSystem
import Foundation
import SystemPackage

/// Operations on single files: save, load, info, exists, delete.
extension FileStoreEngine {
    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .save)
        if durability == .none, data.count <= Self.inlineSaveLimit, try root.get().isPrepared {
            try Task.checkCancellation()
            return try replace(checked, data, overwrite)
        }
        try await offload { [self] _ in try replace(checked, data, overwrite) }
    }

    private func replace(_ key: RelativeKey, _ data: Data, _ overwrite: Bool) throws(FileStoreError) {
        try attemptStoring(.save, key.string) { (directory) throws(FileSystemError) in
            try withBytes(of: data) { (bytes) throws(FileSystemError) in
                try directory.replace(key, with: bytes, overwrite ? .replacing : .exclusive, durability: durability)
            }
        }
    }

    func load(_ key: String) async throws -> Data {
        let checked = try RelativeKey(checking: key, for: .load)
        try Task.checkCancellation()
        if let data = try load(checked, upTo: configuration.waitsForDevice ? Self.inlineLoadLimit : .max) {
            return data
        }
        return try await offload { [self] _ in try load(checked, upTo: .max) ?? Data() }
    }

    /// The content of a file, or nil if the file is larger than `limit`.
    private func load(_ key: RelativeKey, upTo limit: Int64) throws(FileStoreError) -> Data? {
        let (descriptor, status) = try open(key, for: .load)
        do throws(FileSystemError) {
            return try fileSystem.closing(descriptor) { () throws(FileSystemError) -> Data? in
                guard status.sizeInBytes <= min(configuration.options.maximumLoadSizeInBytes, .max - 1) else {
                    throw FileSystemError(.read, .fileTooLarge)
                }
                guard status.sizeInBytes <= limit else { return nil }
                return try contents(of: descriptor, sizeInBytes: status.sizeInBytes)
            }
        } catch {
            var named = error
            if named.path == nil { named.path = key.path }
            throw FileStoreError(named, .load, key: key.string)
        }
    }

    /// Opens the file of a key for reading.
    func open(
        _ key: RelativeKey, for operation: FileStoreError.Operation
    ) throws(FileStoreError) -> (Descriptor, FileStatus) {
        let root = try root.get()
        do throws(FileSystemError) {
            if let opened = try root.openFile(key) { return opened }
        } catch {
            throw FileStoreError(error, operation, key: key.string)
        }
        return try attempt(operation, key.string) { (directory) throws(FileSystemError) in try directory.openFile(key) }
    }

    /// The whole content of a file of a certain size.
    private func contents(of descriptor: Descriptor, sizeInBytes: Int64) throws(FileSystemError) -> Data {
        let content = try data(sizeInBytes + 1) { (buffer) throws(FileSystemError) in
            try fileSystem.readToEnd(descriptor, into: buffer, expecting: buffer.count - 1)
        }
        if content.count <= sizeInBytes { return content }
        // The file has grown since its size was read: another program appends to it. Stores never append.
        return Data(
            try fileSystem.readContents(
                of: descriptor, maximumSizeInBytes: configuration.options.maximumLoadSizeInBytes))
    }

    /// The bytes of a range; fewer where the file ends.
    ///
    /// - Throws: `EFBIG` if there is no memory for the range.
    func contents(of descriptor: Descriptor, _ range: Range<Int64>) throws(FileSystemError) -> Data {
        try data(range.upperBound - range.lowerBound) { (buffer) throws(FileSystemError) in
            try fileSystem.readFully(descriptor, into: buffer, at: range.lowerBound)
        }
    }

    /// The bytes that `read` puts into a buffer of `count` bytes, which the `Data` owns then.
    ///
    /// - Throws: `EFBIG` if there is no memory for the buffer.
    private func data(
        _ count: Int64, _ read: (UnsafeMutableRawBufferPointer) throws(FileSystemError) -> Int
    ) throws(FileSystemError) -> Data {
        guard let count = Int(exactly: count), let start = malloc(max(count, 1)) else {
            throw FileSystemError(.read, .fileTooLarge)
        }
        do {
            let readCount = try read(UnsafeMutableRawBufferPointer(start: start, count: count))
            return Data(bytesNoCopy: start, count: readCount, deallocator: .free)
        } catch {
            free(start)
            throw error
        }
    }

    func reader(for key: String) async throws -> FileReader {
        let checked = try RelativeKey(checking: key, for: .load)
        try Task.checkCancellation()
        let (descriptor, status) = try open(checked, for: .load)
        return FileReader(StoredFile(key: key, status), descriptor, engine: self)
    }

    func info(_ key: String) throws(FileStoreError) -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .info)
        return StoredFile(key: key, try status(of: checked))
    }

    func exists(_ key: String) -> Bool {
        do {
            _ = try status(of: RelativeKey(checking: key, for: .info))
            return true
        } catch {
            return false  // As documented; `info` throws the reason.
        }
    }

    private func status(of key: RelativeKey) throws(FileStoreError) -> FileStatus {
        let root = try root.get()
        do throws(FileSystemError) {
            if let status = try root.status(of: key) { return status }
        } catch {
            throw FileStoreError(error, .info, key: key.string)
        }
        return try attempt(.info, key.string) { (directory) throws(FileSystemError) in try directory.status(of: key) }
    }

    func delete(_ key: String) async throws {
        let checked = try RelativeKey(checking: key, for: .delete)
        try await offload { [self] _ in
            try attempt(.delete, key) { (directory) throws(FileSystemError) in
                try directory.unlink(checked, durability: durability)
            }
        }
    }

    /// The path of a key, absolute if the root is.
    func path(for key: String) throws(FileStoreError) -> POSIXPath {
        let checked = try RelativeKey(checking: key, for: .url)
        return try configuration.root.get().appending(checked.path)
    }
}

extension StoredFile {
    init(key: String, _ status: FileStatus) {
        let kind: Kind =
            switch status.type {
            case .regular: .file
            case .directory: .directory
            default: .other
            }
        let seconds = Double(status.modified.seconds) + Double(status.modified.nanoseconds) / 1e9
        self.init(
            key: key, kind: kind, sizeInBytes: kind == .file ? status.sizeInBytes : 0,
            modified: Date(timeIntervalSince1970: seconds), revision: kind == .file ? FileRevision(status) : nil)
    }
}
