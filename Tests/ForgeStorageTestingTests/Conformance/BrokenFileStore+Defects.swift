import ForgeFileStore
import Foundation
import Synchronization
import TestDepth

/// The defect of a ``BrokenFileStore``.
enum FileStoreDefect: String, CaseIterable, Sendable {
    case addsNewline = "a loaded file has the saved content"
    case forgetsEmptyFiles = "an empty file is a file"
    case cutsContents = "every byte value round-trips, across page and buffer boundaries"
    case savesSlicesFromTheStart = "a slice of data is saved as the slice"
    case overlays = "a save replaces the whole file"
    case createsNothing = "a save that may not overwrite creates a missing file"
    case overwritesAlways = "a save that may not overwrite leaves an existing file unchanged"
    case buriesKeys = "a file that was deleted can be created again without overwriting"
    case replacesDirectories = "a directory is not replaced by a file"
    case replacesFiles = "a file has nothing below it"
    case checksParentOnly = "a file has nothing below it, however deep"
    case ignoresDigits = "keys that differ in one byte are different files"
    case namesNothing = "an error names the operation and the key and is one line"
    case emptyForMissing = "a file that was never saved is not found"
    case missingDirectoryIsAFault = "a file in a directory that was never created is not found"
    case existsAlways = "a file exists from its save to its removal"
    case infoWithoutSize = "info has key, name, kind and size"
    case infoWithoutKind = "info of a directory reports a directory"
    case directoriesAreEmptyFiles = "a directory has no content and no size"
    case goesBackInTime = "a later save does not have an earlier modification time"
    case keepsTheFirstTime = "a save that replaces a file has a time of its own"
    case listsAllLevels = "a listing shows one level"
    case listsNothingAtTheTop = "the empty key lists the whole store's directory"
    case listsFilesOnly = "a recursive listing contains all levels, including directories"
    case listsBackwards = "a recursive listing contains a directory before its entries"
    case listsByPrefix = "a listing excludes keys that only share a prefix with the directory"
    case listsWithoutSizes = "a listed file has the size and kind of its info"
    case listsGhosts = "every key listed as a file can be loaded"
    case hidesDotFiles = "a listing has hidden files and directories, and the size counts them"
    case listsItself = "a listing does not contain the directory itself"
    case listsTheMissing = "a directory that does not exist cannot be listed"
    case listsFiles = "a file cannot be listed"
    case countsItself = "an empty store lists nothing and has no size"
    case countsTopLevel = "the total size is the sum of all files"
    case listsHundred = "a listing of many files contains each of them once"
    case deletesNothing = "a deleted file is not found, its neighbours are"
    case deletesByPrefix = "deleting a file keeps every file and directory whose key begins with its key"
    case deletesMissing = "deleting a missing file is an error"
    case deletesDirectories = "a directory is not deleted as a file, nor a file as a directory"
    case deletesOneLevel = "deleting a directory deletes its entries and nothing else"
    case closes = "deleteAll leaves an empty store that can be used"
    case remembersDirectories = "a file can replace a deleted directory, and vice versa"
    case createsOnce = "a directory can be created, also when it exists"
    case createsNoDirectories = "a created directory is listed with its parents, and is empty until it is deleted"
    case createsAnywhere = "a directory is not created at the path of a file"
    case cleansKeys = "hostile keys are refused with their reason, and nothing is stored"
    case makesUpURLs = "every call refuses a key that leads out of the store"
    case decodesKeys = "unusual but valid keys are ordinary names"
    case isShallow = "the longest and the deepest key work"
    case losesUmlauts = "a JSON value round-trips"
    case missingIsAFault = "a missing JSON file is nil with the call that allows it, an error otherwise"
    case hidesDamage = "a JSON file of another type is undecodable, never nil, and is kept"
    case missingIsADirectory = "only a missing file is reported as nil"
    case losesNumbers = "a value that JSON cannot represent is not stored"
    case cutsCopies = "a copied file is stored byte for byte, and its source stays"
    case leavesSources = "a moved file is stored byte for byte, and its source is gone"
    case copiesOverEverything = "copy and move replace a file unless overwriting is forbidden"
    case storesMissingSources =
        "a source that is missing, a directory or not a file URL is refused, and nothing is stored"
    case movesLinks = "copy follows a link to a file, move refuses it"
    case movesExchanged = "a source that another program exchanges for a link during a move is moved or refused"
    case encodesTwice = "a URL names the file"
    case overwritesInRaces = "of eight concurrent saves that may not overwrite, exactly one succeeds"
    case mixesContents = "a load during saves gives one content or another, never a mixture"
    case losesAFile = "concurrent saves of many keys are all kept"
    case needsDirectories =
        "a save concurrent with the removal of its directory is complete or absent, and neither call fails"
    case failsBesideDeletions =
        "a listing beside saves and deletions of a file has every other one once, and does not fail"
    case runsOn = "a cancelled task changes nothing"
    case deletesNothingBelowFiles, takesControls, takesUpperCase, misnamesOperations, countsDeleted
    case leavesPrivateNames, losesSources, missesTheRoot, countsBesideDeletions
    case sizesDirectories

    /// The description of the check that must fail.
    var check: String {
        switch self {
        case .deletesNothingBelowFiles: Self.checksParentOnly.rawValue
        case .takesControls, .takesUpperCase: Self.cleansKeys.rawValue
        case .misnamesOperations: Self.makesUpURLs.rawValue
        case .countsDeleted: Self.countsTopLevel.rawValue
        case .leavesPrivateNames: Self.leavesSources.rawValue
        case .losesSources: Self.copiesOverEverything.rawValue
        case .sizesDirectories: Self.infoWithoutKind.rawValue
        case .missesTheRoot: Self.storesMissingSources.rawValue
        case .countsBesideDeletions: Self.failsBesideDeletions.rawValue
        default: rawValue
        }
    }
}

extension BrokenFileStore {
    func mapped(_ key: String) -> String {
        switch defect {
        case .ignoresDigits: key.replacing("2", with: "1")
        case .cleansKeys: key.replacing("\n", with: "_")
        case .takesControls: key.replacing("\u{9F}", with: "_")
        case .takesUpperCase: key.replacing("#LOCK", with: "LOCK")
        case .decodesKeys: key.removingPercentEncoding ?? key
        default: key
        }
    }

    /// Whether a file is not to be stored.
    func swallows(_ data: Data, _ key: String, _ overwrite: Bool) async throws -> Bool {
        let failure: FileStoreError.Code?
        switch defect {
        case .forgetsEmptyFiles: return data.isEmpty
        case .losesNumbers: return key == "number.json"
        case .losesAFile: return key == "d3/10"
        case .closes: return memory.withLock { $0.isClosed }
        case .createsNothing: failure = overwrite ? nil : .alreadyExists
        case .buriesKeys: failure = memory.withLock { !overwrite && $0.deleted.contains(key) } ? .alreadyExists : nil
        case .remembersDirectories: failure = memory.withLock { $0.directories.contains(key) } ? .isDirectory : nil
        case .isShallow: failure = key.utf8.count { $0 == UInt8(ascii: "/") } > 15 ? .tooLarge : nil
        case .needsDirectories: failure = key.hasPrefix("d/e/") && !base.exists("d/e") ? .notFound : nil
        default: failure = nil
        }
        if let failure { throw FileStoreError(failure, .save, key: key) }
        return false
    }

    /// Removes the entry at a key, and entries at its parents.
    func makeWay(for key: String) async throws {
        if defect == .replacesDirectories, try await isDirectory(key) { try await base.deleteDirectory(key) }
        guard defect == .replacesFiles, let slash = key.lastIndex(of: "/") else { return }
        let parent = String(key[..<slash])
        if base.exists(parent), try await !isDirectory(parent) { try await base.delete(parent) }
    }

    // MARK: Listings

    func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        do {
            return adjusted(try await found(in: directory, recursive: recursive), recursive)
        } catch let error as FileStoreError {
            switch (defect, error.code) {
            case (.listsTheMissing, .notFound), (.listsFiles, .notDirectory): return []
            default: throw error
            }
        }
    }

    private func found(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        switch defect {
        case .listsAllLevels: try await base.list(in: directory, recursive: true)
        case .listsNothingAtTheTop where directory.isEmpty: []
        case .listsItself where !directory.isEmpty: try await base.list(in: directory) + [base.info(directory)]
        case .listsByPrefix where !directory.isEmpty:
            try await base.list(in: "", recursive: true).filter { $0.key.hasPrefix(directory) && $0.key != directory }
        case .failsBesideDeletions:
            try await failing(besideDeletionsIn: directory) { try await base.list(in: directory, recursive: recursive) }
        default: try await base.list(in: mapped(directory), recursive: recursive)
        }
    }

    /// Fails if a file is deleted meanwhile, as if its status had been asked for afterwards.
    func failing<Result>(
        besideDeletionsIn directory: String, _ body: () async throws -> Result
    ) async throws -> Result {
        let count = memory.withLock(\.deletionCount)
        let result = try await body()
        passTime()
        guard memory.withLock(\.deletionCount) == count else {
            throw FileStoreError(.notFound, .list, key: directory)
        }
        return result
    }

    private func adjusted(_ files: [StoredFile], _ recursive: Bool) -> [StoredFile] {
        switch defect {
        case .listsFilesOnly where recursive: return files.filter { !$0.isDirectory }
        case .listsBackwards where recursive: return files.reversed()
        case .listsGhosts: return files + [StoredFile(key: "ghost", sizeInBytes: 0, modified: .distantPast)]
        case .hidesDotFiles: return files.filter { !$0.name.hasPrefix(".") }
        case .listsHundred: return Array(files.prefix(100))
        case .listsWithoutSizes:
            return files.map { file in
                var file = file
                file.sizeInBytes = 0
                return file
            }
        default: return files
        }
    }

    // MARK: Sources

    func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        if defect == .storesMissingSources, source.isFileURL, !FileManager.default.fileExists(atPath: source.path) {
            return try await base.save(Data(), to: key)
        }
        if defect == .missesTheRoot, source.path == "/" {
            throw FileStoreError(.invalidSource(.notFound), .copy, key: key)
        }
        if defect == .cutsCopies {
            return try await base.save(try Data(contentsOf: source).prefix(1 << 20), to: key, overwrite: overwrite)
        }
        try await base.copy(from: source, to: key, overwrite: overwrite || defect == .copiesOverEverything)
    }

    func move(from source: URL, to key: String, overwrite: Bool) async throws {
        if [.leavesSources, .movesLinks, .movesExchanged].contains(defect) {
            return try await base.copy(from: source, to: key, overwrite: overwrite)
        }
        do {
            try await base.move(from: source, to: key, overwrite: overwrite)
        } catch let error as FileStoreError where error.code == .isDirectory && defect == .losesSources {
            try FileManager.default.removeItem(at: source)
            throw error
        }
        if defect == .leavesPrivateNames {
            try Data().write(to: source.deletingLastPathComponent().appendingPathComponent(".forge-move-a"))
        }
    }
}
