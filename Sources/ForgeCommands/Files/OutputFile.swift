import ForgeStorage
import Foundation
import SystemPackage

/// The file that a verb writes a content to.
enum OutputFile {
    /// Replaces the file at `url` durably, as `replaceContents(of:with:)` does, by the parts of a content.
    ///
    /// If the content ends with an error, the file is unchanged; one that is not regular may have the beginning.
    ///
    /// - Returns: The number of bytes.
    static func write(_ content: any AsyncSequence<Data, any Error>, to url: URL) async throws -> Int {
        let fileSystem = SystemFileSystem()
        let path = try fileSystem.followingFinalLinks(try POSIXPath(url))
        try requireNoStoreFile(at: path, path.shown)
        let status = try status(of: path)
        guard status.map({ $0.type == .regular }) ?? true else {
            let descriptor = try fileSystem.open(path, .writeOnly)
            return try await closing(descriptor) { try await write(content, to: descriptor, at: path) }
        }
        let permissions = status?.permissions.withoutSetID ?? .ownerReadWrite
        let (parent, name) = path.splitLast()
        guard !name.isEmpty else { throw FileSystemError(.write, .noSuchFileOrDirectory, path: path) }
        let directory = try fileSystem.open(
            parent.isEmpty ? "." : parent, .readOnly, options: [.directory])
        return try await closing(directory) {
            let (temporary, descriptor) = try fileSystem.createTemporary(at: directory, permissions: permissions)
            do {
                let count = try await closing(descriptor) {
                    try fileSystem.setPermissions(permissions, of: .descriptor(descriptor))
                    let count = try await write(content, to: descriptor, at: path)
                    try fileSystem.synchronize(descriptor, .full)
                    return count
                }
                try fileSystem.moveIntoPlace(temporary, to: name, at: directory, .replacing, .full)
                try fileSystem.synchronize(directory, .full)
                return count
            } catch {
                // The first failure is the one to report.
                do { try fileSystem.unlink(temporary, at: directory) } catch _ {}
                throw error
            }
        }
    }

    /// The status of a file; nil if there is none.
    private static func status(of path: POSIXPath) throws(FileSystemError) -> FileStatus? {
        do throws(FileSystemError) {
            return try SystemFileSystem().status(path)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    private static func write(
        _ content: any AsyncSequence<Data, any Error>, to descriptor: Descriptor, at path: POSIXPath
    ) async throws -> Int {
        let fileSystem = SystemFileSystem()
        var count = 0
        for try await part in content {
            try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
                try fileSystem.writeBytes([UInt8](part), to: descriptor)
            }
            count += part.count
        }
        return count
    }

    /// Calls `body` and closes a descriptor; an error of closing is thrown unless `body` has thrown.
    private static func closing<Success>(
        _ descriptor: Descriptor, _ body: () async throws -> Success
    ) async throws -> Success {
        let result: Success
        do {
            result = try await body()
        } catch {
            SystemFileSystem().discard(descriptor)
            throw error
        }
        try SystemFileSystem().close(descriptor)
        return result
    }
}
