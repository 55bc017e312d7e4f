import ForgeFileSystem
import Foundation
import SystemPackage

/// The open file of an ``ExternalSource`` and its open parent directory; `deinit` closes both.
final class OpenSource: Sendable {
    let origin: ExternalSource
    let file: Descriptor
    /// The status of the file when it was opened.
    let status: FileStatus
    let directory: Descriptor
    let name: POSIXPath

    init(
        origin: ExternalSource, file: Descriptor, status: FileStatus, directory: Descriptor, name: POSIXPath
    ) {
        self.origin = origin
        self.file = file
        self.status = status
        self.directory = directory
        self.name = name
    }

    deinit {
        origin.fileSystem.discard(file)
        origin.fileSystem.discard(directory)
    }

    /// Throws `.changed` if another program wrote to the file since it was opened.
    func checkUnchanged() throws(FileStoreError) {
        try checkUnchanged(since: status)
    }

    /// Throws `.changed` if another program wrote to the file since it had this status.
    func checkUnchanged(since earlier: FileStatus) throws(FileStoreError) {
        let now: FileStatus
        do {
            now = try origin.fileSystem.status(of: .descriptor(file))
        } catch {
            throw origin.failure(.unreadable, error)
        }
        guard now.sizeInBytes == earlier.sizeInBytes, now.modified == earlier.modified, now.changed == earlier.changed
        else { throw origin.failure(.changed, nil) }
    }

    /// Fills memory with the bytes at an offset; returns their number, which is smaller if the file ends there.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(FileStoreError) -> Int {
        do {
            return try origin.fileSystem.readFully(file, into: buffer, at: offset)
        } catch {
            throw origin.failure(.unreadable, error)
        }
    }

    func readContents() throws(FileStoreError) -> Data {
        do {
            return Data(try origin.fileSystem.readContents(of: file))
        } catch {
            throw origin.failure(.unreadable, error)
        }
    }
}
