import ForgeFileSystem
public import Foundation

/// Default implementations, built on the required calls.
extension FileStoring {
    public func totalSize() async throws -> Int64 {
        try await list(in: "", recursive: true).totalSizeInBytes
    }

    public func info(_ key: String) async throws -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .info)
        let siblings = try await list(in: checked.parent)
        guard let found = siblings.first(where: { $0.key.utf8.elementsEqual(key.utf8) }) else {
            throw FileStoreError(.notFound, .info, key: key)
        }
        return found
    }

    public func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        var found = try await list(in: directory)
        guard recursive else { return found }
        try check(found, listedIn: directory)
        var next = 0
        while next < found.count {
            let file = found[next]
            next += 1
            guard file.isDirectory else { continue }
            let children = try await list(in: file.key)
            try check(children, listedIn: file.key)
            found += children
        }
        return found
    }

    /// Refuses a list that has other entries than children, such as the directory itself: following them never ends.
    private func check(_ files: [StoredFile], listedIn directory: String) throws {
        let prefix = Array(directory.utf8) + (directory.isEmpty ? [] : [UInt8(ascii: "/")])
        for file in files {
            let key = Array(file.key.utf8)
            let isChild =
                key.count > prefix.count && key.starts(with: prefix)
                && !key[prefix.count...].contains(UInt8(ascii: "/"))
            guard isChild else {
                throw FileStoreError(
                    .unavailable(.inputOutput), .list, key: file.key, underlying: NotAChild(directory: directory))
            }
        }
    }

    /// Reads the whole source into memory and saves it.
    public func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        try await save(ExternalSource.read(source, key: key), to: key, overwrite: overwrite)
    }

    /// Renames the source to a private name, reads it into memory, saves it and removes the source.
    public func move(from source: URL, to key: String, overwrite: Bool) async throws {
        try await ExternalSource.move(source, key: key) { content in
            try await save(content, to: key, overwrite: overwrite)
        }
    }

    public func url(for key: String) async throws -> URL {
        _ = try RelativeKey(checking: key, for: .url)
        throw FileStoreError(.unsupported, .url, key: key)
    }

    /// Only validates the key: such a store has a directory as soon as there is a file in it.
    public func createDirectory(_ key: String) async throws {
        _ = try RelativeKey(checking: key, for: .createDirectory)
    }

    public func deleteDirectory(_ key: String) async throws {
        _ = try RelativeKey(checking: key, for: .deleteDirectory)
        for file in try await list(in: key, recursive: true) where !file.isDirectory {
            try await delete(file.key)
        }
    }
}

/// A store has listed a key in a directory of which it is no child.
private struct NotAChild: Error, CustomStringConvertible {
    var directory: String

    var description: String { "listed in \(directory.debugDescription), but not a child of it" }
}

extension RelativeKey {
    /// Validates a key for an operation of a store.
    init(checking key: String, for operation: FileStoreError.Operation) throws(FileStoreError) {
        do {
            try self.init(key)
        } catch {
            throw FileStoreError(.invalidKey(error.reason), operation, key: key, underlying: error)
        }
    }

    /// The key of the parent directory; empty for the root.
    var parent: String { String(path.splitLast().parent) }
}
