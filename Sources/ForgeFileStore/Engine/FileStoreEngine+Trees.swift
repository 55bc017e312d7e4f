import ForgeFileSystem
import SystemPackage

/// Directories and the whole store.
extension FileStoreEngine {
    func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        let checked = directory.isEmpty ? nil : try RelativeKey(checking: directory, for: .list)
        return try await run(.list, directory) { [self] cancellation in
            if recursive { cancellation.expectLongWork() }
            return try list(checked, recursive)
        }
    }

    private func list(_ key: RelativeKey?, _ recursive: Bool) throws(FileStoreError) -> [StoredFile] {
        let found = try attemptIfExists(.list, key?.string ?? "") {
            (directory) throws(FileSystemError) -> [StoredFile] in
            var found: [StoredFile] = []
            try directory.forEachEntry(of: key, isRecursive: recursive) {
                (entry, parent, name) throws(FileSystemError) in
                guard entry.path.isKey else { return }
                do throws(FileSystemError) {
                    let status = try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
                    let isForeign = try directory.isUnreadable(name, at: parent, status)
                    found.append(StoredFile(key: String(entry.path), status, isForeign: isForeign))
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return  // Removed since its name was read.
                }
            }
            return found
        }
        guard let found else {
            guard let key else { return [] }
            throw FileStoreError(.notFound, .list, key: key.string)
        }
        return found
    }

    func totalSize() async throws -> Int64 {
        try await run(.list, "") { [self] cancellation in
            cancellation.expectLongWork()
            return try attemptIfExists(.list, "") { (directory) throws(FileSystemError) in
                try totals.sizeInBytes(in: directory)
            } ?? 0
        }
    }

    func createDirectory(_ key: String) async throws {
        let checked = try RelativeKey(checking: key, for: .createDirectory)
        try await run(.createDirectory, key) { [self] _ in
            try attemptStoring(.createDirectory, key) { (directory) throws(FileSystemError) in
                try directory.makeDirectory(checked, durability: durability)
            }
        }
    }

    func deleteDirectory(_ key: String) async throws {
        let checked = try RelativeKey(checking: key, for: .deleteDirectory)
        try await run(.deleteDirectory, key) { [self] cancellation in
            cancellation.expectLongWork()
            try attempt(.deleteDirectory, key) { (directory) throws(FileSystemError) in
                try directory.removeTree(checked, durability: durability)
            }
        }
    }

    func deleteAll() async throws {
        try await run(.deleteAll, "") { [self] cancellation in
            cancellation.expectLongWork()
            _ = try attemptIfExists(.deleteAll, "") { (directory) throws(FileSystemError) in
                try directory.removeAll(durability: durability)
            }
        }
    }
}
