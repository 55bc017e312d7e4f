import Crypto
import ForgeStorage
import SystemPackage

/// Reads a file that other processes may replace or write to, and copies what it read.
struct HashedCopy {
    private static let attempts = 5
    private static let pieceSize = 1 << 18

    private let fileSystem = SystemFileSystem()

    /// The size and SHA-256 of a file's content.
    struct Content: Equatable {
        var bytes: Int64
        var sha256: String
    }

    /// Copies a file, with its permission bits.
    ///
    /// If another program writes to the file meanwhile, the copy begins again, up to five times.
    ///
    /// - Parameters:
    ///   - file: The path of the file.
    ///   - target: The path of the copy, whose directory exists; replaced if it exists.
    /// - Returns: What was copied, and its permission bits.
    /// - Throws: `FileSystemError`; ``CommandFailure`` if the file changes all the time.
    func copy(_ file: POSIXPath, to target: POSIXPath) throws -> (content: Content, permissions: FilePermissions) {
        for _ in 0..<Self.attempts {
            let source = try fileSystem.open(file, .readOnly, options: [.noFollow, .nonBlocking])
            defer { fileSystem.discard(source) }
            let before = try fileSystem.status(of: .descriptor(source))
            let permissions = FilePermissions(rawValue: before.permissions.rawValue & 0o777)
            let copy = try fileSystem.open(
                target, .writeOnly, options: [.create, .truncate, .noFollow], permissions: .ownerReadWrite)
            defer { fileSystem.discard(copy) }
            let content = try read(source) { (piece) throws(FileSystemError) in
                try fileSystem.withPathInErrors(target) { () throws(FileSystemError) in
                    try fileSystem.writeBytes(piece, to: copy)
                }
            }
            try fileSystem.withPathInErrors(target) { () throws(FileSystemError) in
                try fileSystem.setFileAttributes(fileSystem.fileAttributes(of: source), of: copy)
                try fileSystem.setPermissions(permissions, of: .descriptor(copy))
                if BulkFlush.durability != .none { try fileSystem.synchronize(copy, .full) }
            }
            let after = try fileSystem.status(of: .descriptor(source))
            if FileRevision(before) == FileRevision(after), before.changed == after.changed || after.linkCount == 0 {
                return (content, permissions)
            }
        }
        throw CommandFailure("changed during each of \(Self.attempts) attempts to copy it")
    }

    /// The content of a file.
    func content(of file: POSIXPath) throws -> Content {
        let source = try fileSystem.open(file, .readOnly, options: [.noFollow, .nonBlocking])
        defer { fileSystem.discard(source) }
        return try read(source) { (_) throws(FileSystemError) in }
    }

    private func read(
        _ source: Descriptor, _ body: ([UInt8]) throws(FileSystemError) -> Void
    ) throws -> Content {
        var hash = SHA256()
        var offset: Int64 = 0
        while true {
            try Interruption.check()
            let piece = try fileSystem.readBytes(of: source, at: offset, count: Self.pieceSize)
            guard !piece.isEmpty else { break }
            hash.update(data: piece)
            try body(piece)
            offset += Int64(piece.count)
        }
        return Content(bytes: offset, sha256: BackupManifest.hexadecimal(hash.finalize()))
    }
}
