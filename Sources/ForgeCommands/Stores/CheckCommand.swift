import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Reads every store below a directory, verifies its checksums and reports damage; changes nothing.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Verify every store below a directory and report damage.",
        discussion: """
            Nothing is created, changed or removed, and stores in use can be checked. Logs of key-value stores are \
            read record by record, cached images are decoded, other files are read completely (holes of sparse files \
            are skipped). Links, pipes, sockets and devices are listed and skipped. Temporary files are listed as in \
            use, or as orphaned if the process that recorded them has ended. Vaults are opened with the key files that \
            you give; without one, only their headers and lengths can be verified. A vault that none of them opens is \
            not verified: it is sealed under another key, or its header was changed. The files of a backup must have the \
            sizes in its manifest.

            Long paths are shortened, except with --json, which prints a finding per line and at the end a summary. A \
            directory whose path is too long for the system is reported and not entered.

            Exit status: 0 if nothing is damaged, 1 if something is damaged, or if none of the given keys opens a vault, 2 if \
            something was moved meanwhile and not checked, 4 if there is no store, 64 for a usage error.
            """)

    @OptionGroup var stores: CheckedDirectory

    @OptionGroup var output: JSONOption

    private struct Summary: Encodable {
        var type = "summary"
        let checked: Int
        let damaged: Int
        let unverified: Int
        let skipped: Int
    }

    func run() throws {
        try Self.show(stores.findings(json: output.json), json: output.json)
    }

    /// Prints the findings and a summary.
    ///
    /// - Throws: `ExitCode` if something is damaged; ``CommandFailure`` with the status `partial` if something was moved.
    static func show(_ findings: [StoreFinding], json: Bool) throws {
        let damaged = findings.count { $0.state == .damaged }
        let unverified = findings.count { $0.state == .unverified }
        let skipped = findings.count { $0.state == .skipped }
        if json {
            for finding in findings { try StandardOutput.print(line: finding) }
            try StandardOutput.print(
                line: Summary(
                    checked: findings.count - skipped, damaged: damaged, unverified: unverified, skipped: skipped))
        } else {
            var table = TextTable([("Path", .left), ("Kind", .left), ("Bytes", .right), ("State", .left)])
            for finding in findings {
                let state = finding.state.rawValue
                let texts = finding.details.map { $0.shortenedInside(to: 300) }.joined(separator: "; ")
                let details = texts.isEmpty ? "" : " (\(texts))"
                table.add([finding.path.shortenedInside(to: 200), finding.kind, String(finding.bytes), state + details])
            }
            var summary = "\(findings.count - skipped) checked, \(damaged) damaged"
            if unverified > 0 { summary += ", \(unverified) not verified" }
            if skipped > 0 { summary += ", \(skipped) skipped" }
            try StandardOutput.print(table.lines + [summary])
        }
        if damaged + unverified > 0 { throw ExitCode.failure }
        let moved = findings.count { $0.isElsewhere }
        guard moved == 0 else {
            throw CommandFailure("\(counted(moved, "item")) moved meanwhile, not checked: see the list", .partial)
        }
    }
}

/// The directory whose stores `check` and `repair` verify.
struct CheckedDirectory: ParsableArguments {
    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @Option(help: ArgumentHelp("A file that holds the key of vaults; may be given several times.", valueName: "file"))
    var keyFile: [String] = []

    func validate() throws {
        try requirePath(directory, of: "directory")
        for path in keyFile { try requirePath(path, of: "key file") }
    }

    /// Checks every store below the directory, as if damaged markers were whole if `takesDamagedForWhole` is set.
    ///
    /// - Returns: The findings, in the order of their paths.
    /// - Throws: ``CommandFailure`` with the status `notFound` if there are no files.
    func findings(json: Bool, takesDamagedForWhole: Bool = false) throws -> [StoreFinding] {
        let root = URL(POSIXPath(directory))
        try requireStore("directory", at: root, isDirectory: true)
        let progress = Progress("files checked", .current(json: json))
        let keys = try keyFile.map { try loadKey(at: URL(POSIXPath($0))) }
        let tree = try ConfinedDirectory(POSIXPath(root))
        var checker = StoreChecker(keys: keys, progress: progress)
        checker.takesDamagedForWhole = takesDamagedForWhole
        guard let findings = try checker.check(tree) else {
            throw CommandFailure("no store here: \(try POSIXPath(root)) contains no files", .notFound)
        }
        progress.finish()
        return findings
    }
}

/// The result of a check of one file or store.
struct StoreFinding: Encodable, Equatable {
    enum State: String, Encodable {
        /// All checksums are correct.
        case intact
        /// A part cannot be read, or differs from what was written.
        case damaged
        /// The content can be read, but it has no checksum, or no key was given.
        case readable
        /// None of the given keys opens the vault, so changes to it would not be detected.
        case unverified
        /// A link, a special file, or a directory that is being deleted or was moved; it was not opened.
        case skipped
    }

    var type = "finding"
    /// The path relative to the directory that is checked.
    var path: String
    /// The kind of file or store.
    var kind: String
    var bytes: Int
    var state: State
    /// Damage, counts, and the origin of the file.
    var details: [String] = []
    /// The path as bytes; ``path`` is its text.
    var location: POSIXPath
    /// Whether it was not found where it was listed, and may be elsewhere.
    var isElsewhere = false
    /// The role of the file; `content` for a directory that cannot be read.
    var role = FileRole.content
    /// Whether its directory is the root of a store.
    var isMarked = false
    /// Whether the content itself is wrong or unreadable. False if a later version or another program wrote the file,
    /// or if this process may not read it.
    var hasWrongContent = false
    /// Why `repair` leaves the file as it is; nil if it may be repaired.
    var reasonToKeep: String?

    private enum CodingKeys: CodingKey {
        case type, path, kind, bytes, state, details
    }
}

/// Finds the origin of a temporary file in the records of the stores in its parent directories.
struct TemporaryFileLookup {
    private let fileSystem: SystemFileSystem

    init(on fileSystem: SystemFileSystem) {
        self.fileSystem = fileSystem
    }

    /// The origin of a temporary file or directory according to a store below `top`; nil if no store has recorded it.
    func origin(of path: POSIXPath, below top: POSIXPath) throws(FileSystemError) -> TemporaryFileOrigin? {
        var root = path.splitLast().parent
        var origin = try TemporaryFileOrigin.find(path, below: root, on: fileSystem)
        while origin == nil, root.count > top.count {
            root = root.splitLast().parent
            origin = try TemporaryFileOrigin.find(path, below: root, on: fileSystem)
        }
        return origin
    }

    /// A one-line description of a temporary file.
    func details(of name: POSIXPath, _ origin: TemporaryFileOrigin?) -> String {
        switch origin {
        case .inUse: "in use by a process that has the store open"
        case .orphaned: "orphaned: its process has ended; the next process that writes to the store removes it"
        case .unrecorded: "orphaned: its process has ended and no record says where it is; no store removes it"
        case nil where FileKVStore.isTemporary(name) || VaultCrypt.isTemporary(name):
            "of a write that is in progress or was interrupted; the next opening or change of the store removes it"
        case nil where name.isMovedFile:
            "of a move into the store that is in progress or was interrupted; no store removes it, it may be the only copy"
        case nil: "no store below the checked directory has recorded it; no store removes it"
        }
    }
}
