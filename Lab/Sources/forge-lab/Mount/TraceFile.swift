#if os(Linux)
import ForgeFileSystem
import Foundation
import SystemPackage

/// A file of lines that tell what the kernel asked for.
final class TraceFile {
    private let fileSystem = SystemFileSystem()
    private let descriptor: Descriptor

    /// A new file, which must not be in what is mounted.
    init(path: String) throws(FileSystemError) {
        descriptor = try fileSystem.open(
            POSIXPath(path), .writeOnly, options: [.create, .exclusiveCreate, .append],
            permissions: [.ownerReadWrite])
    }

    deinit { fileSystem.discard(descriptor) }

    /// Adds a line at once, so that it is there before the answer is. What cannot be written goes to the error output,
    /// with the reason.
    func append(_ line: String) {
        do throws(FileSystemError) {
            try fileSystem.writeBytes(Array("\(line)\n".utf8), to: descriptor)
        } catch {
            FileHandle.standardError.write(Data("\(error): \(line)\n".utf8))
        }
    }
}
#endif
