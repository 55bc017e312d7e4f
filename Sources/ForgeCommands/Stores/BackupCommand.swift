import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Copies all stores below a directory, consistently, while apps write to them.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy all stores below a directory while apps write to them.",
        discussion: """
            A key-value store is saved in one consistent state; its log in the backup has no outdated records. Each other \
            file, of a file store, a vault or a cache, is saved as it was at one moment, whatever its name. Directories \
            are saved with their permissions, also empty ones. Files that \
            only running processes of a store need (journals, temporary files that it has recorded) are left out. Links, \
            pipes, sockets and devices are listed and left out. A backup below the directory, or in its place, is saved as it is.

            The backup is written to .NAME.partial beside the destination NAME, flushed, given a manifest with the size \
            and SHA-256 of each file, and then renamed, so an unfinished backup is never taken for a finished one. The \
            next backup to the same destination removes what an interrupted one left. The backup is refused if anything \
            else has that name, and if the destination is in the directory of a store.

            Exit status: 2 if something is left out or could not be saved, or a store is damaged; the backup contains \
            everything else.
            """)

    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @Argument(help: "The directory of the backup, which must not exist, or be empty.")
    var destination: String

    @OptionGroup var output: JSONOption

    func validate() throws {
        try requirePath(directory, of: "directory")
        try requirePath(destination, of: "destination")
    }

    func run() throws {
        let (from, to) = (URL(POSIXPath(directory)), URL(POSIXPath(destination)))
        try requireStore("directory", at: from, isDirectory: true)
        guard try !Ancestry(of: POSIXPath(from)).contains(Ancestry(of: POSIXPath(to))) else { throw overlap }
        Interruption.deferInterruption()
        let report = BackupReport("saved", json: output.json)
        defer { report.progress.finish() }
        let staged = try StagedDirectory(for: try POSIXPath(to), keeping: [try POSIXPath(from)])
        var writer = try BackupWriter(ConfinedDirectory(POSIXPath(from)), to: staged.path, report)
        do {
            try writer.run()
        } catch is StoreWalk.ContainsOther {
            throw overlap  // Through a bind mount.
        }
        try staged.place()
        try report.finish(destination)
    }

    private var overlap: CommandFailure { CommandFailure("\(destination) is in \(directory)", .usage) }
}

/// Copies the stores below a directory into a backup.
///
/// A key-value store is written from one consistent state: the one that a scan of its log finds. Every other file is
/// copied as it was at one moment; stores replace files as a whole. Files that only running processes need are left
/// out.
struct BackupWriter {
    private let fileSystem = SystemFileSystem()
    private let source: ConfinedDirectory
    private let content: ConfinedDirectory
    private let manifest: BackupManifestWriter
    private let report: BackupReport
    private let flush = BulkFlush()
    /// The directory that was created last.
    private var lastParent: POSIXPath?
    /// The backup that the walk is in, which may be the source itself: its files are copied as they are, or its manifest
    /// would not fit.
    private var nestedBackup: POSIXPath?

    /// Begins the backup of a directory of stores; `target` is an empty directory.
    init(_ source: ConfinedDirectory, to target: POSIXPath, _ report: BackupReport) throws {
        self.source = source
        self.report = report
        let content = target.appending(BackupManifest.content)
        try fileSystem.createDirectory(content, at: .workingDirectory, exactly: .ownerReadWriteExecute)
        self.content = try ConfinedDirectory(content)
        manifest = try BackupManifestWriter(in: target)
    }

    /// Copies everything, and completes the manifest durably.
    ///
    /// - Throws: ``CommandFailure`` with the status `notFound` if there is nothing to back up.
    ///   `StoreWalk.ContainsOther` if the backup itself is found below the source.
    mutating func run() throws {
        var walk = StoreWalk(source, except: Ancestry.identity(of: content.path.splitLast().parent))
        while let event = try walk.next() {
            try Interruption.check()
            switch event {
            case .entered(let directory):
                if !isNested(directory.path) {
                    nestedBackup = BackupManifest.isBackup(directory.path, in: source) ? directory.path : nil
                }
                try add(directory)
                let checker = StoreChecker(keys: [], progress: report.progress)
                if !isNested(directory.path), let finding = try checker.logDirectory(directory, below: source.path) {
                    try report.fail(directory.path.shown, "damaged: \(finding.details.joined())")
                }
            case .other: throw StoreWalk.ContainsOther()
            case .failed(let error): try report.fail(error.shownPath, error.reasonLeftOut)
            case .file(let entry): try add(entry, of: walk)
            }
        }
        guard !report.isEmpty else {
            throw CommandFailure("no store here: \(source.path) contains no files", .notFound)
        }
        try flush.finish()
        try manifest.finish()
    }

    /// Adds a directory to the manifest, so that it is restored also if it has no files.
    private func add(_ directory: StoreWalk.Entry) throws {
        guard let path = directory.path.isEmpty ? "." : String(validating: directory.path) else {
            return try report.fail(directory.path.shown, "the name is not valid UTF-8")
        }
        let permissions = UInt16(directory.status.permissions.rawValue) & BackupManifest.Directory.permissionMask
        try manifest.add(BackupManifest.Directory(directory: path, permissions: permissions))
    }

    private mutating func add(_ entry: StoreWalk.Entry, of walk: StoreWalk) throws {
        let role: FileRole
        do throws(FileSystemError) {
            role = try walk.role(of: entry)
        } catch {
            return try report.fail(entry.path.shown, "\(error)")
        }
        if case .special(let type) = role { return try report.skip(entry.path.shown, type.text) }
        guard let path = String(validating: entry.path) else {
            return try report.fail(entry.path.shown, "the name is not valid UTF-8")
        }
        do {
            switch role {
            case _ where isNested(entry.path): try addFile(path, entry.path)
            case .bookkeeping, .temporary, .special: return
            case .log where entry.scope.owner.contains(.keyValue): try addStore(path, entry, of: walk)
            case .content, .log, .vault, .vaultKey, .entry, .quarantine, .marker, .moved:
                try addFile(path, entry.path)
                // A damaged marker makes its directory one of an unknown store.
                let isJudged =
                    [.log, .vault, .vaultKey].contains(role) || entry.scope.owner == .unknownStore
                    || role == .entry && entry.scope.owner.contains(.images)
                if isJudged { try reportDamage(of: entry, in: walk) }
            }
        } catch let error as SourceFailure {
            // A file that was removed after it was listed is not a failure. If another entry has its name now, that
            // entry is missing from the backup; if its directory was moved, the file is.
            guard try error.error.errno.isDisappearance && walk.isRemoved(entry) else {
                return try report.fail(entry.path.shown, "\(error)")
            }
        } catch let error as CommandFailure where error.status == .failure {
            try report.fail(entry.path.shown, "\(error)")
        }
    }

    /// Whether a path is below the backup that the walk is in.
    private func isNested(_ path: POSIXPath) -> Bool { nestedBackup.map(path.isBelow) ?? false }

    /// Reports a marker, log, vault, key file or cached image that was copied and is damaged.
    private func reportDamage(of entry: StoreWalk.Entry, in walk: StoreWalk) throws {
        let checker = StoreChecker(keys: [], progress: report.progress)
        guard let finding = checker.checkFormat(of: entry, in: walk, below: source.path),
            finding.hasWrongContent || finding.role == .log && finding.state == .damaged
        else { return }
        let details = finding.details.joined(separator: "; ")
        try report.fail(entry.path.shown, "damaged, copied as it is: \(finding.kind): \(details)")
    }

    private mutating func addFile(_ path: String, _ item: POSIXPath) throws {
        _ = try preparedPath(for: item)
        let copied: (content: HashedCopy.Content, permissions: FilePermissions, attributes: [String: [UInt8]])
        do {
            copied = try HashedCopy().copy(item, in: source, to: content)
        } catch {
            removeIncomplete(item)
            throw error
        }
        try manifest.add(
            BackupManifest.File(
                path: path, bytes: copied.content.bytes, sha256: copied.content.sha256,
                permissions: UInt16(copied.permissions.rawValue),
                attributes: copied.attributes.isEmpty ? nil : copied.attributes.mapValues { Data($0) }))
        try report.count(bytes: copied.content.bytes)
    }

    /// Removes what an attempt to copy a file has left: only files of the manifest belong to the backup.
    private func removeIncomplete(_ item: POSIXPath) {
        do throws(FileSystemError) {
            let (directory, name) = try content.openParent(of: item)
            defer { content.fileSystem.discard(directory) }
            try content.fileSystem.unlink(name, at: directory)
        } catch _ {}  // `restore` reports the file.
    }

    /// Writes the values of a key-value store into a new store in the backup.
    private mutating func addStore(_ path: String, _ entry: StoreWalk.Entry, of walk: StoreWalk) throws {
        let item = entry.path
        let from = source.path.appending(item).splitLast().parent
        let to = try preparedPath(for: item).splitLast().parent
        let store: FileKVStore
        var damage: [String]
        do {
            (store, damage) = try KVStoreArgument.open(URL(from), .readOnly)
        } catch let error as KVStoreError {
            return try report.fail(path, "\(error)")
        } catch let error as CommandFailure where error.status == .notFound {
            // A store that was removed after it was listed is not a failure.
            if try !walk.isRemoved(entry) { try report.fail(path, "\(error)") }
            return
        }
        let keys = try Self.copy(store, to: to)
        if damage.isEmpty { damage = try KVInspection(of: URL(from))?.problems ?? [] }
        let file = try HashedCopy().content(of: item, in: content)
        try manifest.add(
            BackupManifest.File(path: path, bytes: file.bytes, sha256: file.sha256, permissions: 0o600, keys: keys))
        try report.count(bytes: file.bytes)
        for text in damage { try report.fail(path, "damaged, all that can be read is in the backup: \(text)") }
    }

    /// Writes the values of a store into a new log in a directory; returns their number.
    private static func copy(_ store: FileKVStore, to directory: POSIXPath) throws -> Int {
        var copy = try LogCopy(in: directory)
        var batch = KeyValueBatch(limit: .max)
        var count = 0
        try OpenedKVStore.forEachName(of: store) { key in
            try Interruption.check()
            guard let bytes = try store.rawValue(named: key) else { return }
            count += 1
            if batch.refuses(key, bytes) {
                try copy.append(batch.changes)
                batch.removeAll()
            }
            batch.append(key, bytes)
        }
        try copy.append(batch.changes)
        try copy.finish()
        return count
    }

    /// Creates the directory of a file in the backup; returns the path of the file.
    private mutating func preparedPath(for item: POSIXPath) throws -> POSIXPath {
        let path = content.path.appending(item)
        let parent = path.splitLast().parent
        if parent != lastParent {
            try fileSystem.createDirectories(
                parent, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: [])
            try flush.include(parent)
            lastParent = parent
        }
        return path
    }
}
