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
    ///   - item: The path of the file below `source`, and of the copy below `target`, where its directory exists; a file
    ///     there is replaced. No link below the two directories is followed.
    ///   - source: The directory that is read.
    ///   - target: The directory that is written to.
    ///   - given: The permission bits of the copy; nil for those of the file.
    /// - Returns: What was copied, and its permission bits.
    /// - Throws: `FileSystemError`; ``CommandFailure`` if the file changes all the time.
    func copy(
        _ item: POSIXPath, in source: ConfinedDirectory, to target: ConfinedDirectory,
        permissions given: FilePermissions? = nil
    ) throws -> (content: Content, permissions: FilePermissions) {
        let path = target.path.appending(item)
        for _ in 0..<Self.attempts {
            let source = try open(item, in: source)
            defer { fileSystem.discard(source) }
            let before = try fileSystem.status(of: .descriptor(source))
            let permissions = given ?? FilePermissions(rawValue: before.permissions.rawValue & 0o777)
            let copy = try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
                try target.withParent(of: item) { (directory, name) throws(FileSystemError) in
                    try fileSystem.open(
                        name, at: directory, .writeOnly, options: [.create, .truncate, .noFollow],
                        permissions: .ownerReadWrite)
                }
            }
            defer { fileSystem.discard(copy) }
            let content = try read(source) { (piece) throws(FileSystemError) in
                try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
                    try fileSystem.writeBytes(piece, to: copy)
                }
            }
            try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
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

    /// The content of a file below a directory; no link is followed.
    func content(of item: POSIXPath, in directory: ConfinedDirectory) throws -> Content {
        let source = try open(item, in: directory)
        defer { fileSystem.discard(source) }
        return try read(source) { (_) throws(FileSystemError) in }
    }

    private func open(_ item: POSIXPath, in directory: ConfinedDirectory) throws(FileSystemError) -> Descriptor {
        try fileSystem.withPathInErrors(directory.path.appending(item)) { () throws(FileSystemError) in
            try directory.withParent(of: item) { (parent, name) throws(FileSystemError) in
                try fileSystem.openRegularFile(name, at: parent).descriptor
            }
        }
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
