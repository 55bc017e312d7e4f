package import ForgeFileSystem
import SystemPackage

/// A `#journal-` file whose owner has ended, in the format that the documentation of ForgeFileStore describes.
package struct OwnerlessJournal {
    /// The 16 base-32 characters in each temporary name.
    package let id: String

    /// The recorded directories, by slot.
    package var directories: [POSIXPath]

    /// A journal with these recorded directories.
    package init(_ directories: [POSIXPath] = [], id: String = "abcdefghijklmnop") {
        self.directories = directories
        self.id = id
    }

    /// The name of a slot's temporary file or trash.
    package func name(_ prefix: String, slot: Int) -> POSIXPath { POSIXPath("\(prefix)\(id)-\(slot)") }

    /// The content of the file.
    package var bytes: [UInt8] {
        let header = Array("FORGETMP".utf8) + [1, 0, 0, 0] + Array(id.utf8)
        var bytes = header + Self.checksum(of: header)
        for (slot, directory) in directories.enumerated() {
            bytes += [UInt8](repeating: 0, count: 512 + 1536 * slot - bytes.count)
            let length = directory.count
            let content = [UInt8(truncatingIfNeeded: length), UInt8(truncatingIfNeeded: length >> 8)] + directory.bytes
            bytes += Self.checksum(of: content) + content
        }
        return bytes
    }

    /// Writes the file under the first free number in a root.
    package func write(in root: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        var number = 0
        while try fileSystem.exists(path(number, in: root), followsSymbolicLinks: false) { number += 1 }
        let file = try fileSystem.open(path(number, in: root), .writeOnly, options: [.create, .exclusiveCreate])
        try fileSystem.closing(file) { () throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: file) }
    }

    private func path(_ number: Int, in root: POSIXPath) -> POSIXPath {
        root.appending(POSIXPath("\(POSIXPath.journalPrefix)\(number)"))
    }

    private static func checksum(of bytes: [UInt8]) -> [UInt8] {
        var checksum = CRC32C()
        bytes.withUnsafeBytes { checksum.update($0) }
        return withUnsafeBytes(of: checksum.value.littleEndian) { Array($0) }
    }
}
