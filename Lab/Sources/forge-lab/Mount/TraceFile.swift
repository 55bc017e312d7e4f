#if os(Linux)
import ForgeFileSystem
import Foundation
import SystemPackage

/// A log file of the kernel's requests.
final class TraceFile {
    private let fileSystem = SystemFileSystem()
    private let descriptor: Descriptor

    /// Creates a file, which must not be in the mounted file system.
    init(path: String) throws(FileSystemError) {
        descriptor = try fileSystem.open(
            POSIXPath(path), .writeOnly, options: [.create, .exclusiveCreate, .append],
            permissions: [.ownerReadWrite])
    }

    deinit { fileSystem.discard(descriptor) }

    /// Appends a line immediately, before the request is answered. A line that cannot be written goes to standard
    /// error, with the reason.
    func append(_ line: String) {
        do throws(FileSystemError) {
            try fileSystem.writeBytes(Array("\(line)\n".utf8), to: descriptor)
        } catch {
            FileHandle.standardError.write(Data("\(error): \(line)\n".utf8))
        }
    }
}
#endif
