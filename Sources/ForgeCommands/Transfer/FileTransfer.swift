import ForgeStorage
import Foundation
import SystemPackage

/// Copies files between file stores and directories, several at a time.
struct FileTransfer {
    private static let concurrency = 4
    /// The maximum number of files that one task copies. Large groups keep concurrent tasks in different directories:
    /// changes of one directory wait for each other.
    private static let groupLimit = 1024

    private let arguments: TransferArguments
    private let log: TransferLog
    private let source: ConfinedDirectory
    private let target: FileTarget
    private let sourceIdentity: DirectoryIdentity?
    /// The identity of the destination, or of its nearest existing ancestor; the walk of the source must not find it.
    private let targetIdentity: DirectoryIdentity?

    /// `source` is the opened directory of the source; nil to open it.
    init(_ arguments: TransferArguments, _ log: TransferLog, from source: ConfinedDirectory? = nil) throws {
        self.arguments = arguments
        self.log = log
        let source = try source ?? ConfinedDirectory(POSIXPath(arguments.source.url))
        self.source = source
        sourceIdentity = Ancestry.identity(of: source.path)
        target = try FileTarget(arguments.destination)
        targetIdentity = Ancestry(of: target.root).nearest
    }

    /// Copies the files, deletes extraneous ones and verifies the copies, as the arguments request.
    ///
    /// - Throws: ``CommandFailure`` or `FileSystemError` for a failure that concerns the whole copy; the failure of one
    ///   file is recorded in the log.
    func run() async throws {
        do {
            try await transfer()
        } catch is StoreWalk.ContainsOther {
            throw overlap
        }
    }

    private func transfer() async throws {
        try requireSeparatePlaces()
        if log.progress.isVisible { log.progress.expect(try count()) }
        guard try await copyFiles() else {
            // No file can be copied; the log has a line for each.
            if log.hasLeftOut { return }
            throw CommandFailure("the source is empty: \(arguments.source.text); nothing was changed")
        }
        // Before any deletion: on file systems that fold case the file may be one that was just copied.
        if !arguments.dryRun { try target.finish() }
        if arguments.delete { try await deleteExtraneous() }
        guard !arguments.dryRun else { return }
        try target.finish()
        if arguments.verify { try verify() }
    }

    /// Throws if source and destination are the same directory or contain one another: a copy into its own source would
    /// not end.
    private func requireSeparatePlaces() throws {
        let (from, to) = (Ancestry(of: source.path), Ancestry(of: target.root))
        if from.contains(to) || to.contains(from) { throw overlap }
    }

    private var overlap: CommandFailure {
        CommandFailure("\(arguments.source.text) and \(arguments.destination.text) contain one another", .usage)
    }

    // MARK: Source

    private var isStore: Bool { arguments.source.scheme == .files }

    private func walk() -> StoreWalk { StoreWalk(source, except: targetIdentity) }

    /// The next file of the source that is copied; records the entries that are not.
    private func nextFile(_ walk: inout StoreWalk) throws -> StoreWalk.Entry? {
        let record = { (error: FileSystemError) in
            try log.record(.fail, error.shownPath, reason: error.reasonLeftOut)
        }
        while let entry = try nextReadable(&walk, unread: record) {
            switch try walk.carried(entry, ofStore: isStore) {
            case .copied: return entry
            case .omitted: continue
            case .skipped(let reason): try log.record(.skip, entry.path.shown, reason: reason)
            case .failed(let reason): try log.record(.fail, entry.path.shown, reason: reason)
            }
        }
        return nil
    }

    /// The next entry. Calls `unread` with the error of each directory or file that cannot be read, which
    /// ``nextFile(_:)`` records.
    private func nextReadable(
        _ walk: inout StoreWalk, unread: (FileSystemError) throws -> Void = { _ in }
    ) throws -> StoreWalk.Entry? {
        while true {
            try Interruption.check()
            do {
                return try walk.nextFile(ofStore: isStore)
            } catch let error as FileSystemError {
                try unread(error)
            }
        }
    }

    private func count() throws -> Progress.Amount {
        var total = Progress.Amount()
        var walk = walk()
        while let entry = try nextReadable(&walk) {
            guard entry.status.type == .regular else { continue }
            total.items += 1
            total.bytes += entry.status.sizeInBytes
        }
        return total
    }

    // MARK: Copying

    /// Copies all files; returns false, with nothing changed, if the source has none.
    private func copyFiles() async throws -> Bool {
        var walk = walk()
        var next = try nextFile(&walk)
        guard next != nil else { return false }
        if target.store != nil { try FileTarget.requireNoUnmarkedStores(in: target.root, .partial) }
        try await openStore()
        // The directories that were listed and not found when their files were to be copied.
        var missing: [POSIXPath: DirectoryIdentity] = [:]
        try await withThrowingTaskGroup(of: FileGroup?.self) { group in
            var running = 0
            while let first = next {
                var files = FileGroup(
                    directory: first.path.splitLast().parent, identity: first.parent, listed: walk.openDirectory)
                while let path = next?.path, path.splitLast().parent == files.directory,
                    files.names.count < Self.groupLimit
                {
                    files.names.append(path.splitLast().name)
                    next = try nextFile(&walk)
                }
                let failure = try prepare(files.directory)
                // Copied first: until a store's markers exist, its directory in the destination counts as one of an
                // unknown store, in which no file may be changed.
                let markers = files.names.prefix { $0.isMarkerOfKind }
                if !markers.isEmpty {
                    var copy = FileGroupCopy(
                        FileGroup(directory: files.directory, names: Array(markers), identity: files.identity),
                        preparedWith: failure, from: source, to: target, arguments, log)
                    if try await !copy.run() { missing[files.directory] = files.identity }
                    files.names.removeFirst(markers.count)
                }
                if running == Self.concurrency {
                    if let files = try await group.next() ?? nil { missing[files.directory] = files.identity }
                    running -= 1
                }
                group.addTask { [files] in
                    var copy = FileGroupCopy(
                        files, preparedWith: failure, from: source, to: target, arguments, log)
                    return try await copy.run() ? nil : files
                }
                running += 1
            }
            for try await case let files? in group { missing[files.directory] = files.identity }
        }
        // Records those that may have been moved.
        let inOrder = missing.sorted { $0.key.bytes.lexicographicallyPrecedes($1.key.bytes) }
        for (directory, identity) in inOrder { walk.miss(directory, identity) }
        _ = try nextFile(&walk)
        return true
    }

    /// Creates a missing file store before several tasks write to it: until the store has marked its directory, the
    /// directory counts as one of an unknown store, in which no file may be changed.
    private func openStore() async throws {
        guard !arguments.dryRun, let store = target.store else { return }
        do throws(FileSystemError) {
            guard try !StoreScope(at: target.root, on: SystemFileSystem()).isUnknown else { return }
        } catch {
            // The directory does not exist, or each copy to it reports the error.
        }
        do {
            try await store.open()
        } catch is FileStoreError {
            // Each copy to it reports the error.
        }
    }

    /// Creates a directory of the destination, into which files are copied.
    ///
    /// - Returns: The error that each copy into the directory reports, for example because a file has its name; nil if
    ///   the directory exists.
    private func prepare(_ directory: POSIXPath) throws -> FileSystemError? {
        guard !arguments.dryRun else { return nil }
        do {
            try target.prepare(directory, like: source)
            return nil
        } catch let error as FileSystemError where error.concernsOneFile {
            return error
        }
    }

    // MARK: Afterwards

    /// Deletes extraneous files, which the source does not have.
    ///
    /// - Throws: ``CommandFailure``, with nothing deleted, if there are more than `--max-delete`.
    private func deleteExtraneous() async throws {
        try log.requireCompleteSource()
        var count = 0
        var kept: [(path: POSIXPath, reason: String)] = []
        try forEachExtraneous {
            if let reason = $1 { kept.append(($0, reason)) } else { count += 1 }
        }
        guard count <= arguments.maxDelete else {
            throw CommandFailure(
                "nothing was deleted: \(counted(count, "file")) would be deleted, more than --max-delete \(arguments.maxDelete)",
                .partial)
        }
        for (path, reason) in kept { try log.record(.skip, path.shown, reason: reason) }
        if count > 0, !arguments.dryRun { try await copyAppeared() }
        var others: [POSIXPath] = []
        try forEachExtraneous { if $1 == nil { others.append($0) } }
        for path in try removingOtherSpellings(others) {
            try Interruption.check()
            try requireSameSource()
            do {
                if !arguments.dryRun { try await target.delete(path) }
                try log.record(.delete, path.shown)
            } catch  where Self.isGone(error) {
                try log.record(.removed, path.shown)
            } catch  where error.concernsOneFile {
                try log.record(.fail, path.shown, reason: "\(error)")
            }
        }
    }

    /// Whether the file that was to be deleted does not exist any more.
    private static func isGone(_ error: any Error) -> Bool {
        switch error {
        case let error as FileSystemError: error.errno.isDisappearance
        case let error as FileStoreError: error.code == .notFound
        default: false
        }
    }

    /// Why the backup or store with this root is kept whole; nil if it is a copy of one in the source.
    private func reasonToKeep(_ root: POSIXPath, isBackup: Bool) throws -> String? {
        if isBackup {
            return BackupManifest.isBackup(root, in: source)
                ? nil : "a backup that the source does not have is kept whole"
        }
        guard try !target.isMirrored(root, in: source) else { return nil }
        let isUnknown = try target.scope(of: root).isUnknown
        let kind = isUnknown ? "of a kind that is not known" : "that the source does not have"
        return "a store \(kind) is kept whole"
    }

    /// The next entry of the destination. A directory that disappears there has no file to delete.
    private func nextPresent(_ walk: inout StoreWalk) throws -> StoreWalk.Entry? {
        while true {
            do {
                return try walk.nextFile(ofStore: target.store != nil)
            } catch let error as FileSystemError where error.errno.isDisappearance {}
        }
    }

    /// Calls `body` with each extraneous file that is deleted, without a reason; and with a reason, with each that is
    /// kept, and once with the root of each store or backup that is.
    private func forEachExtraneous(_ body: (POSIXPath, _ reasonToKeep: String?) -> Void) throws {
        guard try itemExists(at: arguments.destination.url, isDirectory: true) else { return }
        var walk = StoreWalk(try ConfinedDirectory(target.root), except: sourceIdentity)
        // The last directory, and the backup that it belongs to.
        var last: (directory: POSIXPath, backup: POSIXPath?)?
        // The roots of backups and stores, and whether they are copies of those in the source.
        var roots: [POSIXPath: Bool] = [:]
        while let entry = try nextPresent(&walk) {
            try Interruption.check()
            let (directory, name) = entry.path.splitLast()
            if last?.directory != directory { last = (directory, try target.backup(above: directory)) }
            if let root = last?.backup ?? (target.store == nil ? entry.root : nil) {
                if roots[root] == nil {
                    let reason = try reasonToKeep(root, isBackup: last?.backup != nil)
                    roots[root] = reason == nil
                    if reason != nil { body(root, reason) }
                }
                if roots[root] == false { continue }
            }
            guard try !SystemFileSystem().exists(source.path.appending(entry.path), followsSymbolicLinks: false) else {
                continue
            }
            if target.store != nil, entry.status.type == .directory, entry.scope.isRoot {
                body(entry.path, "a store that the source does not have is kept whole")
            }
            guard entry.status.type == .regular, target.store == nil || entry.path.isKey else { continue }
            if name.isLeftover {
                if target.isAbandoned(entry.path) {
                    body(entry.path, nil)
                } else if entry.scope.store == .none, !PartialFile.isName(name) {
                    body(entry.path, "a file with the name of a temporary one is kept")
                }
                continue
            }
            // In a backup, all files are like those of apps.
            let role = last?.backup == nil ? try walk.role(of: entry) : .content
            if try role == .log || entry.scope.store == .none && target.isUnmarkedStoreFile(entry.path, role) {
                body(entry.path, "a file of a store is kept")
            } else if role.isDeletedWhenMissing {
                body(entry.path, nil)
            }
        }
    }

    /// The extraneous files, except those that are copies just made: a file system that folds case or normalises names
    /// lists them under another spelling.
    ///
    /// - Throws: ``CommandFailure``, with nothing deleted, if the source now has a file that was not copied: an
    ///   extraneous file may be the only copy of it, under the path that it had before.
    private func removingOtherSpellings(_ others: [POSIXPath]) throws -> [POSIXPath] {
        guard !others.isEmpty else { return [] }
        var remaining = Dictionary(grouping: others) { Self.folded($0) }
        var walk = walk()
        while let entry = try nextReadable(&walk, unread: { throw CommandFailure.sourceChanged($0.shownPath) }) {
            guard let identity = target.identity(of: entry.path) else {
                if try isToBeCopied(entry, walk) { throw CommandFailure.sourceChanged(entry.path.shown) }
                continue
            }
            guard let same = remaining[Self.folded(entry.path)] else { continue }
            remaining[Self.folded(entry.path)] = same.filter { target.identity(of: $0) != identity }
        }
        return remaining.values.joined().sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    /// Copies the files that were created or moved in the source while the others were copied, so that in a source that
    /// is in use something can be deleted: a copy of all files takes much longer than these and a walk.
    ///
    /// - Throws: ``CommandFailure``, with nothing deleted, if one of them fails.
    private func copyAppeared() async throws {
        var walk = walk()
        var isAny = false
        while let entry = try nextReadable(&walk) {
            guard target.identity(of: entry.path) == nil, try isToBeCopied(entry, walk) else { continue }
            isAny = true
            let (directory, name) = entry.path.splitLast()
            let files = FileGroup(
                directory: directory, names: [name], identity: entry.parent, listed: walk.openDirectory)
            var copy = FileGroupCopy(
                files, preparedWith: try prepare(directory), from: source, to: target, arguments, log)
            guard try await copy.run() else { throw CommandFailure.sourceChanged(entry.path.shown) }
        }
        guard isAny else { return }
        try log.requireCompleteSource()
        try target.finish()
    }

    /// Whether an entry of the source has a copy after a copy without failures.
    private func isToBeCopied(_ entry: StoreWalk.Entry, _ walk: StoreWalk) throws -> Bool {
        guard !arguments.dryRun, case .copied = try walk.carried(entry, ofStore: isStore) else { return false }
        if isStore { return true }
        // A destination keeps its own files for running processes, and what it has recorded as temporary.
        guard !entry.path.splitLast().name.isLeftover else { return false }
        return try ![.bookkeeping, .temporary].contains(walk.role(of: entry))
    }

    private static func folded(_ path: POSIXPath) -> String {
        path.shown.precomposedStringWithCanonicalMapping.lowercased()
    }

    /// Throws if the path of the source now leads to another directory, for example because a volume was unmounted.
    private func requireSameSource() throws {
        guard Ancestry.identity(of: source.path) == sourceIdentity else {
            throw CommandFailure("the source disappeared meanwhile: \(arguments.source.text)", .partial)
        }
    }

    /// Compares each copied file with the source; records those that the walk of the copy has not found.
    private func verify() throws {
        var walk = walk()
        let recordMoved = { (error: FileSystemError) in
            // The others were recorded before.
            guard error.errno.isDisappearance else { return }
            try log.record(.fail, error.shownPath, reason: error.reasonLeftOut)
        }
        while let entry = try nextReadable(&walk, unread: recordMoved) {
            guard case .copied = try walk.carried(entry, ofStore: isStore), target.refusal(of: entry.path) == nil,
                !log.isLeftOut(entry.path.shown)
            else { continue }
            // The destination keeps its own.
            if !isStore, try walk.role(of: entry) == .bookkeeping { continue }
            do {
                if try isEqual(entry.path) {
                    try log.record(.verify, entry.path.shown)
                } else if !log.isCopied(entry.path.shown) {
                    try log.record(.appeared, entry.path.shown)
                } else {
                    try log.record(.fail, entry.path.shown, reason: "differs when read back")
                }
            } catch let error as SourceFailure {
                try log.record(
                    error.error.errno.isDisappearance ? .removed : .fail, entry.path.shown, reason: "\(error)")
            }
        }
    }

    private func isEqual(_ path: POSIXPath) throws -> Bool {
        guard let present = target.open(path) else { return false }
        defer { SystemFileSystem().discard(present) }
        let (parent, name) = path.splitLast()
        let directory = try SourceFile.openDirectory(parent, in: source)
        defer { SystemFileSystem().discard(directory) }
        let file = try SourceFile(name, in: directory, path: source.path.appending(path), on: SystemFileSystem())
        defer { SystemFileSystem().discard(file.descriptor) }
        return try file.isEqual(to: present)
    }
}

extension POSIXPath {
    /// The path in a message; text that is not valid UTF-8 is escaped.
    var shown: String { String(validating: self) ?? description }

    /// This path followed by another one, which may be empty.
    func appendingIfAny(_ path: POSIXPath) -> POSIXPath { path.isEmpty ? self : appending(path) }
}

extension FileSystemError {
    /// The path in a message; empty if the error has none.
    var shownPath: String { path?.shown ?? "" }

    /// Why a walk left out the directory or file at ``shownPath``.
    var reasonLeftOut: String { errno.isDisappearance ? "moved or removed after it was listed" : "\(self)" }

    /// Why a file was left out whose directory is not found: the file may be elsewhere now.
    static let directoryIsElsewhere = "its directory was moved or removed after it was listed"
}

extension FileRole {
    /// Whether `--delete` deletes such a file if the source does not have it. The log, lock and journal of a store are
    /// never deleted.
    var isDeletedWhenMissing: Bool {
        switch self {
        case .content, .quarantine, .vault, .vaultKey, .entry: true
        case .log, .marker, .bookkeeping, .temporary, .moved, .special: false
        }
    }
}

extension DirectoryOwner {
    /// The kinds of its stores in a message; empty if it has none.
    var words: String { text ?? "" }

    /// Whether this directory has all kinds of stores that another directory has; false unless the stores of both are
    /// known.
    func includes(_ other: DirectoryOwner) -> Bool {
        switch (self, other) {
        case (.stores(let kinds), .stores(let others)): kinds.isSuperset(of: others)
        default: false
        }
    }
}
