import ForgeFileSystem
import SystemPackage

/// The primitive steps of recipes, without hidden safety.
extension InMemoryFileSystem {
    /// Creates or truncates a file, and writes.
    func put(_ path: String, _ bytes: [UInt8], _ options: FileDescriptor.OpenOptions = [.create, .truncate]) throws {
        let descriptor = try open(POSIXPath(path), .writeOnly, options: options)
        try bytes.withUnsafeBytes { try writeFully(descriptor, from: $0) }
        try close(descriptor)
    }

    /// Writes into an existing file, at its end if no offset is given.
    func patch(_ path: String, _ bytes: [UInt8], at offset: Int64? = nil) throws {
        let descriptor = try open(POSIXPath(path), .writeOnly)
        let end = try seek(descriptor, to: 0, from: .end)
        try bytes.withUnsafeBytes { try writeFully(descriptor, from: $0, at: offset ?? end) }
        try close(descriptor)
    }

    /// Synchronises a file or a directory.
    func sync(_ path: String, _ level: SyncLevel = .full) throws {
        let descriptor = try open(POSIXPath(path))
        try synchronize(descriptor, level)
        try close(descriptor)
    }

    /// Maps a whole file.
    func mapping(_ path: String, _ body: (FileMapping) throws -> Void) throws {
        let descriptor = try open(POSIXPath(path), .readWrite)
        let size = try status(of: .descriptor(descriptor)).sizeInBytes
        let mapping = try map(descriptor, at: 0, count: Int(size))
        try close(descriptor)
        try body(mapping)
    }

    /// Stores into an existing file that is long enough.
    func store(_ path: String, _ bytes: [UInt8], at offset: Int) throws {
        try mapping(path) { mapping in bytes.withUnsafeBytes { mapping.store($0, at: offset) } }
    }

    /// Writes back the stores into a file.
    func writeBack(_ path: String) throws {
        try mapping(path) { try $0.writeBack() }
    }

    /// Records a failed synchronisation of a file.
    func failSync(_ path: String) throws {
        let descriptor = try open(POSIXPath(path))
        try recordFailedSynchronization(of: descriptor)
        try close(descriptor)
    }

    func move(_ path: String, _ newPath: String, _ mode: RenameMode = .replacing) throws {
        try rename(POSIXPath(path), to: POSIXPath(newPath), mode)
    }

    func remove(_ path: String) throws {
        try unlink(POSIXPath(path))
    }

    func makeDirectory(_ path: String) throws {
        try createDirectory(POSIXPath(path))
    }

    func cut(_ path: String, to size: Int) throws {
        try truncate(.path(POSIXPath(path)), to: Int64(size))
    }

    /// The whole content; nil if the file does not exist.
    func content(_ path: String) throws -> [UInt8]? {
        do {
            return try readFile(POSIXPath(path))
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    func has(_ path: String) -> Bool { fileExists(atPath: path) }
}

func letters(_ letter: Character, _ count: Int) -> [UInt8] {
    [UInt8](repeating: letter.asciiValue ?? 0, count: count)
}
