import ForgeFileSystem
import SystemPackage

/// The file `#reserve` of a shared store: one block of the device, given up when a removal finds the device full.
///
/// An exclusive store reserves space behind the end of its log (``LogSpace``). A shared log ends with its last record,
/// so its reserve is a file of its own. The file belongs to the store as `log` does. A store without it works, but
/// cannot remove single values on a full device.
struct RemovalReserve: Sendable {
    static let name: POSIXPath = "#reserve"
    static let size = 4096

    let fileSystem: any POSIXFileSystem
    let directory: Descriptor

    /// Creates the file unless it exists. A failure is ignored: the next opening or compaction tries again.
    func fill() {
        do throws(FileSystemError) {
            let file = try fileSystem.createStoreFile(Self.name, at: directory)
            defer { fileSystem.discard(file) }
            do throws(FileSystemError) {
                // Not zeros, for which some file systems allocate nothing.
                let content = [UInt8](repeating: 0x23, count: Self.size)
                try content.withBytes { (content) throws(FileSystemError) in
                    try fileSystem.writeFully(file, from: content, at: 0)
                }
            } catch {
                try fileSystem.unlink(Self.name, at: directory)
            }
        } catch _ {}
    }

    /// Removes the file, which frees its block; returns whether there was one.
    func release() -> Bool {
        do throws(FileSystemError) {
            try fileSystem.unlink(Self.name, at: directory)
            return true
        } catch _ {
            return false
        }
    }
}
