import ForgeStorage

/// One side of a copy of files of which at least one side is on a server.
protocol FilePlace: Sendable {
    /// All files, in the order of their keys. Entries that cannot be copied are recorded in `log`, which is nil for the
    /// destination of a copy.
    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry]

    /// Opens a file; nil if there is none.
    func open(_ key: String) async throws -> (any CopiedFile)?

    /// Stores the content of a file atomically; `isPresent` tells whether there was a file at the key.
    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws

    func delete(_ key: String) async throws

    /// Waits until everything that was stored is durable.
    func finish() throws

    /// Whether two keys are names of the same file, as on file systems that fold case.
    func isSameFile(_ key: String, _ other: String) -> Bool
}

/// A file of a listing.
struct FilePlaceEntry: Sendable {
    var key: String
    var sizeInBytes: Int64
}

/// A file store on a server.
struct ServerFilePlace: FilePlace {
    let files: any ServerFileStoring

    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry] {
        var found: [FilePlaceEntry] = []
        try await files.forEachFile(in: "") { found.append(FilePlaceEntry(key: $0.key, sizeInBytes: $0.sizeInBytes)) }
        return found
    }

    func open(_ key: String) async throws -> (any CopiedFile)? { try await files.openForCopy(key) }

    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws {
        try await files.save(file, to: key)
    }

    func delete(_ key: String) async throws { try await files.delete(key) }

    /// A server acknowledges what is durable.
    func finish() {}

    func isSameFile(_ key: String, _ other: String) -> Bool { key.utf8.elementsEqual(other.utf8) }
}
