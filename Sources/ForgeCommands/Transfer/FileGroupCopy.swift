import ForgeStorage
import Foundation
import SystemPackage

/// Copies a group of files: both directories are opened once, and short files are stored in one batch.
struct FileGroupCopy {
    /// The number of files from which a batch is stored.
    private static let batchCount = 64
    /// The size in bytes from which a batch is stored.
    private static let batchSize = 1 << 20

    private let group: FileGroup
    private let source: ConfinedDirectory
    private let target: FileTarget
    private let arguments: TransferArguments
    private let log: TransferLog
    private let fileSystem = SystemFileSystem()

    /// The directory of the group in the target, or the error of creating or opening it, which a write into it throws.
    private let targetDirectory: Result<Descriptor, FileSystemError>

    fileprivate struct ShortFile {
        let path: POSIXPath
        let action: TransferLog.Action
        let content: Data
        let attributes: [String: String]
    }

    /// The store of the directory in the target; nil until it is needed.
    private var targetStore: TargetStore?

    /// A store in an ordinary directory, of which the directory of the group is a part.
    private struct TargetStore {
        let scope: StoreScope
        /// Whether the source has a store of the same kinds at the same path.
        var isMirrored = false
        /// Why nothing is written there: the source has another store there, or the destination a backup.
        var refusal: String?
        /// Whether another process has the key-value store open.
        var isInUse = false
    }

    /// Short files, to be stored in one batch.
    private var batch: [ShortFile] = []
    private var sizeOfBatch = 0

    init(
        _ group: FileGroup, preparedWith failure: FileSystemError?, from source: ConfinedDirectory,
        to target: FileTarget, _ arguments: TransferArguments, _ log: TransferLog
    ) {
        self.group = group
        self.source = source
        self.target = target
        self.arguments = arguments
        self.log = log
        targetDirectory = Result { () throws(FileSystemError) in
            if let failure { throw failure }
            return try target.openDirectory(group.directory)
        }
    }

    /// Copies the files and records the result of each.
    ///
    /// - Returns: False if their directory is not found any more: they are recorded as removed, but they may be elsewhere
    ///   with it.
    /// - Throws: An error that concerns all files.
    mutating func run() async throws -> Bool {
        defer { if case .success(let directory) = targetDirectory { fileSystem.discard(directory) } }
        let directory: Descriptor
        do throws(SourceFailure) {
            directory = try SourceFile.openDirectory(group.directory, in: source)
        } catch {
            let isMissing = error.error.errno.isDisappearance
            try recordAll(isMissing ? .removed : .fail, isMissing ? nil : "\(error)")
            return !isMissing
        }
        defer { fileSystem.discard(directory) }
        if let listed = group.identity, try DirectoryIdentity(fileSystem.status(of: .descriptor(directory))) != listed {
            try recordAll(.removed)
            return false
        }
        for name in group.names {
            try Interruption.check()
            let path = group.path(of: name)
            do {
                try await copy(name, path, in: directory)
            } catch {
                try record(error, path)
            }
        }
        try await storeBatch()
        if !arguments.dryRun { try target.includeInFlush(group.directory) }
        return true
    }

    private mutating func copy(_ name: POSIXPath, _ path: POSIXPath, in directory: Descriptor) async throws {
        if let reason = target.refusal(of: path) { return try log.record(.fail, path.shown, reason: reason) }
        let file = try SourceFile(name, in: directory, path: source.path.appending(path), on: fileSystem)
        defer { fileSystem.discard(file.descriptor) }
        guard file.status.type == .regular else {
            return try log.record(.skip, path.shown, reason: file.status.type.text)
        }
        let size = file.status.sizeInBytes
        var present: Descriptor?
        switch targetDirectory {
        case .success(let directory): present = target.open(name, in: directory)
        case .failure(let error):
            // A file store creates its directories; a dry run does not.
            let isReportedLater = target.store != nil && !arguments.dryRun
            guard isReportedLater || error.errno == .noSuchFileOrDirectory else { throw error }
        }
        defer { present.map(fileSystem.discard) }
        if let present, try file.isEqual(to: present) { return try log.record(.equal, path.shown, bytes: size) }
        if let present, try fileSystem.status(of: .descriptor(present)).type == .directory {
            return try log.record(.fail, path.shown, reason: "the destination has a directory there")
        }
        if let reason = try refusal(of: name, from: directory) {
            return try log.record(.fail, path.shown, reason: reason)
        }
        if try isBookkeeping(name) { return }
        var action = present == nil ? TransferLog.Action.copy : .replace
        if present == nil, case .success(let directory) = targetDirectory,
            try fileSystem.exists(name, at: directory, followsSymbolicLinks: false)
        {
            // A link or a socket, which is not opened.
            action = .replace
        }
        guard !arguments.dryRun else { return try log.record(action, path.shown, bytes: size) }
        guard let store = target.store else {
            try target.replace(name, in: targetDirectory.get(), by: file, isPresent: present != nil)
            return try log.record(action, path.shown, bytes: size)
        }
        if let content = try file.shortContent() {
            let attributes = try file.attributes(named: path.shown)
            batch.append(ShortFile(path: path, action: action, content: Data(content), attributes: attributes))
            sizeOfBatch += content.count
            if batch.count == Self.batchCount || sizeOfBatch >= Self.batchSize { try await storeBatch() }
        } else {
            try await file.store(in: store, as: path.shown)
            try log.record(action, path.shown, bytes: size)
        }
    }

    /// The reason why a file is not written: its directory in a file store belongs to a store that is not known, or its
    /// name in an ordinary one to a store in the destination that the source does not have there, or that another process
    /// has open. Nil if it is written.
    private mutating func refusal(of name: POSIXPath, from source: Descriptor) throws -> String? {
        guard target.store == nil else {
            return try target.isInUnknownStore(group.directory) ? "\(PresentStore.unknown)" : nil
        }
        let store = try targetStore ?? openTargetStore(from: source)
        targetStore = store
        if store.isInUse { return "the store there is in use by another process" }
        if store.isMirrored { return nil }
        if let refusal = store.refusal { return refusal }
        let scope = store.scope
        // Every file below the root of a store with nested keys is one of the store.
        guard case .success(let directory) = targetDirectory,
            try scope.store.hasNestedKeys || scope.isStoreFile(name, at: directory, on: fileSystem)
        else { return nil }
        guard scope.store == .none else { return "\(PresentStore(scope))" }
        let kind = try fileSystem.kindByContent(of: name, at: directory)
        let isSame =
            try StoreScope.outside.isStoreFile(name, at: source, on: fileSystem)
            && fileSystem.kindByContent(of: name, at: source) == kind
        return isSame ? nil : "\(PresentStore(text: (kind ?? .keyValue).text))"
    }

    private func openTargetStore(from source: Descriptor) throws -> TargetStore {
        guard case .success(let directory) = targetDirectory else {
            let obstacle = try target.obstacle(toCreating: group.directory, like: self.source)
            return TargetStore(scope: .outside, refusal: obstacle.map { "\($0)" })
        }
        if let backup = try target.backup(above: group.directory) {
            // No process has a store in a backup open: its files are like any others.
            let isMirrored = BackupManifest.isBackup(backup, in: self.source)
            let refusal = isMirrored ? nil : "\(PresentStore.backup)"
            return TargetStore(scope: .outside, isMirrored: isMirrored, refusal: refusal)
        }
        var store = TargetStore(scope: try StoreScope(of: directory, on: fileSystem))
        let sourceScope = try StoreScope(of: source, on: fileSystem)
        guard store.scope.store != .none || sourceScope.store != .none else { return store }
        let root = try target.storeRoot(above: group.directory)
        if let root {
            store.isMirrored = try target.isMirrored(root, in: self.source)
            if !store.isMirrored, sourceScope.store != .none {
                store.refusal = try "\(PresentStore(target.scope(of: root)))"
            } else if store.isMirrored, !arguments.dryRun {
                store.isInUse = try !target.lockStore(in: group.directory, of: store.scope)
            }
        } else if store.scope.store == .none {
            store.refusal = try otherUnmarkedStore(sourceScope).map { "\($0)" }
        }
        return store
    }

    /// The store without a marker, or the backup, in the directory of the target; nil if there is none, or if the source
    /// has the same one there. The marker of another store of the source would hide it.
    private func otherUnmarkedStore(_ scope: StoreScope) throws -> PresentStore? {
        let isRecursive = scope.isRoot && scope.store.hasNestedKeys
        let directory = target.root.appendingIfAny(group.directory)
        let other = try FileTarget.unmarkedStoreFiles(in: directory, isRecursive: isRecursive).first { file in
            let path = group.path(of: file.path)
            guard let kind = file.kind else { return !BackupManifest.isBackup(path, in: source) }
            return try !scope.owner.contains(kind) && !SourceFile.hasKind(kind, path, in: source)
        }
        return other.map { other in other.kind.map { PresentStore(text: $0.text) } ?? .backup }
    }

    /// Whether a file is one that only running processes of a store need, such as a lock or a journal: it stays.
    private func isBookkeeping(_ name: POSIXPath) throws(FileSystemError) -> Bool {
        guard let scope = targetStore?.scope, scope.store != .none, case .success(let directory) = targetDirectory
        else { return false }
        do throws(FileSystemError) {
            return try [.bookkeeping, .temporary].contains(scope.role(of: name, at: directory, on: fileSystem))
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// Stores the batch of short files. If that fails, stores them one by one, so that the error names a file.
    private mutating func storeBatch() async throws {
        guard let store = target.store, !batch.isEmpty else { return }
        defer {
            batch = []
            sizeOfBatch = 0
        }
        do {
            try await store.apply(FileBatch(batch), durability: nil)
            for file in batch { try recordStored(file) }
        } catch is FileStoreError {
            for file in batch {
                do {
                    try await store.apply(FileBatch([file]), durability: nil)
                    try recordStored(file)
                } catch {
                    try record(error, file.path)
                }
            }
        }
    }

    private func recordStored(_ file: ShortFile) throws {
        try log.record(file.action, file.path.shown, bytes: Int64(file.content.count))
    }

    // MARK: Failures

    /// Records the same result for each file of the group.
    private func recordAll(_ action: TransferLog.Action, _ reason: String? = nil) throws {
        for name in group.names { try log.record(action, group.path(of: name).shown, reason: reason) }
    }

    /// Records an error of one file; rethrows one that concerns all files.
    private func record(_ error: any Error, _ path: POSIXPath) throws {
        guard error.concernsOneFile else {
            guard let error = error as? FileSystemError else { throw error }
            // The error may name a temporary file.
            throw FileSystemError(error.operation, error.errno, path: target.root.appending(path))
        }
        if (error as? SourceFailure)?.error.errno.isDisappearance == true {
            return try log.record(.removed, path.shown)
        }
        try log.record(.fail, path.shown, reason: "\(error)")
    }
}

extension FileBatch {
    fileprivate init(_ files: [FileGroupCopy.ShortFile]) {
        self.init()
        for file in files { save(file.content, to: file.path.shown, attributes: file.attributes) }
    }
}

/// Some files of one directory.
struct FileGroup: Sendable {
    /// The directory, relative to the root; empty for the root itself.
    var directory: POSIXPath
    var names: [POSIXPath] = []
    /// The directory in which they were listed; nil if that is not known.
    var identity: DirectoryIdentity?
    /// That directory, kept open until the files are copied, so that it has the same identity then.
    var listed: (any Sendable)?

    func path(of name: POSIXPath) -> POSIXPath { directory.isEmpty ? name : directory.appending(name) }
}
