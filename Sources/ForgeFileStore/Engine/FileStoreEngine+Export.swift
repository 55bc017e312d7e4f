import ForgeFileSystem
import Foundation
import SystemPackage

/// Copying files of the store to places outside of it.
extension FileStoreEngine {
    func export(_ key: String, to url: URL, overwrite: Bool, progress: Progress?) async throws {
        let checked = try RelativeKey(checking: key, for: .export)
        let destination = try ExportDestination(url, on: configuration.sources ?? fileSystem, key: key)
        try await run(.export, key) { [self] cancellation in
            let (file, status) = try open(checked, for: .export)
            defer { fileSystem.discard(file) }
            cancellation.expectWork(ofSize: status.sizeInBytes)
            // An error of the store, kept here because `replace` can only throw a `FileSystemError`.
            var storeError: (any Error)?
            do {
                try destination.replace(overwrite: overwrite, durability: durability) {
                    (target) throws(FileSystemError) in
                    do {
                        let copy = ContentCopy(
                            of: file, status, on: fileSystem, to: target, on: configuration.sources)
                        try CopyMonitor(cancellation: cancellation, progress: progress)
                            .run(copy, sizeInBytes: status.sizeInBytes)
                        try requireUnchanged(file, since: status, key)
                    } catch ContentCopy.Failure.target(let error) {
                        throw error
                    } catch {
                        if case ContentCopy.Failure.source(let cause) = error {
                            storeError = FileStoreError(cause, .export, key: key)
                        } else {
                            storeError = error
                        }
                        throw FileSystemError(.read, .canceled)
                    }
                }
            } catch {
                throw storeError ?? error
            }
        }
    }

    /// Throws `.conflict` if another program wrote to the file; stores replace and delete files only, which changes
    /// neither size nor modification time.
    private func requireUnchanged(
        _ file: Descriptor, since earlier: FileStatus, _ key: String
    ) throws(FileStoreError) {
        let now: FileStatus
        do {
            now = try fileSystem.status(of: .descriptor(file))
        } catch {
            throw FileStoreError(error, .export, key: key)
        }
        guard now.sizeInBytes == earlier.sizeInBytes, now.modified == earlier.modified else {
            throw FileStoreError(.conflict, .export, key: key)
        }
    }
}
