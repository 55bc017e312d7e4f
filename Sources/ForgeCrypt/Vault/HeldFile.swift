import ForgeFileSystem
import SystemPackage

/// An open file that is closed with its last reference.
///
/// While it is open, its inode number is not reused, so that number shows whether a path still leads to it.
final class HeldFile: Sendable {
    let descriptor: Descriptor

    /// The status when the file was opened.
    let status: FileStatus

    private let fileSystem: any POSIXFileSystem

    convenience init(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, on fileSystem: any POSIXFileSystem,
        isDirectory: Bool = false
    ) throws(FileSystemError) {
        let descriptor = try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            // Without nonBlocking, opening a FIFO would wait for a writer.
            try fileSystem.open(
                path, at: directory, .readOnly, options: isDirectory ? [.directory] : [.noFollow, .nonBlocking])
        }
        try self.init(descriptor, named: path, on: fileSystem)
    }

    /// Takes ownership of an open file, which is closed even if this throws.
    init(
        _ descriptor: Descriptor, named path: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        do {
            status = try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
                try fileSystem.status(of: .descriptor(descriptor))
            }
        } catch {
            do { try fileSystem.close(descriptor) } catch _ {}
            throw error
        }
        self.descriptor = descriptor
        self.fileSystem = fileSystem
    }

    /// Up to `count` bytes from the beginning of the file.
    func start(_ count: Int) throws(FileSystemError) -> [UInt8] {
        var failure: FileSystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            do throws(FileSystemError) {
                let memory = UnsafeMutableRawBufferPointer(buffer)
                initializedCount = try fileSystem.readFully(descriptor, into: memory, at: 0)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Whether a path with this status still leads to the unchanged file.
    func isStill(_ now: FileStatus) -> Bool {
        now.inode == status.inode && now.device == status.device && now.sizeInBytes == status.sizeInBytes
            && now.modified == status.modified && now.changed == status.changed
    }

    deinit {
        // All writes were synchronised before, so nothing is lost if this fails.
        do { try fileSystem.close(descriptor) } catch _ {}
    }
}
