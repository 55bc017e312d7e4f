import ForgeStorage
import SystemPackage

/// Compares two files: their contents, in pieces, and the attributes that stores have given them.
enum FileComparison {
    private static let pieceSize = 1 << 18

    /// Whether two files have the same content and attributes; false if the second does not exist.
    static func areEqual(_ first: POSIXPath, _ second: POSIXPath) throws -> Bool {
        let fileSystem = SystemFileSystem()
        do throws(FileSystemError) {
            let size = try fileSystem.status(second, followsSymbolicLinks: false).sizeInBytes
            guard try fileSystem.status(first, followsSymbolicLinks: false).sizeInBytes == size else { return false }
        } catch {
            let isMissing = [.noSuchFileOrDirectory, .notDirectory].contains(error.errno)
            guard isMissing, error.path == second else { throw error }
            return false
        }
        let one = try fileSystem.open(first, .readOnly, options: [.noFollow, .nonBlocking])
        defer { fileSystem.discard(one) }
        let other = try fileSystem.open(second, .readOnly, options: [.noFollow, .nonBlocking])
        defer { fileSystem.discard(other) }
        var offset: Int64 = 0
        while true {
            try Interruption.check()
            let piece = try fileSystem.withPathInErrors(first) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: one, at: offset, count: pieceSize)
            }
            let copy = try fileSystem.withPathInErrors(second) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: other, at: offset, count: pieceSize)
            }
            guard copy == piece else { return false }
            guard !piece.isEmpty else {
                return try fileSystem.fileAttributes(of: one) == fileSystem.fileAttributes(of: other)
            }
            offset += Int64(piece.count)
        }
    }
}
