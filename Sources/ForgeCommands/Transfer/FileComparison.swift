import ForgeStorage
import SystemPackage

/// Compares two files: their contents, in pieces, and the attributes that stores have given them.
enum FileComparison {
    private static let pieceSize = 1 << 18

    /// Whether a file has the same content and attributes as an open one.
    static func areEqual(_ first: POSIXPath, _ other: Descriptor) throws -> Bool {
        let fileSystem = SystemFileSystem()
        let status = try fileSystem.status(of: .descriptor(other))
        guard status.type == .regular,
            try fileSystem.status(first, followsSymbolicLinks: false).sizeInBytes == status.sizeInBytes
        else { return false }
        let one = try fileSystem.open(first, .readOnly, options: [.noFollow, .nonBlocking])
        defer { fileSystem.discard(one) }
        var offset: Int64 = 0
        while true {
            try Interruption.check()
            let piece = try fileSystem.withPathInErrors(first) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: one, at: offset, count: pieceSize)
            }
            let copy = try fileSystem.readBytes(of: other, at: offset, count: pieceSize)
            guard copy == piece else { return false }
            guard !piece.isEmpty else {
                return try fileSystem.fileAttributes(of: one) == fileSystem.fileAttributes(of: other)
            }
            offset += Int64(piece.count)
        }
    }
}
