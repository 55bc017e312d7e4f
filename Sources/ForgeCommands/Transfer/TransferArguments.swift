import ArgumentParser
import ForgeStorage
import Foundation

/// The arguments of `copy`, `export` and `import`.
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

    @Flag(help: "Afterwards, read all items back and compare them with the source.")
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
        // A wait for standard input could not be ended, and a dry run has nothing to tidy up.
        if !dryRun, !source.isStandardStream { Interruption.endInOrder() }
        try requireSource()
        let log = TransferLog(self)
        do {
            try await Interruption.cancelling { try await run(log) }
        } catch {
            log.progress.finish()
            throw error
        }
        try log.finish()
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
