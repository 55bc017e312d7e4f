import ForgeFileStore
import ForgeFileSystem
import Foundation
import Synchronization

/// A file store with one defect, to test that the corresponding check fails.
final class BrokenFileStore: FileStoring {
    let defect: FileStoreDefect?
    let base = InMemoryFileStore()
    let memory = Mutex(Memory())

    struct Memory {
        var deleted: Set<String> = []
        var deletionCount = 0
        var directories: Set<String> = []
        var infoCount = 0
        var times: [String: Date] = [:]
        var isClosed = false
    }

    /// A store with a defect or, as the control, without any.
    init(_ defect: FileStoreDefect?) { self.defect = defect }

    // MARK: Saving and loading

    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        if defect == .checksParentOnly, key.hasPrefix("foo/a/") { return }
        guard try await !swallows(data, key, overwrite) else { return }
        try await makeWay(for: key)
        var data = data
        switch defect {
        case .savesSlicesFromTheStart where data.startIndex != 0: data = Data()
        case .overlays:
            if base.exists(key) { data += try await base.load(key).dropFirst(data.count) }
        case .losesUmlauts: data = Data(data.map { $0 < 0x80 ? $0 : UInt8(ascii: "?") })
        case .runsOn:
            let (data, base) = (data, base)
            return try await Task { try await base.save(data, to: key, overwrite: overwrite) }.value
        default: break
        }
        let ignoresFlag = defect == .overwritesAlways || defect == .overwritesInRaces
        try await base.save(data, to: mapped(key), overwrite: overwrite || ignoresFlag)
    }

    func load(_ key: String) async throws -> Data {
        var data: Data
        do {
            data = try await base.load(mapped(key))
        } catch let error as FileStoreError {
            guard let replacement = replacement(for: error) else { return Data() }
            throw replacement
        }
        switch defect {
        case .addsNewline: data.append(10)
        case .cutsContents: data = data.prefix(65_536)
        case .mixesContents where data.count >= 20_000: data[data.count - 1] ^= 0xFF
        case .hidesDamage where key.hasSuffix(".json") && !isJSON(data):
            throw FileStoreError(.notFound, .load, key: key)
        default: break
        }
        return data
    }

    private func isJSON(_ data: Data) -> Bool {
        // The value under this key is an object that contains an array.
        data.contains(UInt8(ascii: "["))
    }

    /// The error that replaces that of a load; nil to suppress it.
    private func replacement(for error: FileStoreError) -> FileStoreError? {
        var error = error
        switch (defect, error.code) {
        case (.emptyForMissing, .notFound), (.directoriesAreEmptyFiles, .isDirectory): return nil
        case (.missingDirectoryIsAFault, .notFound) where error.key.contains("/"),
            (.missingIsAFault, .notFound):
            error.code = .unavailable(.inputOutput)
        case (.missingIsADirectory, .isDirectory): error.code = .notFound
        case (.namesNothing, _): error.key = ""
        default: break
        }
        return error
    }

    // MARK: Looking

    func exists(_ key: String) -> Bool {
        defect == .existsAlways || base.exists(mapped(key))
    }

    func info(_ key: String) async throws -> StoredFile {
        var info: StoredFile
        do {
            info = try await base.info(mapped(key))
        } catch let error as FileStoreError where defect == .misnamesOperations {
            throw FileStoreError(error.code, .load, key: key)
        }
        info.key = key
        switch defect {
        case .infoWithoutSize: info.sizeInBytes = 0
        case .infoWithoutKind: info.kind = .file
        case .sizesDirectories where info.isDirectory: info.sizeInBytes = 4_096
        case .keepsTheFirstTime:
            let found = info.modified
            info.modified = memory.withLock { memory in
                let first = memory.times[key] ?? found
                memory.times[key] = first
                return first
            }
        case .goesBackInTime:
            info.modified = Date(
                timeIntervalSince1970: -memory.withLock { memory in
                    memory.infoCount += 1
                    return Double(memory.infoCount)
                })
        default: break
        }
        return info
    }

    func list(in directory: String) async throws -> [StoredFile] {
        try await list(in: directory, recursive: false)
    }

    func totalSize() async throws -> Int64 {
        switch defect {
        case .countsItself: try await base.totalSize() + 1
        case .countsDeleted: try await base.totalSize() + Int64(memory.withLock { $0.deleted.count })
        case .countsTopLevel: try await base.list().reduce(0) { $0 + $1.sizeInBytes }
        case .countsBesideDeletions:
            try await failing(besideDeletionsIn: "") { try await base.totalSize() }
        default: try await base.totalSize()
        }
    }

    func url(for key: String) async throws -> URL {
        do {
            _ = try await base.url(for: key)
        } catch let error as FileStoreError where error.code == .unsupported || defect == .makesUpURLs {}
        let name = defect == .encodesTwice ? key.replacing("%", with: "%25") : key
        return URL(filePath: "/store/" + name)
    }

    // MARK: Deleting and directories

    func delete(_ key: String) async throws {
        switch defect {
        case .deletesNothing: return
        case .deletesDirectories where try await isDirectory(key): try await base.deleteDirectory(key)
        case .deletesMissing where !base.exists(key): return
        case .deletesNothingBelowFiles where key.contains("/") && !base.exists(key): return
        case .deletesByPrefix:
            for file in try await base.list(recursive: true) where file.key.hasPrefix(key) && !file.isDirectory {
                try await base.delete(file.key)
            }
        default: try await base.delete(mapped(key))
        }
        memory.withLock { memory in
            memory.deleted.insert(key)
            memory.deletionCount += 1
        }
    }

    func deleteAll() async throws {
        if defect == .closes { memory.withLock { $0.isClosed = true } }
        try await base.deleteAll()
    }

    func createDirectory(_ key: String) async throws {
        if defect == .createsNoDirectories { return }
        if defect == .createsOnce, base.exists(key) { throw FileStoreError(.alreadyExists, .createDirectory, key: key) }
        do {
            try await base.createDirectory(key)
        } catch let error as FileStoreError where error.code == .notDirectory && defect == .createsAnywhere {}
    }

    func deleteDirectory(_ key: String) async throws {
        if defect == .deletesOneLevel {
            for file in try await base.list(in: key) where !file.isDirectory { try await base.delete(file.key) }
            return
        }
        try await base.deleteDirectory(key)
        memory.withLock { _ = $0.directories.insert(key) }
    }

    func isDirectory(_ key: String) async throws -> Bool {
        base.exists(key) ? try await base.info(key).isDirectory : false
    }
}

/// A file store in which one of the calls that are refused seems to succeed, and does nothing.
final class ForgivingFileStore: StreamingFileStoring {
    private let base = InMemoryFileStore()
    private let refusals: Refusals
    /// The results of calls that open a file and are forgiven.
    private let opened: (reader: FileReader, writer: FileWriter)

    init(_ refusals: Refusals) async throws {
        self.refusals = refusals
        let other = InMemoryFileStore()
        try await other.save(Data(), to: "read")
        opened = (try await other.reader(for: "read"), try await other.writer(for: "written"))
    }

    /// Makes a call; if its refusal is forgiven, the result is `substitute`.
    fileprivate func forgiving<Result>(
        _ substitute: Result, _ call: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await call()
        } catch {
            guard refusals.isNextForgiven() else { throw error }
            return substitute
        }
    }

    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        try await forgiving(()) { try await base.save(data, to: key, overwrite: overwrite) }
    }

    func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        try await forgiving(opened.reader.file) {
            try await base.save(data, to: key, if: condition, durability: durability, attributes: attributes)
        }
    }

    func apply(_ batch: FileBatch, durability: Durability?) async throws {
        try await forgiving(()) { try await base.apply(batch, durability: durability) }
    }

    func load(_ key: String) async throws -> Data { try await forgiving(Data()) { try await base.load(key) } }

    func reader(for key: String) async throws -> FileReader {
        try await forgiving(opened.reader) { try await base.reader(for: key) }
    }

    func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> ForgivingFileWriter {
        let writer = try await forgiving(opened.writer) {
            try await base.writer(for: key, if: condition, durability: durability, attributes: attributes)
        }
        return ForgivingFileWriter(base: writer, store: self, file: opened.reader.file)
    }

    func exists(_ key: String) -> Bool { base.exists(key) }

    func info(_ key: String) async throws -> StoredFile {
        try await forgiving(opened.reader.file) { try await base.info(key) }
    }

    func list(in directory: String) async throws -> [StoredFile] {
        try await forgiving([]) { try await base.list(in: directory) }
    }

    func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        try await forgiving([]) { try await base.list(in: directory, recursive: recursive) }
    }

    func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        let listing = base.files(in: directory, options)
        return FileListing { [self] in
            var isListed = false
            return { [self] in
                guard !isListed else { return nil }
                isListed = true
                return try await forgiving([]) { () async throws -> [StoredFile] in
                    var files: [StoredFile] = []
                    for try await file in listing { files.append(file) }
                    return files
                }
            }
        }
    }

    func changes(in directory: String) -> FileChanges { base.changes(in: directory) }

    func totalSize() async throws -> Int64 { try await base.totalSize() }

    func url(for key: String) async throws -> URL {
        try await forgiving(URL(filePath: "/other")) { try await base.url(for: key) }
    }

    func delete(_ key: String) async throws { try await forgiving(()) { try await base.delete(key) } }

    func deleteAll() async throws { try await base.deleteAll() }

    func createDirectory(_ key: String) async throws {
        try await forgiving(()) { try await base.createDirectory(key) }
    }

    func deleteDirectory(_ key: String) async throws {
        try await forgiving(()) { try await base.deleteDirectory(key) }
    }

    func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        try await forgiving(()) { try await base.copy(from: source, to: key, overwrite: overwrite) }
    }

    func copy(from source: URL, to key: String, overwrite: Bool, progress: Progress?) async throws {
        try await forgiving(()) {
            try await base.copy(from: source, to: key, overwrite: overwrite, progress: progress)
        }
    }

    func move(from source: URL, to key: String, overwrite: Bool) async throws {
        try await forgiving(()) { try await base.move(from: source, to: key, overwrite: overwrite) }
    }

    func export(_ key: String, to destination: URL, overwrite: Bool, progress: Progress?) async throws {
        try await forgiving(()) {
            try await base.export(key, to: destination, overwrite: overwrite, progress: progress)
        }
    }
}

/// A writer of a ``ForgivingFileStore``.
struct ForgivingFileWriter: FileWriting {
    fileprivate let base: FileWriter
    fileprivate let store: ForgivingFileStore
    /// The result of a commit that is forgiven.
    fileprivate let file: StoredFile

    func write(_ data: Data) async throws { try await store.forgiving(()) { try await base.write(data) } }

    func commit() async throws -> StoredFile { try await store.forgiving(file) { try await base.commit() } }

    func cancel() async { await base.cancel() }
}
