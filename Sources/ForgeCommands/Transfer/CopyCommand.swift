import ArgumentParser
import ForgeStorage
import Foundation

/// The text that explains `copy`.
private let discussion = """
    Items that are already equal are skipped, after a comparison of their contents, so the same command continues after \
    an interruption and starts again with every item that has changed. Each item is written under another name, or in \
    one batch, and appears complete or not at all, also after control-C or a kill; a long file that was copied to a tree \
    in part goes on where it stopped, and --delete removes such parts of files that have changed. At the end everything \
    is flushed to the device. A missing or empty source is an error, so that a mistyped path deletes nothing. Nothing \
    is deleted either, and the exit status is 2, if an item failed, or if the source then has a file that was not \
    copied: it may have been moved there.

    kv:DIR is a key-value store, file:DIR a file store, tree:DIR an ordinary directory. json:FILE has an object per \
    line: {"key":"name","value":"dusk"}, with "version" if that of the value is not 1, or with "base64" instead of a \
    value that JSON cannot hold exactly; one object of names and values is read too. Each line is counted; of lines \
    with the same key the last one holds. json:- is standard input or output; then everything else goes to standard \
    error. A json:FILE that exists is replaced only if the whole source could be read. Links, pipes and devices are \
    skipped and listed, and the exit status is 2 then; empty directories are not copied. A tree is read and written \
    without following links below it.

    A store within the tree of a destination is kept as a whole, or is a copy of one in the source: its files are \
    replaced, and with --delete removed, only if the source has a store of the same kinds at the same path. A \
    key-value store that another process has open is not replaced. Locks and journals always stay. A log, vault or key \
    in a directory that no store has marked is replaced only by a file of the same kind, and never deleted; a file \
    store is not created above one. A backup is kept as a whole too, unless the source has one at the same path. What \
    is kept of a store that the source does not have is listed, and the exit status is 2. json:FILE is refused in the \
    directory of a store, also as a new file.

    Files and new directories of a tree have the permissions of the source's when they are written, without special \
    bits; permissions alone are not compared. Of extended attributes, those that file stores have set are copied.

    etcd://host:2379/prefix is a key-value store in etcd, etcds:// the same over TLS, s3://bucket/prefix a file store \
    in S3; `forge help` describes their URLs. Values in etcd are compared and written in batches; one that ends with a \
    lease is written again, without an end. Files in S3 are compared by the SHA-256 that is stored with them; they \
    have no attributes and no permissions, so that those of the source are not copied. An interrupted upload of a long \
    file begins again. A server may refuse a value that is too large, which is listed.

    Stores can be read while an app writes to them. A key-value store is copied as it was when it was opened; a file, \
    as it was when its copy began, and one that is changed during its copy fails.
    """

struct CopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy", abstract: "Copy the items of a store, a directory or a file of JSON lines to another.",
        discussion: discussion)

    @OptionGroup var arguments: TransferArguments

    func run() async throws {
        try await arguments.transfer()
    }
}

/// The arguments of `copy`.
struct TransferArguments: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "kv:DIR, file:DIR, tree:DIR, json:FILE, json:-, etcd://host:2379/prefix or s3://bucket/prefix.",
            valueName: "source"))
    var source: Home

    @Argument(help: ArgumentHelp("The same; a missing one is created.", valueName: "destination"))
    var destination: Home

    @Flag(name: [.short, .long], help: "Print what would be done with each item, and change nothing.")
    var dryRun = false

    @Flag(help: "Afterwards, delete the items of the destination that the source does not have.")
    var delete = false

    @Option(help: ArgumentHelp("Delete nothing if it would be more items than this.", valueName: "number"))
    var maxDelete = 100

    @Flag(
        help: """
            Afterwards, read all items back and compare them with the source; files that have appeared there since are \
            listed.
            """)
    var verify = false

    @OptionGroup var output: JSONOption

    func validate() throws {
        for home in [source, destination] { _ = try home.server() }
        guard source.scheme.isKeyValue == destination.scheme.isKeyValue else {
            throw ValidationError(
                "kv, json and etcd hold keys and values, file, tree and s3 hold files: \(source.text) cannot be copied to "
                    + destination.text)
        }
        guard maxDelete >= 0 else { throw ValidationError("--max-delete is negative") }
        if delete, destination.scheme == .json {
            throw ValidationError("--delete makes no sense with json, which is always written anew")
        }
        if verify, source.isStandardStream || destination.isStandardStream {
            throw ValidationError("--verify cannot read standard input or output again")
        }
        if verify, source.scheme == .json, destination.scheme == .json {
            throw ValidationError("--verify needs a store on one side")
        }
    }

    /// Copies the items and prints a summary.
    ///
    /// - Throws: ``CommandFailure``: the status is `partial` if some items were not copied.
    func transfer() async throws {
        // Lines may have to be waited for: reading defers it when they are open. A dry run has nothing to tidy up.
        if !dryRun, source.scheme != .json { Interruption.deferInterruption() }
        try requireSource()
        if [.files, .tree, .keyValue].contains(destination.scheme) {
            try requireOutsideBackups(POSIXPath(destination.url), destination.text)
        }
        let log = TransferLog(self)
        do {
            try await Interruption.cancelling { try await run(log) }
        } catch {
            log.progress.finish()
            if leavesCopies(after: error, log) {
                // The first error is the one to report.
                do { try log.printSummary() } catch _ {}
            }
            throw error
        }
        try log.finish()
    }

    /// Whether the destination keeps what was copied before an error: a file of lines is replaced as a whole or not at
    /// all. A transfer that is interrupted prints one line.
    private func leavesCopies(after error: any Error, _ log: TransferLog) -> Bool {
        switch ExitStatus(of: error) {
        case .interrupted: false
        case .partial: destination.scheme != .json
        default: destination.scheme != .json && log.hasChanges
        }
    }

    private func run(_ log: TransferLog) async throws {
        if source.scheme.isKeyValue {
            try await KeyValueTransfer(self, log).run()
        } else if source.scheme.isServer || destination.scheme.isServer {
            try await ServerFileTransfer(self, log).run()
        } else {
            try await FileTransfer(self, log).run()
        }
    }

    private func requireSource() throws {
        switch source.scheme {
        case .keyValue, .etcd, .etcds, .s3: break  // Opening or reading it reports what is missing.
        case .json where source.isStandardStream: break
        case .json: try requireStore("file", at: source.url)
        case .files: try requireStore("file store", at: source.url, isDirectory: true)
        case .tree: try requireStore("directory", at: source.url, isDirectory: true)
        }
    }
}
