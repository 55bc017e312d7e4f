import ForgeFileSystem
import Foundation
import SystemPackage

/// Operations on single files: save, load, info, exists, delete.
extension FileStoreEngine {
    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .save)
        try await offload { [self] _ in
            try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                try withBytes(of: data) { (bytes) throws(FileSystemError) in
                    try directory.replace(
                        checked, with: bytes, overwrite ? .replacing : .exclusive, durability: durability)
                }
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
        try attempt(.load, key.string) { (directory) throws(FileSystemError) in
            try directory.withCheckedFile(key) { (descriptor, status) throws(FileSystemError) -> Data? in
                let maximum = min(configuration.options.maximumLoadSizeInBytes, maximumContentSizeInBytes)
                guard status.sizeInBytes <= maximum else {
                    throw FileSystemError(.read, .fileTooLarge)
                }
                guard status.sizeInBytes <= limit else { return nil }
                return try contents(of: descriptor, sizeInBytes: Int(status.sizeInBytes))
            }
        }
    }

    /// Reads the file into the buffer of the returned `Data`, without a copy.
    private func contents(of descriptor: Descriptor, sizeInBytes: Int) throws(FileSystemError) -> Data {
        // One byte more than expected, so that the end is detected without a second call.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: sizeInBytes + 1, alignment: 16)
        let count: Int
        do {
            count = try fileSystem.readFully(descriptor, into: buffer, at: 0)
        } catch {
            buffer.deallocate()
            throw error
        }
        guard let start = buffer.baseAddress, count < buffer.count else {
            // The file has grown since its size was read: another program appends to it. Stores never append.
            buffer.deallocate()
            return Data(
                try fileSystem.readContents(
                    of: descriptor, maximumSizeInBytes: configuration.options.maximumLoadSizeInBytes))
        }
        return Data(bytesNoCopy: start, count: count, deallocator: .custom { start, _ in start.deallocate() })
    }

    func forEachChunk(of key: String, _ body: ([UInt8]) throws -> Void) throws {
        let checked = try RelativeKey(checking: key, for: .load)
        // An error of `body`, kept here because `attempt` can only pass on a `FileSystemError`.
        var bodyError: (any Error)?
        do {
            try attempt(.load, key) { (directory) throws(FileSystemError) in
                try directory.withFile(checked) { (descriptor) throws(FileSystemError) in
                    var offset: Int64 = 0
                    while true {
                        let chunk = try fileSystem.readBytes(of: descriptor, at: offset, count: 1 << 20)
                        if chunk.isEmpty { return }
                        offset += Int64(chunk.count)
                        do {
                            try body(chunk)
                        } catch {
                            bodyError = error
                            throw FileSystemError(.read, .canceled)
                        }
                    }
                }
            }
        } catch {
            throw bodyError ?? error
        }
    }

    func info(_ key: String) throws(FileStoreError) -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .info)
        return try attempt(.info, key) { (directory) throws(FileSystemError) in
            StoredFile(key: key, try directory.status(of: checked))
        }
    }

    func exists(_ key: String) -> Bool {
        do {
            _ = try info(key)
            return true
        } catch {
            return false  // As documented; `info` throws the reason.
        }
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
            modified: Date(timeIntervalSince1970: seconds))
    }
}
