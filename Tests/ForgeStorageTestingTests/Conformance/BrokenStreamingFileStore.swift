import ForgeFileStore
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import TestDepth

/// A streaming file store with one defect, to test that the corresponding check fails.
final class BrokenStreamingFileStore: StreamingFileStoreWrapper {
    typealias Reader = BrokenFileReader
    typealias Writer = BrokenFileWriter

    enum Defect: String, CaseIterable {
        case omitsRevisions = "a saved file has the revision that the save returned"
        case skipsEqualSaves = "every save has a revision of its own, for equal contents too"
        case replacesPresent = "a save that expects no file creates one and replaces none"
        case createsDeleted = "a save that expects a revision replaces that revision only"
        case losesUpdates = "concurrent updates of one file all count"
        case skipsUnflushedSaves = "a save with any durability is loaded"
        case reordersBatches = "a batch makes its changes in their order"
        case checksKeysLate = "an invalid key in a batch is found before any change"
        case goesOnAfterFailures = "a failed change of a batch names its key, and the changes before it are made"
        case marksBatches = "an empty batch does nothing"
        case shiftsRanges = "a reader returns ranges, chunks and the whole file"
        case readsTheKey = "a reader sees the content as it was opened"
        case missesDirectories = "there is no reader of a missing file or a directory"
        case commitsTwice = "a written file appears when it is committed"
        case keepsCancelled = "a cancelled or released writer leaves no file"
        case forgetsConditions = "a writer replaces no file that its condition excludes"
        case needsDirectories = "a writer stores its file also if its directory is deleted meanwhile"
        case losesChunks = "a sequence of chunks is written"
        case hidesEmptyDirectories = "a listing by pages has what a listing has"
        case sortsWholeKeys = "a sorted listing is in order and continues after any key"
        case takesPrefixesForDirectories = "a listing by prefix has the keys with that prefix"
        case listsTheMissing = "the empty store has no files, and a missing directory is not found"
        case losesLaterPages =
            "a listing of many files in one directory has each of them once, and in order if it is sorted"
        case repeatsBesideDeletions =
            "a listing by pages beside saves and deletions has every other file once, and does not fail"
        case cutsExports = "an exported file is written byte for byte, and the stored one stays"
        case exportsOverEverything = "an export replaces a file only if overwriting is permitted"
        case followsLinks = "an export replaces a link and does not follow it"
        case leavesRemains = "an export that is refused says why and leaves nothing behind"
        case reportsNoBytes = "the progress of a copy and of an export ends with the size in bytes"
        case ignoresCancelledProgress =
            "cancelling the progress cancels a copy and an export, which leave nothing behind"
        case runsOn = "a cancelled task copies and exports nothing"
        case replacesRecreated, createsOverFilesInBatches, commitsIncomplete, forgetsRevisions, exportsToAll
        case omitsDestinations, retriesCommits, replacesFIFOs

        /// The description of the check that detects the defect.
        var check: String {
            switch self {
            case .replacesRecreated: Self.createsDeleted.rawValue
            case .createsOverFilesInBatches: Self.goesOnAfterFailures.rawValue
            case .commitsIncomplete: Self.keepsCancelled.rawValue
            case .forgetsRevisions, .retriesCommits: Self.forgetsConditions.rawValue
            case .exportsToAll: Self.cutsExports.rawValue
            case .omitsDestinations, .replacesFIFOs: Self.leavesRemains.rawValue
            default: rawValue
            }
        }
    }

    let defect: Defect?
    let base = InMemoryFileStore()
    private let deleted = Mutex<Set<String>>([])
    private let deletionCount = Mutex(0)

    /// A store with a defect or, as the control, without any.
    init(_ defect: Defect?) { self.defect = defect }

    // MARK: Saving

    func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        var condition = condition
        switch (defect, condition) {
        case (.skipsEqualSaves, .always) where base.exists(key):
            if try await base.load(key) == data { return try await base.info(key) }
        case (.replacesPresent, .absent): condition = .always
        case (.createsDeleted, .unchanged) where !base.exists(key): condition = .always
        case (.replacesRecreated, .unchanged) where base.exists(key):
            if deleted.withLock({ $0.contains(key) }) { condition = .always }
        case (.losesUpdates, .unchanged) where data == Data("20".utf8): return try await base.info(key)
        case (.skipsUnflushedSaves, _) where durability == Durability.none && base.exists(key):
            return try await base.info(key)
        default: break
        }
        var saved = try await base.save(data, to: key, if: condition, durability: durability, attributes: attributes)
        if defect == .omitsRevisions { saved.revision = nil }
        return saved
    }

    func delete(_ key: String) async throws {
        try await base.delete(key)
        deleted.withLock { _ = $0.insert(key) }
        deletionCount.withLock { $0 += 1 }
    }

    func deleteDirectory(_ key: String) async throws {
        try await base.deleteDirectory(key)
        deletionCount.withLock { $0 += 1 }
    }

    func apply(_ batch: FileBatch, durability: Durability?) async throws {
        do {
            try await base.apply(batch, durability: durability)
        } catch let error as FileStoreError {
            switch (defect, error.code) {
            case (.checksKeysLate, .invalidKey): try await base.save(Data(), to: "a")
            case (.goesOnAfterFailures, .notDirectory): try await base.save(Data(), to: "d")
            case (.createsOverFilesInBatches, .alreadyExists): return
            default: break
            }
            throw error
        }
        switch defect {
        case .reordersBatches where base.exists("twice"): try await base.save(Data("first".utf8), to: "twice")
        case .marksBatches: try await base.createDirectory("batches")
        default: break
        }
    }

    // MARK: Readers and writers

    func reader(for key: String) async throws -> BrokenFileReader {
        do {
            return BrokenFileReader(try await base.reader(for: key), of: self)
        } catch let error as FileStoreError where error.code == .isDirectory && defect == .missesDirectories {
            throw FileStoreError(.notFound, .load, key: key)
        }
    }

    func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> BrokenFileWriter {
        let isForgotten = defect == .forgetsConditions || defect == .forgetsRevisions && condition != .absent
        let writer = try await base.writer(
            for: key, if: isForgotten ? .always : condition, durability: durability, attributes: attributes)
        return BrokenFileWriter(writer, key, of: self)
    }

    // MARK: Listings

    func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        let listing = base.files(in: directory, options)
        switch defect {
        case .losesLaterPages: return changed(listing) { Array($0.prefix(1000)) }
        case .hidesEmptyDirectories:
            return changed(listing) { files in
                files.filter { file in !file.isDirectory || files.contains { $0.key.hasPrefix(file.key + "/") } }
            }
        case .sortsWholeKeys where options.sorted:
            return changed(listing) { files in
                files.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            }
        case .takesPrefixesForDirectories where !options.prefix.isEmpty:
            return changed(listing) { files in
                files.filter { $0.key == options.prefix || $0.key.hasPrefix(options.prefix + "/") }
            }
        case .listsTheMissing: return changed(listing) { $0 }
        case .repeatsBesideDeletions:
            let count = deletionCount.withLock(\.self)
            return changed(listing) { [self] files in
                passTime()
                return deletionCount.withLock(\.self) == count ? files : files + files
            }
        default: return listing
        }
    }

    /// A listing with the files that `change` makes of those of another.
    private func changed(
        _ listing: FileListing, _ change: @escaping @Sendable ([StoredFile]) -> [StoredFile]
    ) -> FileListing {
        FileListing { [defect] in
            var isListed = false
            return {
                guard !isListed else { return nil }
                isListed = true
                var files: [StoredFile] = []
                do {
                    for try await file in listing { files.append(file) }
                } catch let error as FileStoreError where error.code == .notFound && defect == .listsTheMissing {}
                return change(files)
            }
        }
    }

    // MARK: Copies and exports

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
        case .exportsToAll:
            try await base.export(key, to: destination, overwrite: overwrite)
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: destination.path)
        case .replacesFIFOs where overwrite:
            let status = try SystemFileSystem().status(try POSIXPath(destination), followsSymbolicLinks: false)
            if status.type == .fifo { try FileManager.default.removeItem(at: destination) }
            try await base.export(key, to: destination, overwrite: true, progress: progress)
        case .followsLinks where overwrite: try await base.load(key).write(to: destination)
        case .omitsDestinations:
            do {
                try await base.export(key, to: destination, overwrite: overwrite, progress: progress)
            } catch let error as FileStoreError {
                throw FileStoreError(error.code, .export, key: key)
            }
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

/// A reader of a ``BrokenStreamingFileStore``, with the defect of the store.
final class BrokenFileReader: FileReading {
    private let base: FileReader
    private let store: BrokenStreamingFileStore

    init(_ base: FileReader, of store: BrokenStreamingFileStore) { (self.base, self.store) = (base, store) }

    var file: StoredFile { base.file }

    func read(_ range: Range<Int64>) async throws -> Data {
        switch store.defect {
        case .shiftsRanges where (-100..<0).contains(range.lowerBound):
            return try await base.read(0..<range.upperBound - range.lowerBound)
        case .readsTheKey where store.base.exists(file.key):
            return try await store.base.reader(for: file.key).read(range)
        default: return try await base.read(range)
        }
    }

    func attributes() async throws -> [String: String] { try await base.attributes() }
}

/// A writer of a ``BrokenStreamingFileStore``, with the defect of the store.
final class BrokenFileWriter: FileWriting {
    private let base: FileWriter
    private let key: String
    private let store: BrokenStreamingFileStore
    private var defect: BrokenStreamingFileStore.Defect? { store.defect }
    private let writeCount = Mutex(0)
    private let committed = Mutex<StoredFile?>(nil)
    private let hasFailed = Mutex(false)

    init(_ base: FileWriter, _ key: String, of store: BrokenStreamingFileStore) {
        (self.base, self.key, self.store) = (base, key, store)
    }

    func write(_ data: Data) async throws {
        writeCount.withLock { $0 += 1 }
        if defect == .commitsIncomplete { try Task.checkCancellation() }
        if defect == .losesChunks, writeCount.withLock(\.self) > 64 { return }
        try await base.write(data)
    }

    func commit() async throws -> StoredFile {
        if defect == .needsDirectories, key == "d/f", !store.base.exists("d") {
            throw FileStoreError(.notFound, .save, key: key)
        }
        if defect == .commitsTwice, let file = committed.withLock(\.self) { return file }
        if defect == .retriesCommits, hasFailed.withLock(\.self) {
            return try await store.base.save(Data(), to: key, if: .absent)
        }
        do {
            let file = try await base.commit()
            committed.withLock { $0 = file }
            return file
        } catch {
            hasFailed.withLock { $0 = true }
            throw error
        }
    }

    func cancel() async {
        guard defect == .keepsCancelled else { return await base.cancel() }
        do { try await base.commit() } catch _ {}
    }
}

/// A file store that passes all calls to one in memory, except those that it implements itself, and reports no changes.
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
}
