import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Verifies a backup and copies its stores to a new directory.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Copy the stores of a backup to a new directory.",
        discussion: """
            All files of the backup are compared with its manifest before anything is written, and again while they are \
            copied. Modes and attributes are those in the manifest, whatever has copied the backup since. The stores \
            appear at the destination when all of them are complete and flushed; nothing that exists is replaced. An \
            unfinished or altered backup is refused. Files that were added to it since are listed, and not restored.

            The stores are completed in .NAME.partial beside the destination NAME. The next restore to the same \
            destination removes what an interrupted one left. The restore is refused if anything else has that name, and \
            if the destination is in the directory of a store.
            """)

    @Argument(help: "The directory of the backup.")
    var backup: String

    @Argument(help: "The directory of the stores, which must not exist, or be empty.")
    var destination: String

    @Flag(name: [.short, .long], help: "Only verify the backup.")
    var dryRun = false

    @OptionGroup var output: JSONOption

    func validate() throws {
        try requirePath(backup, of: "backup")
        try requirePath(destination, of: "destination")
    }

    func run() throws {
        let url = URL(POSIXPath(backup))
        try requireStore("backup", at: url, isDirectory: true)
        Interruption.deferInterruption()
        let report = BackupReport(dryRun ? "verified" : "restored", json: output.json)
        defer { report.progress.finish() }
        let source = try POSIXPath(url)
        let total = try verify(source)
        report.progress.expect(total)
        try reportAdded(to: source, files: total.items, report)
        if dryRun {
            try BackupManifestReader(of: source).forEach { try report.count(bytes: $0.bytes) }
        } else {
            try copy(source, report)
        }
        try report.finish(destination)
    }

    /// Compares all files with the manifest; returns their number and size.
    private func verify(_ backup: POSIXPath) throws -> Progress.Amount {
        var total = Progress.Amount()
        var content: ConfinedDirectory?
        try BackupManifestReader(of: backup).forEach { file in
            let path = try file.relativePath()
            let directory = try content ?? Self.content(of: backup)
            content = directory
            try Self.require(HashedCopy().content(of: path, in: directory), as: file)
            total.items += 1
            total.bytes += file.bytes
        } directory: {
            _ = try $0.relativePath()
        }
        return total
    }

    /// Lists the files that are in the directory of the backup and not among the files of its manifest, and the
    /// directories that cannot be read: none of them is of a file of the manifest.
    private func reportAdded(to backup: POSIXPath, files count: Int, _ report: BackupReport) throws {
        var found = 0
        func forEachEvent(_ body: (StoreWalk.Event) throws -> Void) throws {
            do {
                var walk = StoreWalk(try Self.content(of: backup))
                while let event = try walk.next() {
                    try Interruption.check()
                    try body(event)
                }
            } catch let error as FileSystemError where count == 0 && error.errno.isDisappearance {
                // A backup without files may have lost its empty directory.
            }
        }
        try forEachEvent {
            if case .file = $0 { found += 1 }
            if case .failed(let error) = $0 { try report.skip(error.shownPath, "\(error)") }
        }
        // All files of the manifest are there.
        guard found >= count else {
            throw CommandFailure("the manifest is altered: it lists a file twice; nothing is restored")
        }
        guard found > count else { return }
        var listed: Set<POSIXPath> = []
        try BackupManifestReader(of: backup).forEach { listed.insert(try $0.relativePath()) }
        try forEachEvent {
            guard case .file(let entry) = $0, !listed.contains(entry.path) else { return }
            try report.skip(entry.path.shown, "not in the manifest: added since")
        }
    }

    private static func content(of backup: POSIXPath) throws(FileSystemError) -> ConfinedDirectory {
        try ConfinedDirectory(backup.appending(BackupManifest.content))
    }

    /// Copies the files to a staged directory, compares them with the manifest again, and renames the directory.
    private func copy(_ backup: POSIXPath, _ report: BackupReport) throws {
        let staged = try StagedDirectory(
            for: try POSIXPath(URL(POSIXPath(destination))), keeping: [backup])
        let target = try ConfinedDirectory(staged.path)
        var content: ConfinedDirectory?
        let flush = BulkFlush()
        try BackupManifestReader(of: backup).forEach { file in
            let path = try file.relativePath()
            // A backup without files may have lost the directory.
            let source = try content ?? Self.content(of: backup)
            content = source
            try Self.createParent(of: path, in: target)
            let copied = try HashedCopy().copy(
                path, in: source, to: target,
                permissions: FilePermissions(rawValue: CModeT(file.permissions & 0o777)),
                attributes: (file.attributes ?? [:]).mapValues { Array($0) })
            try Self.require(copied.content, as: file)
            try report.count(bytes: copied.content.bytes)
        } directory: {
            try Self.create($0, in: target)
        }
        try flush.include(target.path)
        try flush.finish()
        try staged.place()
        try Self.restrict(at: try POSIXPath(URL(POSIXPath(destination))), as: backup)
    }

    /// Takes permissions from the owner of the directories that have them only while they are filled and renamed, the
    /// deepest ones first.
    private static func restrict(at destination: POSIXPath, as backup: POSIXPath) throws {
        var restricted: [BackupManifest.Directory] = []
        let all = UInt16(FilePermissions.ownerReadWriteExecute.rawValue)
        try BackupManifestReader(of: backup).forEach { _ in
        } directory: {
            if $0.permissions & all != all { restricted.append($0) }
        }
        guard !restricted.isEmpty else { return }
        let target = try ConfinedDirectory(destination)
        for directory in restricted.reversed() {
            let path = try directory.relativePath()
            let opened = try target.open(path.isEmpty ? "." : path)
            defer { target.fileSystem.discard(opened) }
            try target.fileSystem.setPermissions(directory.filePermissions, of: .descriptor(opened))
            try target.fileSystem.synchronize(opened, .full)
        }
    }

    /// Creates a directory with its permissions; the owner can use it until ``restrict(at:as:)``.
    private static func create(_ directory: BackupManifest.Directory, in target: ConfinedDirectory) throws {
        let path = try directory.relativePath()
        try createParent(of: path.appending("."), in: target)
        let permissions = directory.filePermissions.union(.ownerReadWriteExecute)
        let opened = try target.open(path.isEmpty ? "." : path)
        defer { target.fileSystem.discard(opened) }
        try target.fileSystem.setPermissions(permissions, of: .descriptor(opened))
    }

    /// Creates the directory of a file below `target`; the system refuses a path that leads out of `target`.
    private static func createParent(of path: POSIXPath, in target: ConfinedDirectory) throws(FileSystemError) {
        let parent = path.splitLast().parent
        guard !parent.isEmpty else { return }
        let root = try target.open(".")
        defer { target.fileSystem.discard(root) }
        _ = try target.fileSystem.createDirectories(
            parent, at: root, permissions: .ownerReadWriteExecute, resolution: [.beneath, .noSymbolicLinks])
    }

    /// Throws unless a content has the size and checksum of the manifest.
    private static func require(_ content: HashedCopy.Content, as file: BackupManifest.File) throws {
        guard content == HashedCopy.Content(bytes: file.bytes, sha256: file.sha256) else {
            throw CommandFailure("\(file.path) in the backup is altered or damaged; nothing is restored")
        }
    }
}
