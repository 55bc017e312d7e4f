import ForgeFileSystem
import SystemPackage

/// The file `#reserve` of a shared store: one block, freed when a removal finds the device full.
///
/// An exclusive store reserves space after the end of its log (``LogSpace``). A shared log ends with its last record,
/// so its reserve is a separate file, which belongs to the store like `log`. A store without it works, but cannot
/// remove single values on a full device.
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
                // Not zeros, for which some file systems allocate no space.
                let content = [UInt8](repeating: 0x23, count: Self.size)
                try content.withBytes { (content) throws(FileSystemError) in
                    try fileSystem.writeFully(file, from: content, at: 0)
                }
            } catch {
                try fileSystem.unlink(Self.name, at: directory)
            }
        } catch _ {}
    }

    /// Removes the file, which frees its block; returns whether it existed.
    func release() -> Bool {
        do throws(FileSystemError) {
            try fileSystem.unlink(Self.name, at: directory)
            return true
        } catch _ {
            return false
        }
    }
}
