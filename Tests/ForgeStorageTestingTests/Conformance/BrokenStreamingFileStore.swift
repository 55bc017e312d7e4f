import ForgeFileStore
import ForgeFileSystem
import Foundation

/// A streaming file store with one defect in its listings, copies or exports, to test that the corresponding check fails.
final class BrokenStreamingFileStore: StreamingFileStoreWrapper {
    /// The raw value is the description of the check that detects the defect.
    enum Defect: String, CaseIterable {
        case losesLaterPages =
            "a listing of many files in one directory has each of them once, and in order if it is sorted"
        case cutsExports = "an exported file is written byte for byte, and the stored one stays"
        case exportsOverEverything = "an export replaces a file only if overwriting is permitted"
        case followsLinks = "an export replaces a link and does not follow it"
        case leavesRemains = "an export that is refused says why and leaves nothing behind"
        case reportsNoBytes = "the progress of a copy and of an export ends with the size in bytes"
        case ignoresCancelledProgress =
            "cancelling the progress cancels a copy and an export, which leave nothing behind"
        case runsOn = "a cancelled task copies and exports nothing"
    }

    private let defect: Defect?
    let base = InMemoryFileStore()

    /// A store with a defect or, as the control, without any.
    init(_ defect: Defect?) { self.defect = defect }

    func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        let listing = base.files(in: directory, options)
        guard defect == .losesLaterPages else { return listing }
        return FileListing {
            var isListed = false
            return {
                guard !isListed else { return nil }
                isListed = true
                var page: [StoredFile] = []
                for try await file in listing where page.count < 1000 { page.append(file) }
                return page.isEmpty ? nil : page
            }
        }
    }

    func copy(from source: URL, to key: String, overwrite: Bool, progress: Progress?) async throws {
        let base = base
        switch defect {
        case .reportsNoBytes, .ignoresCancelledProgress:
            try await base.copy(from: source, to: key, overwrite: overwrite)
        case .runsOn:
            try await Task { try await base.copy(from: source, to: key, overwrite: overwrite) }.value
        default: try await base.copy(from: source, to: key, overwrite: overwrite, progress: progress)
        }
    }

    func export(_ key: String, to destination: URL, overwrite: Bool, progress: Progress?) async throws {
        let base = base
        switch defect {
        case .cutsExports: try await base.load(key).prefix(1 << 20).write(to: destination)
        case .exportsOverEverything: try await base.export(key, to: destination, overwrite: true)
        case .followsLinks where overwrite: try await base.load(key).write(to: destination)
        case .leavesRemains:
            do {
                try await base.export(key, to: destination, overwrite: overwrite, progress: progress)
            } catch {
                if destination.isFileURL {
                    try Data().write(
                        to: destination.deletingLastPathComponent().appendingPathComponent("#tmp-"))
                }
                throw error
            }
        case .reportsNoBytes, .ignoresCancelledProgress:
            try await base.export(key, to: destination, overwrite: overwrite)
        case .runsOn:
            try await Task { try await base.export(key, to: destination, overwrite: overwrite) }.value
        default: try await base.export(key, to: destination, overwrite: overwrite, progress: progress)
        }
    }
}

/// A file store that passes all calls to one in memory, except those that it implements itself.
protocol StreamingFileStoreWrapper: StreamingFileStoring {
    var base: InMemoryFileStore { get }
}

extension StreamingFileStoreWrapper {
    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        try await base.save(data, to: key, overwrite: overwrite)
    }

    func load(_ key: String) async throws -> Data { try await base.load(key) }

    func exists(_ key: String) -> Bool { base.exists(key) }

    func info(_ key: String) async throws -> StoredFile { try await base.info(key) }

    func delete(_ key: String) async throws { try await base.delete(key) }

    func list(in directory: String) async throws -> [StoredFile] { try await base.list(in: directory) }

    func deleteDirectory(_ key: String) async throws { try await base.deleteDirectory(key) }

    func totalSize() async throws -> Int64 { try await base.totalSize() }

    func deleteAll() async throws { try await base.deleteAll() }

    func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        try await base.save(data, to: key, if: condition, durability: durability, attributes: attributes)
    }

    func apply(_ batch: FileBatch, durability: Durability?) async throws {
        try await base.apply(batch, durability: durability)
    }

    func reader(for key: String) async throws -> FileReader { try await base.reader(for: key) }

    func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> FileWriter {
        try await base.writer(for: key, if: condition, durability: durability, attributes: attributes)
    }

    func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        base.files(in: directory, options)
    }

    func copy(from source: URL, to key: String, overwrite: Bool, progress: Progress?) async throws {
        try await base.copy(from: source, to: key, overwrite: overwrite, progress: progress)
    }

    func export(_ key: String, to destination: URL, overwrite: Bool, progress: Progress?) async throws {
        try await base.export(key, to: destination, overwrite: overwrite, progress: progress)
    }

    func changes(in directory: String) -> FileChanges { base.changes(in: directory) }
}
