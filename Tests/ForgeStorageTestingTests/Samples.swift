import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

extension POSIXFileSystem {
    /// Writes a file without any care.
    func put(_ text: String, at path: POSIXPath) throws {
        let descriptor = try open(path, .writeOnly, options: [.create, .truncate])
        try closing(descriptor) { () throws(FileSystemError) in
            try writeFully(descriptor, from: Array(text.utf8))
        }
    }

    func text(at path: POSIXPath) throws -> String {
        String(decoding: try readFile(path), as: UTF8.self)
    }

    /// The text of a file, nil if there is none.
    func textIfPresent(at path: POSIXPath) throws -> String? {
        do {
            return try text(at: path)
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    func writeFully(_ descriptor: Descriptor, from bytes: [UInt8]) throws(FileSystemError) {
        try writeFully(descriptor, from: bytes, at: nil)
    }

    func writeFully(_ descriptor: Descriptor, from bytes: [UInt8], at offset: Int64?) throws(FileSystemError) {
        let outcome = bytes.withUnsafeBytes { buffer -> Result<Void, FileSystemError> in
            do throws(FileSystemError) {
                return .success(try writeFully(descriptor, from: buffer, at: offset))
            } catch {
                return .failure(error)
            }
        }
        try outcome.get()
    }

    func replace(_ path: POSIXPath, with text: String, durability: Durability = .full) throws {
        let (parent, name) = path.splitLast()
        let bytes = Array(text.utf8)
        try withDirectory(parent) { (directory) throws(FileSystemError) in
            let outcome = bytes.withUnsafeBytes { buffer -> Result<Void, FileSystemError> in
                do throws(FileSystemError) {
                    return .success(try replaceFile(name, at: directory, with: buffer.bytes, durability: durability))
                } catch {
                    return .failure(error)
                }
            }
            try outcome.get()
        }
    }
}

/// An in-memory file system with content from `prepare`.
func memory(_ prepare: (InMemoryFileSystem) throws -> Void = { _ in }) rethrows -> InMemoryFileSystem {
    let fileSystem = InMemoryFileSystem()
    try prepare(fileSystem)
    return fileSystem
}
