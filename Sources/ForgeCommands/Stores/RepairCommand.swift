import ArgumentParser
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// Repairs the stores below a directory: keeps the data that can be read and sets the rest aside.
struct RepairCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair", abstract: "Set aside what cannot be read in the stores below a directory.",
        discussion: """
            What `forge check` reports as damaged is repaired if its content is wrong; nothing else is changed:

            - The readable records of a key-value store stay; its unreadable bytes are copied to quarantine-… files beside \
            its log before the log is rewritten without them, as the store itself does when it is opened.
            - Vaults, key files and cached images that are damaged are moved to a directory `quarantine` beside them, \
            unless it is a store or a backup. A damaged vault is moved as a whole, because one authentication code \
            covers all its secrets.
            - A key file that others may read gets mode 0600.
            - A damaged marker of a store, without which its other files are not recognised, is written anew.
            - Files of other programs or of a later version, and files that this process may not read, are left and listed. \
            So is everything that an app has stored in a file store, and a log or vault in a directory that no store has \
            marked; a log there is repaired if its directory itself is given. Nothing is changed in a backup, nor \
            below the directory of a store of a later version.

            Vaults are only verified with their key files. With --dry-run nothing is changed. Quit the apps first: a \
            key-value store that is in use is left as it is.

            Exit status: 0 if nothing is damaged any more, 2 if some damage could not be repaired, 5 if all of it is in \
            stores that are in use.
            """)

    @OptionGroup var stores: CheckedDirectory

    @Flag(name: [.short, .long], help: "Print what would be done, and change nothing.")
    var dryRun = false

    @OptionGroup var output: JSONOption

    private struct Item: Encodable {
        var type = "item"
        let action: String
        let path: String
        let destination: String?
        let details: [String]
    }

    private struct Summary: Encodable {
        var type = "summary"
        let damaged: Int
        let repaired: Int
        let failed: Int
        let dryRun: Bool
    }

    func run() throws {
        var findings = try stores.findings(json: output.json)
        let repair = StoreRepair(
            root: try POSIXPath(URL(POSIXPath(stores.directory))), isDryRun: dryRun)
        var failures: [ExitStatus] = []
        func repairAll(_ findings: [StoreFinding]) throws {
            for finding in findings {
                do {
                    try show(try repair.repair(finding), finding.path)
                } catch {
                    failures.append(ExitStatus(of: error))
                    try show(StoreRepair.Outcome(action: "fail", details: ["\(error)"]), finding.path)
                }
            }
        }
        var damaged = findings.filter { $0.state == .damaged && $0.role == .marker }
        try repairAll(damaged)
        // A marker that is whole again shows what is damaged beside it; a dry run looks as if it were.
        if !damaged.isEmpty {
            findings = try stores.findings(json: output.json, takesDamagedForWhole: dryRun)
        }
        let others = findings.filter { $0.state == .damaged && $0.role != .marker }
        try repairAll(others)
        damaged += others
        let summary = Summary(
            damaged: damaged.count, repaired: damaged.count - failures.count, failed: failures.count, dryRun: dryRun)
        if output.json {
            try StandardOutput.print(line: summary)
        } else {
            let verb = dryRun ? "to repair" : "repaired"
            try StandardOutput.print(
                "\(summary.damaged) damaged, \(summary.repaired) \(verb), \(summary.failed) failed")
        }
        guard !failures.isEmpty else { return }
        throw CommandFailure(
            "\(counted(failures.count, "item")) could not be repaired",
            failures.allSatisfy { $0 == .inUse } && failures.count == damaged.count ? .inUse : .partial)
    }

    private func show(_ outcome: StoreRepair.Outcome, _ path: String) throws {
        if output.json {
            return try StandardOutput.print(
                line: Item(
                    action: outcome.action, path: path, destination: outcome.destination, details: outcome.details))
        }
        var text = "\(outcome.action)  \(path)"
        if let destination = outcome.destination { text += " → \(destination)" }
        if !outcome.details.isEmpty { text += "  (\(outcome.details.joined(separator: "; ")))" }
        try StandardOutput.print(text)
    }
}

/// Repairs one damaged file or store at a time.
struct StoreRepair {
    /// The action taken.
    struct Outcome {
        /// `repair`, `set-aside` or `fail`.
        var action: String
        /// The path to which a file was moved, or would be moved; nil if no file was.
        var destination: String?
        var details: [String]
    }

    let root: POSIXPath
    /// Whether repairs are only reported, with nothing changed (`--dry-run`).
    let isDryRun: Bool
    private let fileSystem = SystemFileSystem()

    /// The name of the directory, beside a file, to which the file is moved.
    private static let quarantine: POSIXPath = "quarantine"

    init(root: POSIXPath, isDryRun: Bool) {
        self.root = root
        self.isDryRun = isDryRun
    }

    /// Repairs the file or store of a finding.
    ///
    /// - Throws: ``CommandFailure`` if it is not repaired, or the error of a store that is in use or cannot be written;
    ///   the file or store is unchanged then.
    func repair(_ finding: StoreFinding) throws -> Outcome {
        let path = root.appending(finding.location)
        guard finding.kind != "directory" else {
            throw CommandFailure("a directory that cannot be read: \(finding.details.joined())")
        }
        if let reason = finding.reasonToKeep {
            throw CommandFailure("left as it is: \(reason); \(finding.details.joined(separator: "; "))")
        }
        switch finding.role {
        case .marker where finding.hasWrongContent: return try repairMarker(path)
        case .log where finding.isMarked || finding.location == FileKVStore.logName:
            return try repairStore(path.splitLast().parent, finding)
        case .vaultKey where try isExposed(path):
            if !isDryRun { try fileSystem.setPermissions(.ownerReadWrite, of: .path(path)) }
            return Outcome(action: "repair", details: ["readable by other users; mode 0600"])
        case .vaultKey where try !finding.hasWrongContent && isPrivate(path):
            return Outcome(action: "repair", details: ["mode 0600 since another name of the file was repaired"])
        case .vault where finding.isMarked && finding.hasWrongContent,
            .vaultKey where finding.isMarked && finding.hasWrongContent,
            .entry where finding.isMarked && finding.hasWrongContent:
            return try setAside(path, finding)
        case .log, .vault, .vaultKey, .entry, .content, .quarantine, .marker, .bookkeeping, .temporary, .moved,
            .special:
            let reason = finding.isMarked || finding.role == .content ? "" : "no store has marked its directory; "
            throw CommandFailure("left as it is: \(reason)\(finding.details.joined(separator: "; "))")
        }
    }

    private func repairMarker(_ path: POSIXPath) throws -> Outcome {
        let (parent, name) = path.splitLast()
        guard let kind = StoreMarker.kind(named: name) else { throw CommandFailure("left as it is: not a marker") }
        if !isDryRun {
            let directory = try fileSystem.openDirectory(parent)
            defer { fileSystem.discard(directory) }
            try fileSystem.repairMarker(of: kind, at: directory)
        }
        return Outcome(action: "repair", details: ["the marker of the \(kind.text)"])
    }

    /// Opens the store, which sets unreadable bytes aside, and verifies that its log is intact afterwards.
    private func repairStore(_ directory: POSIXPath, _ finding: StoreFinding) throws -> Outcome {
        guard !isDryRun else { return Outcome(action: "repair", details: finding.details) }
        let refusal = Mutex<KVStoreError?>(nil)
        let (store, damage) = try KVStoreArgument.open(URL(directory), .readWrite) { error in
            refusal.withLock { $0 = error }
        }
        try store.close()
        guard let inspection = try KVInspection(of: URL(directory)), inspection.problems.isEmpty else {
            let cause = refusal.withLock { $0.map { ": \($0)" } }
            throw CommandFailure("the log could not be rewritten\(cause ?? "")")
        }
        return Outcome(action: "repair", details: damage + ["\(counted(inspection.keyCount, "key")) kept"])
    }

    /// Moves a damaged file durably to the quarantine directory beside it, under a name that does not exist there.
    private func setAside(_ path: POSIXPath, _ finding: StoreFinding) throws -> Outcome {
        let (parent, name) = path.splitLast()
        let directory = parent.appending(Self.quarantine)
        // A check recognises data that was set aside by this prefix.
        let base = Array("quarantine-".utf8) + name.bytes
        guard !isDryRun else {
            if try fileSystem.exists(directory, followsSymbolicLinks: false) {
                let opened = try fileSystem.open(directory, .readOnly, options: [.directory, .noFollow])
                defer { fileSystem.discard(opened) }
                try requireNoStore(in: opened, directory)
            }
            return Outcome(
                action: "set-aside", destination: directory.appending(POSIXPath(base)).shown, details: finding.details)
        }
        try fileSystem.makeDirectories(directory)
        // A link to a directory is not followed.
        let opened = try fileSystem.open(directory, .readOnly, options: [.directory, .noFollow])
        defer { fileSystem.discard(opened) }
        try requireNoStore(in: opened, directory)
        var target = POSIXPath(base)
        var number = 0
        while try !move(path, to: target, in: opened) {
            number += 1
            target = POSIXPath(base + Array("-\(number)".utf8))
        }
        try fileSystem.synchronize(opened, .full)
        try fileSystem.synchronizeParent(of: path)
        return Outcome(
            action: "set-aside", destination: directory.appending(target).shown, details: finding.details)
    }

    /// Throws if a store or a backup has the name of the quarantine directory: a file that is set aside would be one of
    /// its own.
    private func requireNoStore(in directory: Descriptor, _ path: POSIXPath) throws {
        if try StoreScope(of: directory, below: .outside, on: fileSystem).isRoot
            || BackupManifest.isBackup(directory, on: fileSystem)
        {
            throw CommandFailure("\(path.shown) is the directory of a store or of a backup")
        }
    }

    /// Renames a file into a directory; returns false, with nothing changed, if the name exists there.
    private func move(
        _ path: POSIXPath, to target: POSIXPath, in directory: Descriptor
    ) throws(FileSystemError) -> Bool {
        do {
            try fileSystem.rename(path, at: .workingDirectory, to: target, at: directory, .exclusive)
            return true
        } catch {
            guard error.errno == .fileExists else { throw error }
            return false
        }
    }

    /// Whether a key file can be used as it is now.
    private func isPrivate(_ path: POSIXPath) throws -> Bool {
        do throws(CryptError) {
            return try VaultKeyFile.load(at: URL(path)) != nil
        } catch {
            return false
        }
    }

    /// Whether a key file of this user is intact, but other users can read it.
    private func isExposed(_ path: POSIXPath) throws -> Bool {
        do throws(CryptError) {
            _ = try VaultKeyFile.load(at: URL(path))
            return false
        } catch {
            return try error.code == .insecureFile
                && fileSystem.status(path, followsSymbolicLinks: false).owner == fileSystem.effectiveUser
        }
    }
}
